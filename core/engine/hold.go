package engine

import (
	"slices"
	"time"

	"github.com/tangram-dev/tangram/core/explain"
	"github.com/tangram-dev/tangram/core/ledger"
	"github.com/tangram-dev/tangram/core/model"
)

// The engine is the only writer of its ledger. What happens outside comes in here:
// nodes, and pods that are bound or gone.

// SetNode adds a node or replaces its inventory, with what was measured on its devices.
// It says whether that changed what can be placed there.
func (e *Engine) SetNode(n *model.Node, t []model.Telemetry) (changed bool, err error) {
	before := e.ledger.Version()
	if err := e.ledger.SetNode(n); err != nil {
		return false, err
	}
	e.ledger.SetTelemetry(n.ID, t)
	return e.nodesChanged(before), nil
}

// RemoveNode takes a node away. What is bound there counts again when it returns.
func (e *Engine) RemoveNode(id model.NodeID) (changed bool) {
	before := e.ledger.Version()
	e.ledger.RemoveNode(id)
	e.vetoes.nodeChanged(id)
	return e.nodesChanged(before)
}

func (e *Engine) nodesChanged(before uint64) bool {
	if e.ledger.Version() == before {
		return false
	}
	e.generation++
	e.freed++
	// Where and when gangs can start is found anew; what is being freed stays.
	for _, r := range e.reserved {
		r.doubtful = r.until == 0
	}
	return true
}

// Bound tells what a pod that is bound to a node holds there. holders are all names
// under which it may hold something. What was assumed for it is confirmed or replaced.
func (e *Engine) Bound(node model.NodeID, holders []model.HolderID, claims []ledger.Claim) {
	for _, h := range holders {
		if !slices.ContainsFunc(claims, func(c ledger.Claim) bool { return c.Holder == h }) {
			e.drop(h)
		}
	}
	for _, c := range claims {
		was, old, known := e.ledger.Claim(c.Holder)
		_, held := e.ledger.Held(c.Holder)
		e.ledger.Put(node, c)
		_, holds := e.ledger.Held(c.Holder)
		// Who else may be there depends on devices and on labels.
		moved := known && (was != node || held != holds || old.Count != c.Count || len(old.Parts) != len(c.Parts))
		labels := !known || !slices.Equal(old.Labels, c.Labels) || !slices.EqualFunc(old.Apart, c.Apart, model.AffinityRule.Equal)
		if moved || labels && e.affine > 0 {
			e.freed++
		}
	}
	for _, h := range holders {
		e.lose(h)
		e.locate(h)
	}
}

// locate brings a member's place up to date with its confirmed claim.
func (e *Engine) locate(h model.HolderID) {
	if k := e.gangOf(h); k != nil && e.confirm(k, h) {
		e.recount(k)
	}
}

// confirm takes note that a member is bound, if its claim says so; recount must follow.
func (e *Engine) confirm(k *known, h model.HolderID) bool {
	node, claim, held := e.ledger.Claim(h)
	if s := k.placed[h]; !held || claim.Assumed || s.bound && s.node == node {
		return false
	}
	since := e.now
	if claim.Since < never/int64(time.Second) {
		since = claim.Since * int64(time.Second)
	}
	e.found(k, h, node, since)
	s := k.placed[h]
	s.bound = true
	k.placed[h] = s
	k.failures, k.lastRefusal = 0, ""
	k.futile.kept, k.futile.rekept = nil, 0
	return true
}

// Ended tells that holders have no place any more: their pod ended, was evicted or is
// gone. A member that still exists waits again (see Submit).
func (e *Engine) Ended(holders ...model.HolderID) {
	for _, h := range holders {
		e.drop(h)
		e.lose(h)
		delete(e.leaving, h)
		delete(e.spared, h)
		if k := e.gangOf(h); k != nil {
			if _, placed := k.placed[h]; placed {
				e.remove(k, h)
				e.recount(k)
			}
		}
	}
}

// drop ends what a holder holds.
func (e *Engine) drop(h model.HolderID) {
	if _, _, held := e.ledger.Claim(h); held {
		e.ledger.Drop(h)
		e.freed++
	}
}

// forget ends what a holder was promised. What its pod holds is confirmed and stays
// until the pod is gone, whatever becomes of its gang.
func (e *Engine) forget(h model.HolderID) {
	if _, c, held := e.ledger.Claim(h); held && c.Assumed {
		e.ledger.Drop(h)
		e.freed++
	}
}

// Assume holds devices for a holder outside of any gang (the extender binds what its
// kube-scheduler has chosen).
func (e *Engine) Assume(h model.HolderID, r *model.Request, node model.NodeID) (Release, *explain.Refusal) {
	v, there := e.ledger.View(node)
	if !there {
		return Release{}, &explain.Refusal{Code: explain.NoDevices, Need: int64(r.Count())}
	}
	grant, refusal := e.planner.Fit(r, v)
	if refusal != nil {
		return Release{}, refusal
	}
	claim := grant.Claim(h, r, v.Node)
	claim.Assumed = true
	e.ledger.Put(node, claim)
	return Release{Holder: h, Node: v.Node, Grant: grant}, nil
}

// Unassume takes back what was assumed, unless it has been confirmed.
func (e *Engine) Unassume(h model.HolderID) { e.forget(h) }
