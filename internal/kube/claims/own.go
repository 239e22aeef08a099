package claims

import (
	"maps"
	"slices"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/types"

	coreanswer "github.com/tangram-dev/tangram/core/answer"
	"github.com/tangram-dev/tangram/core/engine"
	"github.com/tangram-dev/tangram/core/explain"
	"github.com/tangram-dev/tangram/core/ledger"
	"github.com/tangram-dev/tangram/core/model"
	"github.com/tangram-dev/tangram/internal/kube/dra"
)

// Change is what core is to be told of devices that a claim holds in its own name.
type Change struct {
	// Ended are holders that hold nothing any more. They end before Hold begins.
	Ended []model.HolderID
	// Hold is what a claim holds on a node from now on; no holder: nothing new.
	Node model.NodeID
	Hold ledger.Claim
	// Was and Is are the claim's holder before and after; empty: it holds nothing itself.
	Was, Is model.HolderID
}

// Update decides what a claim holds in its own name, after it or a pod that names it has
// changed: its allocation, unless a pod carries it; or whether it was left behind (GiveBack).
func (c *Claims) Update(key string, now time.Time) (out Change) {
	out.Was = c.own[key]
	c.update(key, &out)
	out.Is = c.own[key]
	c.lookLeft(key, now)
	return out
}

func (c *Claims) update(key string, out *Change) {
	claim := c.book.Claim(key)
	if claim != nil {
		if hold := c.book.Holds(claim.Status.Allocation); hold.Missing != "" {
			c.Unplaced(model.NodeID(hold.Missing), key, nil)
		}
		out.Ended = append(out.Ended, c.written(claim)...)
		if node, hold, ok := c.book.OwnHold(claim, c.covers); ok {
			if out.Was != "" && out.Was != hold.Holder {
				out.Ended = append(out.Ended, out.Was)
			}
			out.Node, out.Hold = model.NodeID(node), hold
			if n := c.ledger.Inventory(out.Node); n == nil || !number(&out.Hold, n) {
				c.Unplaced(out.Node, key, nil)
			}
			c.own[key] = hold.Holder
			delete(c.pending, hold.Holder)
			return
		}
		if c.pending[dra.Holder(claim.UID)] && claim.Status.Allocation == nil {
			return // its allocation is on its way
		}
	}
	out.Ended = append(out.Ended, c.end(key)...)
}

// end ends what a claim holds in its own name, if it does.
func (c *Claims) end(key string) []model.HolderID {
	h, holds := c.own[key]
	if !holds {
		return nil
	}
	delete(c.own, key)
	delete(c.pending, h)
	return []model.HolderID{h}
}

// TakenOver ends what claims hold in their own name that a bound pod is counted for now. Core
// is told of the pod right after: at no moment are the devices free, or held twice.
func (c *Claims) TakenOver(pod *v1.Pod) (ended []model.HolderID) {
	if c == nil {
		return nil
	}
	for _, key := range c.book.Carried(pod) {
		ended = append(ended, c.end(key)...)
	}
	if c.pending[dra.Holder(pod.UID)] && c.book.ExtendedSeen(pod) {
		ended = append(ended, c.end(unwrittenKey(pod.UID))...)
	}
	return ended
}

// written ends what is held for extended resources once their claim is seen to hold it.
func (c *Claims) written(claim *resourceapi.ResourceClaim) []model.HolderID {
	pod := dra.ForExtended(claim)
	if pod == "" || !c.pending[dra.Holder(pod)] {
		return nil
	}
	hold := c.book.Holds(claim.Status.Allocation)
	n := c.ledger.Inventory(model.NodeID(hold.Node))
	if _, set := c.ledger.Held(dra.Holder(pod)); n != nil && set != 0 && set&^cards(&hold, n) == 0 {
		return c.end(unwrittenKey(pod))
	}
	return nil
}

// pendingAs is under which key and holder a claim is held that the API does not have
// allocated yet. One for extended resources is not even written: it is known by its pod.
func pendingAs(c *resourceapi.ResourceClaim) (key string, h model.HolderID) {
	if pod := dra.Unwritten(c); pod != "" {
		return unwrittenKey(pod), dra.Holder(pod)
	}
	return c.Namespace + "/" + c.Name, dra.Holder(c.UID)
}

// unwrittenKey is no claim's namespace and name.
func unwrittenKey(pod types.UID) string { return "/" + string(pod) }

// Gone ends what is held for a pod's extended resources: the pod is gone.
func (c *Claims) Gone(pod *v1.Pod) []model.HolderID {
	if c == nil {
		return nil
	}
	return c.end(unwrittenKey(pod.UID))
}

// Holders are the names under which claims hold devices, and the claims' namespace/name.
func (c *Claims) Holders() map[model.HolderID]string {
	if c == nil {
		return nil
	}
	out := make(map[model.HolderID]string, len(c.own))
	for key, h := range c.own { // each for itself
		out[h] = key
	}
	return out
}

// OwnHolds is what the stores say that claims hold in their own name, by node. covers is
// asked under the engine's lock by locked; otherwise it is safe for concurrent use.
func (c *Claims) OwnHolds(locked func(func()), describe func(node string) *model.Node) map[string][]ledger.Claim {
	if c == nil {
		return nil
	}
	out := c.book.OwnHolds(func(p *v1.Pod, h *dra.Hold) (ok bool) {
		locked(func() { ok = c.covers(p, h) })
		return ok
	})
	for node, list := range out {
		if n := describe(node); n != nil {
			for i := range list {
				number(&list[i], n)
			}
		}
	}
	return out
}

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

// IdleFor are claims without pods on nodes where a role would fit without them, sorted.
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

// Visible is what a caller may know of idle claims. It may ask the API server: no lock.
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
