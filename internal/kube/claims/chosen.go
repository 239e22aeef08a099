package claims

import (
	resourceapi "k8s.io/api/resource/v1"

	"github.com/tangram-dev/tangram/core/engine"
	"github.com/tangram-dev/tangram/core/explain"
	"github.com/tangram-dev/tangram/core/ledger"
	"github.com/tangram-dev/tangram/core/model"
	"github.com/tangram-dev/tangram/internal/kube/dra"
)

// Chosen is what kube-scheduler's allocator has chosen for the claims of a released pod, as
// the ledger counts it; nothing when its claims are for other devices than GPUs. ask is what
// the pod's claims asked for when its place was planned. A refusal says that the choice
// cannot be: it is on another node, or of a claim whose allocation was given back since.
func (c *Claims) Chosen(r *engine.Release, ask *dra.Ask, list []*resourceapi.ResourceClaim) (ledger.Claim, *explain.Refusal) {
	all := ledger.Claim{Vendor: model.NVIDIA}
	for _, claim := range list {
		if ask.Uses(claim.Name) {
			return ledger.Claim{}, &explain.Refusal{Code: explain.Taken}
		}
		hold := c.book.Holds(claim.Status.Allocation, string(r.Node.ID))
		if hold.Empty() {
			continue
		}
		if hold.Node != string(r.Node.ID) {
			return ledger.Claim{}, &explain.Refusal{Code: explain.Taken}
		}
		one := hold.Claim(r.Holder)
		all.Count += one.Count
		all.Devices, all.Parts = append(all.Devices, one.Devices...), append(all.Parts, one.Parts...)
	}
	number(&all, r.Node)
	return all, nil
}

// AsPlanned says whether what was chosen is what a release grants: just its devices, or parts
// of them.
func AsPlanned(chosen *ledger.Claim, r *engine.Release) bool {
	var set model.Mask
	for _, d := range chosen.Devices {
		set = set.With(max(0, r.Node.Slot(d.Index, d.UUID)))
	}
	for _, p := range chosen.Parts {
		set = set.With(max(0, r.Node.Slot(p.Device.Index, p.Device.UUID)))
	}
	return set&^r.Grant.Set == 0 && (len(chosen.Parts) > 0 || set == r.Grant.Set)
}

// Allocation is what an allocator has chosen for a claim of a pod that the engine does not
// place: until the API has it, the claim holds it in its own name.
type Allocation struct {
	Node model.NodeID
	Hold ledger.Claim
	key  string
}

// Allocation is what was chosen for a claim; false when that is no GPU.
func (c *Claims) Allocation(claim *resourceapi.ResourceClaim) (a Allocation, ok bool) {
	hold := c.book.Holds(claim.Status.Allocation)
	if hold.Empty() {
		return a, false
	}
	key, holder := pendingAs(claim)
	a = Allocation{Node: model.NodeID(hold.Node), Hold: hold.Claim(holder), key: key}
	if n := c.ledger.Inventory(a.Node); n != nil {
		number(&a.Hold, n)
	}
	return a, true
}

// Held takes note that the ledger holds what was chosen for a claim.
func (c *Claims) Held(a *Allocation) {
	c.pending[a.Hold.Holder] = true
	c.own[a.key] = a.Hold.Holder
}

// Unhold ends what is held for claims of which the API has not confirmed an allocation, and
// returns the claims that are to be looked at again, by namespace/name.
func (c *Claims) Unhold(list []*resourceapi.ResourceClaim) (ended []model.HolderID, again []string) {
	for _, claim := range list {
		if key, h := pendingAs(claim); c.pending[h] {
			ended = append(ended, c.end(key)...)
			again = append(again, claim.Namespace+"/"+claim.Name)
		}
	}
	return ended, again
}

// Taken are the cards of a node, by UUID, that the ledger holds for others than a pod.
func (c *Claims) Taken(node model.NodeID, but model.HolderID) map[string]bool {
	n := c.ledger.Inventory(node)
	if n == nil {
		return nil
	}
	out := map[string]bool{}
	for slot := range c.ledger.Unfree(node, but).Slots() {
		out[n.Devices[slot].UUID] = true
	}
	return out
}
