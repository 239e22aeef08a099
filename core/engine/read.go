package engine

import (
	"iter"
	"slices"

	"github.com/tangram-dev/tangram/core/arbiter"
	"github.com/tangram-dev/tangram/core/explain"
	"github.com/tangram-dev/tangram/core/ledger"
	"github.com/tangram-dev/tangram/core/model"
	"github.com/tangram-dev/tangram/core/place"
	"github.com/tangram-dev/tangram/core/planner"
	"github.com/tangram-dev/tangram/core/score"
)

// Questions about the state as it is. None of them changes a decision.

// Arrive tells of a new request, so that the planner learns what is asked for. Call it
// once per pod.
func (e *Engine) Arrive(r *model.Request) { e.planner.Arrive(r) }

// Candidates yields nodes that can take a request, best first, whatever is reserved.
func (e *Engine) Candidates(r *model.Request, w score.Weights) iter.Seq[planner.Candidate] {
	return e.planner.Candidates(r, w)
}

// Rate says how good a node is for a request, term by term, as if one holder held
// nothing. A node that cannot take it rates 0.
func (e *Engine) Rate(r *model.Request, w score.Weights, node model.NodeID, without model.HolderID) planner.Rating {
	if at, _, held := e.ledger.Claim(without); held && at == node {
		tx := e.ledger.Begin()
		defer tx.Rollback()
		e.ledger.Drop(without)
	}
	rating, _ := e.planner.Rate(r, w, node)
	return rating
}

// Trial is a hypothesis about one node: without some holders, with some more claims.
type Trial struct {
	Without map[model.HolderID]bool
	With    []ledger.Claim
}

// Fit says why a node's devices cannot take a request, or nil.
func (e *Engine) Fit(r *model.Request, node model.NodeID, t *Trial) *explain.Refusal {
	v, ok := e.ledger.View(node)
	if ok && t != nil {
		v, ok = e.ledger.ViewWith(node, func(h model.HolderID) bool { return t.Without[h] }, t.With)
	}
	if !ok {
		return &explain.Refusal{Code: explain.NoDevices, Need: int64(r.Count())}
	}
	return place.Judge(r, v)
}

// Reasons says why nodes' devices cannot take a request.
func (e *Engine) Reasons(r *model.Request) explain.Tally { return e.planner.Reasons(r) }

// Victims names holders of lower priority that must leave a node, beside those that do
// anyway, for a request to fit there; false when that cannot help.
func (e *Engine) Victims(r *model.Request, node model.NodeID, leaving []model.HolderID) ([]model.HolderID, bool) {
	return place.Victims(e.ledger, r, node, leaving)
}

// Alternatives are nodes other than the planned one on which a member that starts alone
// could start as well, best first, at most so many.
func (e *Engine) Alternatives(h model.HolderID, t Ticket, limit int) []model.NodeID {
	r := e.current(h, t)
	k := e.gangOf(h)
	if r == nil || k == nil {
		return nil
	}
	role := e.of[h].role
	weights := e.options.Weights
	if k.Weights != (score.Weights{}) {
		weights = k.Weights
	}
	tx := e.ledger.Begin()
	defer tx.Rollback()
	e.ledger.Drop(h)
	closed := e.closing(k, e.now)
	var out []model.NodeID
	for c := range e.planner.Candidates(k.Roles[role].Request, weights) {
		kept := slices.ContainsFunc(closed, func(r *reservation) bool { return r.has(c.Node) })
		if c.Node == r.Node.ID || kept || e.refusal(k, role, c.Node) != nil {
			continue
		}
		if out = append(out, c.Node); len(out) == limit {
			break
		}
	}
	return out
}

// Contested are the claims on a node whose records cannot be honoured.
func (e *Engine) Contested(node model.NodeID) []ledger.Contested { return e.ledger.Contested(node) }

// Standing decides whether a holder keeps a device that another claim names too.
func (e *Engine) Standing(h model.HolderID) ledger.Standing {
	_, c, _ := e.ledger.Claim(h)
	return c.Standing
}

// HolderOf is the holder with the oldest right to a device; empty when there is none.
func (e *Engine) HolderOf(node model.NodeID, index int) model.HolderID {
	v, there := e.ledger.View(node)
	if !there {
		return ""
	}
	slot := v.Node.Slot(index, "")
	for c := range e.ledger.EachClaim(node) { // those with the oldest right first
		if _, set := e.ledger.Held(c.Holder); slot >= 0 && set.Has(slot) {
			return c.Holder
		}
	}
	return ""
}

// HoldersOn are the holders on a node, sorted.
func (e *Engine) HoldersOn(node model.NodeID) (out []model.HolderID) {
	for c := range e.ledger.EachClaim(node) {
		out = append(out, c.Holder)
	}
	slices.Sort(out)
	return out
}

// Overbooked is by how many devices and parts the claims on a node exceed what it has.
func (e *Engine) Overbooked(node model.NodeID) int { return e.ledger.Debt(node) }

// Held says how many devices a holder holds, whole or in part, and where.
func (e *Engine) Held(h model.HolderID) (model.NodeID, model.Mask) { return e.ledger.Held(h) }

// Confirmed is the ledger in words, without what is only promised.
func (e *Engine) Confirmed() string {
	tx := e.ledger.Begin()
	defer tx.Rollback()
	for _, h := range e.ledger.Assumed() {
		e.ledger.Forget(h)
	}
	return e.ledger.String()
}

// Audit checks the ledger's invariants.
func (e *Engine) Audit() error { return e.ledger.Audit() }

// total is what queues share: the CPUs and memory of all nodes, their devices that are
// healthy or held, and what is held beyond that. A device that failed under a pod, or more
// pods on a node than it has devices, must not make the others wait for what these pods are
// charged.
func (e *Engine) total() map[arbiter.Resource]int64 {
	out := map[arbiter.Resource]int64{}
	for id := range e.ledger.Nodes() { // sums do not depend on the order
		v, _ := e.ledger.View(id)
		out[CPU] += v.Node.Host.CPU
		out[Memory] += int64(v.Node.Host.Memory.MiB())
		for _, vendor := range model.Vendors {
			for slot := range (v.Usable(vendor) | v.Devices(vendor)&v.Held).Slots() {
				d, milli := &v.Node.Devices[slot], int64(model.FullMilli)
				if d.Replicated { // sold once for every turn
					milli *= int64(d.Tenants)
				}
				out[GPU(vendor)] += milli
				if name := d.Model.Name(); name != "" {
					out[Model(name)] += milli
				}
			}
		}
	}
	excess := e.ledger.Excess()
	out[CPU] += excess.Host.CPU
	out[Memory] += int64(excess.Host.Memory.MiB())
	for i, n := range excess.Devices {
		if n > 0 {
			out[GPU(model.Vendors[i])] += int64(n) * model.FullMilli
		}
	}
	return out
}

// CountFleet tells the tree of queues what the nodes offer now.
func (e *Engine) CountFleet() {
	excess := e.ledger.Excess()
	e.counted = &excess
	_ = e.tree.SetTotal(e.total()) // what nodes offer is never negative
}

// countExcess counts the fleet again when more or less is held beyond what nodes have.
func (e *Engine) countExcess() {
	if e.counted != nil && *e.counted != e.ledger.Excess() {
		e.CountFleet()
		e.freed++
	}
}
