package engine

import (
	"github.com/tangram-dev/tangram/core/explain"
	"github.com/tangram-dev/tangram/core/ledger"
	"github.com/tangram-dev/tangram/core/model"
	"github.com/tangram-dev/tangram/core/place"
)

// Inventory is a node as the ledger has it, not to be changed; nil when it is not there.
func (e *Engine) Inventory(id model.NodeID) *model.Node {
	if v, there := e.ledger.View(id); there {
		return v.Node
	}
	return nil
}

// Assumes says whether something is held for a holder that is not confirmed.
func (e *Engine) Assumes(h model.HolderID) bool {
	_, c, held := e.ledger.Claim(h)
	return held && c.Assumed
}

// Unfree are the devices of a node that are held, whole or in part, by others than a
// holder.
func (e *Engine) Unfree(id model.NodeID, but model.HolderID) model.Mask {
	v, there := e.ledger.ViewWith(id, func(h model.HolderID) bool { return h == but }, nil)
	if !there {
		return 0
	}
	return v.Held
}

// Settle gives a member other devices of its planned node than the plan chose: an
// allocator that knows more than core has chosen them. Whole devices and parts are given as
// the claim names them; the rest of the claim is ignored. It says why not when others hold
// them; then nothing has changed.
func (e *Engine) Settle(h model.HolderID, t Ticket, chosen ledger.Claim) (Release, *explain.Refusal) {
	r, k := e.current(h, t), e.gangOf(h)
	if r == nil || k == nil {
		return Release{}, &explain.Refusal{Code: explain.Taken}
	}
	_, claim, held := e.ledger.Claim(h)
	if !held {
		return Release{}, &explain.Refusal{Code: explain.Taken}
	}
	claim.Count, claim.Devices, claim.Parts = len(chosen.Devices), chosen.Devices, chosen.Parts
	if claim.Vendor == "" {
		claim.Vendor = chosen.Vendor
	}
	claim.Standing = ledger.Standing{}
	tx := e.ledger.Begin()
	e.ledger.Drop(h)
	set, refusal := e.assume(r.Node.ID, claim)
	if refusal != nil {
		tx.Rollback()
		return Release{}, refusal
	}
	tx.Keep()
	r.Grant = place.Grant{Set: set}
	for i, p := range claim.Parts {
		r.Grant.Parts = append(r.Grant.Parts, place.GrantedPart{Container: i, Slot: r.Node.Slot(p.Device.Index, p.Device.UUID), Part: p.Part, Memory: p.Memory, Start: p.Start})
	}
	e.freed++ // what the plan had chosen
	e.recount(k)
	return r.Release, nil
}

// Pend holds devices for a holder outside of any gang, which something else has chosen,
// until it is confirmed (Bound) or ended. It says why not when others hold them.
func (e *Engine) Pend(node model.NodeID, claim ledger.Claim) *explain.Refusal {
	tx := e.ledger.Begin()
	if _, refusal := e.assume(node, claim); refusal != nil {
		tx.Rollback()
		return refusal
	}
	tx.Keep()
	return nil
}

// assume puts a claim whose devices are all known, if all of them are free.
func (e *Engine) assume(node model.NodeID, claim ledger.Claim) (model.Mask, *explain.Refusal) {
	taken := &explain.Refusal{Code: explain.Taken, Need: int64(claim.Count + len(claim.Parts))}
	v, there := e.ledger.View(node)
	if !there {
		return 0, taken
	}
	var want model.Mask
	for _, d := range claim.Devices {
		slot := v.Node.Slot(d.Index, d.UUID)
		if slot < 0 || v.Held.Has(slot) || want.Has(slot) {
			return 0, taken
		}
		want = want.With(slot)
	}
	for _, p := range claim.Parts {
		slot := v.Node.Slot(p.Device.Index, p.Device.UUID)
		if slot < 0 || v.Held.Has(slot) && !v.Shared.Has(slot) {
			return 0, taken
		}
		want = want.With(slot)
	}
	debt := e.ledger.Debt(node)
	claim.Assumed = true
	e.ledger.Put(node, claim)
	if _, got := e.ledger.Held(claim.Holder); got != want || e.ledger.Debt(node) > debt {
		return 0, taken // a part did not fit at its place
	}
	return want, nil
}
