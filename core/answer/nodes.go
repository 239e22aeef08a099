package answer

import (
	"iter"
	"slices"

	"github.com/tangram-dev/tangram/core/cluster"
	"github.com/tangram-dev/tangram/core/explain"
	"github.com/tangram-dev/tangram/core/ledger"
	"github.com/tangram-dev/tangram/core/model"
	"github.com/tangram-dev/tangram/core/place"
	"github.com/tangram-dev/tangram/core/planner"
	"github.com/tangram-dev/tangram/core/release"
	"github.com/tangram-dev/tangram/core/reserve"
	"github.com/tangram-dev/tangram/core/score"
)

// DeviceNodes are the nodes with devices, sorted. Cost: nodes.
func (a Nodes) DeviceNodes() (out []model.NodeID) {
	for id := range a.cluster.Ledger().Nodes() { // sorted below
		if v, _ := a.cluster.Ledger().View(id); len(v.Node.Devices) > 0 {
			out = append(out, id)
		}
	}
	slices.Sort(out)
	return out
}

// Candidates yields nodes that can take a request, best first, whatever is reserved.
func (a Nodes) Candidates(r *model.Request, w score.Weights) iter.Seq[planner.Candidate] {
	return a.cluster.Planner().Candidates(r, w)
}

// Rate says how good a node is for a request, term by term, as if one holder held
// nothing. A node that cannot take it rates 0.
func (a Nodes) Rate(r *model.Request, w score.Weights, node model.NodeID, without model.HolderID) planner.Rating {
	if at, _, held := a.cluster.Ledger().Claim(without); held && at == node {
		t := a.cluster.Begin()
		defer t.Rollback()
		t.Drop(without)
	}
	rating, _ := a.cluster.Planner().Rate(r, w, node)
	return rating
}

// Trial is a hypothesis about one node: without some holders, with some more claims.
type Trial struct {
	Without map[model.HolderID]bool
	With    []ledger.Claim
}

// Fit says why a node's devices cannot take a request, or nil.
func (a Nodes) Fit(r *model.Request, node model.NodeID, t *Trial) *explain.Refusal {
	v, ok := a.cluster.Ledger().View(node)
	if ok && t != nil {
		v, ok = a.cluster.Ledger().ViewWith(node, func(h model.HolderID) bool { return t.Without[h] }, t.With)
	}
	if !ok {
		return &explain.Refusal{Code: explain.NoDevices, Need: int64(r.Count())}
	}
	return place.Judge(r, v)
}

// Victims names members that must leave one node for a request of a gang to fit there, beside
// those that another scheduler has chosen; see preempt.Preemptor.OnNode.
func (a Nodes) Victims(g *cluster.Gang, r *model.Request, node model.NodeID, chosen []model.HolderID) ([]model.HolderID, bool) {
	return a.preemptor.OnNode(g, r, node, chosen)
}

// Alternatives are nodes other than the planned one on which a member that starts alone
// could start as well, best first, at most so many.
func (a Nodes) Alternatives(h model.HolderID, ticket release.Ticket, limit int) []model.NodeID {
	r, current := a.releases.Current(h, ticket)
	k := a.cluster.GangOf(h)
	if !current || k == nil {
		return nil
	}
	role := a.cluster.RoleNumber(h)
	t := a.cluster.Begin()
	defer t.Rollback()
	t.Drop(h)
	closed := reserve.Closed(a.book.Closing(k, a.memo.Now()))
	var out []model.NodeID
	for c := range a.cluster.Planner().Candidates(k.Roles[role].Request, a.cluster.WeightsOf(k)) {
		if c.Node == r.Node.ID || closed != nil && closed(c.Node) || a.cluster.Refusal(k, role, c.Node) != nil {
			continue
		}
		if out = append(out, c.Node); len(out) == limit {
			break
		}
	}
	return out
}

// Contested are the claims on a node whose records cannot be honoured.
func (a Nodes) Contested(node model.NodeID) []ledger.Contested {
	return a.cluster.Ledger().Contested(node)
}

// Standing decides whether a holder keeps a device that another claim names too.
func (a Nodes) Standing(h model.HolderID) ledger.Standing {
	_, c, _ := a.cluster.Ledger().Claim(h)
	return c.Standing
}

// HolderOf is the holder with the oldest right to a device; empty when there is none.
func (a Nodes) HolderOf(node model.NodeID, index int) model.HolderID {
	v, there := a.cluster.Ledger().View(node)
	if !there {
		return ""
	}
	slot := v.Node.Slot(index, "")
	for c := range a.cluster.Ledger().EachClaim(node) { // those with the oldest right first
		if _, set := a.cluster.Ledger().Held(c.Holder); slot >= 0 && set.Has(slot) {
			return c.Holder
		}
	}
	return ""
}

// HoldersOn are the holders on a node, sorted.
func (a Nodes) HoldersOn(node model.NodeID) (out []model.HolderID) {
	for c := range a.cluster.Ledger().EachClaim(node) {
		out = append(out, c.Holder)
	}
	slices.Sort(out)
	return out
}

// Overbooked is by how many devices and parts the claims on a node exceed what it has.
func (a Nodes) Overbooked(node model.NodeID) int { return a.cluster.Ledger().Debt(node) }

// Held says how many devices a holder holds, whole or in part, and where.
func (a Nodes) Held(h model.HolderID) (model.NodeID, model.Mask) { return a.cluster.Ledger().Held(h) }

// Confirmed is the ledger in words, without what is only promised.
func (a Nodes) Confirmed() string {
	t := a.cluster.Begin()
	defer t.Rollback()
	t.DropPromises()
	return a.cluster.Ledger().String()
}

// Audit checks the ledger's invariants.
func (a Nodes) Audit() error { return a.cluster.Ledger().Audit() }

// Inventory is a node as the ledger has it, not to be changed; nil when it is not there.
func (a Nodes) Inventory(id model.NodeID) *model.Node {
	if v, there := a.cluster.Ledger().View(id); there {
		return v.Node
	}
	return nil
}

// Assumes says whether something is held for a holder that is not confirmed.
func (a Nodes) Assumes(h model.HolderID) bool {
	_, c, held := a.cluster.Ledger().Claim(h)
	return held && c.Assumed
}

// Unfree are the devices of a node that are held, whole or in part, by others than a
// holder.
func (a Nodes) Unfree(id model.NodeID, but model.HolderID) model.Mask {
	v, there := a.cluster.Ledger().ViewWith(id, func(h model.HolderID) bool { return h == but }, nil)
	if !there {
		return 0
	}
	return v.Held
}

// KeptNodes are the nodes that are kept for waiting gangs, sorted.
func (a Nodes) KeptNodes() []model.NodeID {
	var out []model.NodeID
	for _, r := range a.book.All() {
		out = append(out, r.Nodes()...)
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// InWords is what is held on a node, without what is only promised; empty when the
// node is not there.
func (a Nodes) InWords(id model.NodeID) string {
	v, there := a.cluster.Ledger().View(id)
	if !there {
		return ""
	}
	one := ledger.New()
	if one.SetNode(v.Node) != nil {
		return ""
	}
	for _, c := range a.cluster.Ledger().Claims(id) {
		if !c.Assumed {
			one.Put(id, c)
		}
	}
	return one.String()
}
