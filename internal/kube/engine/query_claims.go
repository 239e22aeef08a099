package engine

import (
	"maps"
	"slices"
	"strings"

	"github.com/tangram-dev/tangram/core/engine"
	"github.com/tangram-dev/tangram/core/explain"
	"github.com/tangram-dev/tangram/core/model"
)

// idleClaim is a ResourceClaim that holds devices though no pod uses it.
type idleClaim struct {
	key     string // namespace/name
	devices int
}

// Bounds of a question: nodes that are tried, and claims that are named.
const (
	idleNodes = 64
	idleNamed = 3
)

// idleClaimsFor are the claims without pods on nodes where one of a gang's roles would fit
// without them, sorted. The caller holds the lock.
func (e *Engine) idleClaimsFor(g *engine.Gang) (out []idleClaim) {
	if len(e.claims.standing) == 0 {
		return nil
	}
	on := map[model.NodeID][]idleClaim{}
	without := map[model.HolderID]bool{}
	for key, h := range e.claims.standing { // sorted below
		if node, set := e.core.Held(h); node != "" && set.Count() > 0 && !e.claims.pending[h] {
			on[node] = append(on[node], idleClaim{key: key, devices: set.Count()})
			without[h] = true
		}
	}
	for i, node := range slices.Sorted(maps.Keys(on)) {
		if i == idleNodes {
			break
		}
		helps := slices.ContainsFunc(g.Roles, func(r engine.Role) bool {
			return r.Request != nil && r.Request.Vendor != "" && e.core.Fit(r.Request, node, nil) != nil && e.core.Fit(r.Request, node, &engine.Trial{Without: without}) == nil
		})
		if helps {
			out = append(out, on[node]...)
		}
	}
	slices.SortFunc(out, func(a, b idleClaim) int { return strings.Compare(a.key, b.key) })
	return out
}

// idleAnswer is what a caller may know of them. No lock is held: it may ask the API server.
func idleAnswer(claims []idleClaim, see Sight) (out explain.IdleClaims) {
	for _, c := range claims {
		namespace, _, _ := strings.Cut(c.key, "/")
		if !see.MayListPods(namespace) {
			out.Hidden++
			out.HiddenDevices += c.devices
			continue
		}
		out.Seen++
		out.Devices += c.devices
		if len(out.Names) < idleNamed {
			out.Names = append(out.Names, c.key)
		}
	}
	return out
}
