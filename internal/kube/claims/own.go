package claims

import (
	"time"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/types"

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
// changed: all that its allocation names, unless a pod carries it. It takes note of whether
// the allocation was left behind (GiveBack).
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

// TakenOver ends what claims hold in their own name that a bound pod is counted for from now
// on. Core is told of the pod right after it: at no moment are the devices free, and at no
// moment do both hold them.
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

// written ends what is held for a pod's extended resources once the claim is seen that was
// written for them, which holds the same devices.
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
