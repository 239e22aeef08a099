package cluster

import (
	"github.com/tangram-dev/tangram/core/explain"
	"github.com/tangram-dev/tangram/core/gang"
	"github.com/tangram-dev/tangram/core/ledger"
	"github.com/tangram-dev/tangram/core/memo"
	"github.com/tangram-dev/tangram/core/model"
	"github.com/tangram-dev/tangram/core/place"
)

// put and remove change which members have a place; Recount or index must follow.
func (c *Cluster) put(k *Tracked, h model.HolderID, p Place) {
	c.remove(k, h)
	p.Charge = c.chargeOf(h, &k.Roles[p.Role])
	k.placed[h] = p
	k.count(p.Role, 1)
	k.used = k.used.Plus(p.Charge)
}

func (c *Cluster) remove(k *Tracked, h model.HolderID) {
	if p, ok := k.placed[h]; ok {
		k.count(p.Role, -1)
		k.used = k.used.Minus(p.Charge)
		delete(k.placed, h)
	}
}

// Take writes down a plan that was kept in the ledger.
func (c *Cluster) Take(k *Tracked, plan *gang.Plan, now int64) {
	if len(k.placed) == 0 {
		k.started = now
	}
	for _, p := range plan.Placements {
		c.put(k, p.Holder, Place{Role: p.Role, Node: p.Node})
	}
	if c.affine > 0 {
		c.memo.Note(memo.CompanyCame)
	}
	c.index(k)
}

// Vacate takes a member's place away, and says whether it had one; Recount must follow.
func (c *Cluster) Vacate(k *Tracked, h model.HolderID) bool {
	_, placed := k.placed[h]
	c.remove(k, h)
	return placed
}

// Undo takes back the places of members that could not be carried out, and returns them:
// they wait again. Members that are confirmed in the ledger by now run, and stay. Recount
// must follow.
func (c *Cluster) Undo(k *Tracked, members []model.HolderID) (undone []model.HolderID) {
	for _, h := range members {
		if _, claim, held := c.ledger.Claim(h); held && !claim.Assumed || c.members[h].gang != k.ID {
			continue
		}
		c.ledger.Drop(h)
		c.remove(k, h)
		undone = append(undone, h)
	}
	return undone
}

// Move gives a member another node than was planned, if its devices fit there.
func (c *Cluster) Move(k *Tracked, h model.HolderID, node model.NodeID) (*model.Node, place.Grant, *explain.Refusal) {
	role := k.placed[h].Role
	tx := c.ledger.Begin()
	c.ledger.Drop(h)
	to, grant, refusal := c.promise(h, k.Roles[role].Request, node, explain.Taken)
	if refusal != nil {
		tx.Rollback()
		return nil, place.Grant{}, refusal
	}
	tx.Keep()
	c.put(k, h, Place{Role: role, Node: node})
	c.memo.Note(memo.ClaimMoved) // the planned node is free
	return to, grant, nil
}

// Settle gives a member the devices of its planned node that an allocator has chosen
// instead of the plan's: the whole devices and parts of the claim. It says why not when
// others hold them; then nothing has changed. Recount must follow.
func (c *Cluster) Settle(h model.HolderID, node *model.Node, chosen ledger.Claim) (place.Grant, *explain.Refusal) {
	_, claim, held := c.ledger.Claim(h)
	if !held {
		return place.Grant{}, &explain.Refusal{Code: explain.Taken}
	}
	claim.Count, claim.Devices, claim.Parts = len(chosen.Devices), chosen.Devices, chosen.Parts
	if claim.Vendor == "" {
		claim.Vendor = chosen.Vendor
	}
	claim.Standing = ledger.Standing{}
	tx := c.ledger.Begin()
	c.ledger.Drop(h)
	set, refusal := c.assume(node.ID, claim)
	if refusal != nil {
		tx.Rollback()
		return place.Grant{}, refusal
	}
	tx.Keep()
	grant := place.Grant{Set: set}
	for i, p := range claim.Parts {
		grant.Parts = append(grant.Parts, place.GrantedPart{Container: i, Slot: node.Slot(p.Device.Index, p.Device.UUID), Part: p.Part, Memory: p.Memory, Start: p.Start})
	}
	c.memo.Note(memo.ClaimMoved) // what the plan had chosen is free
	return grant, nil
}

// RestoreStart sets since when a gang runs, more exactly than objects tell.
func (c *Cluster) RestoreStart(k *Tracked, started int64) {
	if len(k.placed) > 0 && started > 0 {
		k.started = started
	}
}
