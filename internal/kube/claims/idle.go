package claims

import (
	"maps"
	"slices"
	"strings"

	coreanswer "github.com/tangram-dev/tangram/core/answer"
	"github.com/tangram-dev/tangram/core/engine"
	"github.com/tangram-dev/tangram/core/explain"
	"github.com/tangram-dev/tangram/core/model"
)

// Idle is a ResourceClaim that holds devices though no pod uses it.
type Idle struct {
	Key     string // namespace/name
	Devices int
}

// Bounds of a question: nodes that are tried, and claims that are named.
const (
	idleNodes = 64
	idleNamed = 3
)

// IdleFor are the claims without pods on nodes where one of a gang's roles would fit without
// them, sorted.
func (c *Claims) IdleFor(g *engine.Gang) (out []Idle) {
	if c == nil || len(c.own) == 0 {
		return nil
	}
	on := map[model.NodeID][]Idle{}
	without := map[model.HolderID]bool{}
	for key, h := range c.own { // sorted below
		if node, set := c.ledger.Held(h); node != "" && set.Count() > 0 && !c.pending[h] {
			on[node] = append(on[node], Idle{key, set.Count()})
			without[h] = true
		}
	}
	for i, node := range slices.Sorted(maps.Keys(on)) {
		if i == idleNodes {
			break
		}
		helps := slices.ContainsFunc(g.Roles, func(r engine.Role) bool {
			return r.Request != nil && r.Request.Vendor != "" && c.ledger.Fit(r.Request, node, nil) != nil && c.ledger.Fit(r.Request, node, &coreanswer.Trial{Without: without}) == nil
		})
		if helps {
			out = append(out, on[node]...)
		}
	}
	slices.SortFunc(out, func(a, b Idle) int { return strings.Compare(a.Key, b.Key) })
	return out
}

// Visible is what a caller who may list the pods of some namespaces may know of idle claims.
// No lock is held: the API server may be asked.
func Visible(idle []Idle, mayListPods func(namespace string) bool) (out explain.IdleClaims) {
	for _, x := range idle {
		namespace, _, _ := strings.Cut(x.Key, "/")
		if !mayListPods(namespace) {
			out.Hidden++
			out.HiddenDevices += x.Devices
			continue
		}
		out.Seen++
		out.Devices += x.Devices
		if len(out.Names) < idleNamed {
			out.Names = append(out.Names, x.Key)
		}
	}
	return out
}
