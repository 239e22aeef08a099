package cluster

import (
	"slices"

	"github.com/tangram-dev/tangram/core/explain"
	"github.com/tangram-dev/tangram/core/gang"
	"github.com/tangram-dev/tangram/core/ledger"
	"github.com/tangram-dev/tangram/core/memo"
	"github.com/tangram-dev/tangram/core/model"
	"github.com/tangram-dev/tangram/core/score"
)

// Facts answers what core cannot know: Kubernetes' own rules about pods and nodes. An
// answer must stay the same during one call of the engine; between calls the adapter
// may change it and then says so (events NodeRulesChanged, RulesChanged).
type Facts interface {
	// May says why a node does not take pods of a shape, whatever runs there: cordons,
	// taints, selectors. nil: it does.
	May(s model.Shape, n model.NodeID) *explain.Refusal
	// Apart says why pods of two shapes may not share a node; empty when they may. It
	// depends on the shapes alone.
	Apart(a, b model.Shape) string
	// Budgets are the disruption budgets that limit evictions of a holder.
	Budgets(h model.HolderID) []Budget
}

// Budget is how many of the holders that share it may be evicted now.
type Budget struct {
	Name    string `json:"name"`
	Allowed int    `json:"allowed"`
}

// NoFacts is a cluster without rules of its own.
type NoFacts struct{}

// May refuses nothing.
func (NoFacts) May(model.Shape, model.NodeID) *explain.Refusal { return nil }

// Apart keeps nothing apart.
func (NoFacts) Apart(model.Shape, model.Shape) string { return "" }

// Budgets limits nothing.
func (NoFacts) Budgets(model.HolderID) []Budget { return nil }

// Rules is what keeps members off nodes beside devices and amounts. It has no state of its
// own.
type Rules struct {
	ledger  *ledger.Ledger
	memo    *memo.Memo
	options *Options
	roster  *Roster
}

// WeightsOf decide between nodes for a gang.
func (r *Rules) WeightsOf(k *Tracked) score.Weights {
	if k.Weights != (score.Weights{}) {
		return k.Weights
	}
	return r.options.Weights
}

// Constrain gives a question the gang's weights, Kubernetes' rules and the nodes that
// are closed to it; nil: none are.
func (r *Rules) Constrain(k *Tracked, ask *gang.Ask, closed func(model.NodeID) bool) {
	ask.Weights = r.WeightsOf(k)
	if _, none := r.options.Facts.(NoFacts); none && closed == nil && !r.memo.AnyVeto() {
		return
	}
	ask.May = func(role int, node model.NodeID) *explain.Refusal {
		if closed != nil && closed(node) {
			return &explain.Refusal{Code: explain.Taken}
		}
		return r.Refusal(k, role, node)
	}
}

// Refusal says why a node does not take one more member of a role, for all that is
// not a question of devices and amounts: what the adapter knows, what kube-scheduler's
// filters said before, and the pods that are on the node or planned there.
func (r *Rules) Refusal(k *Tracked, role int, node model.NodeID) *explain.Refusal {
	s := k.Roles[role].Shape
	if refusal := r.options.Facts.May(s, node); refusal != nil {
		return refusal
	}
	if refusal := r.memo.Refusal(s, node, r.memo.Now()); refusal != nil {
		return refusal
	}
	if why := r.keptOff(k, role, node); why != "" {
		return &explain.Refusal{Code: explain.Neighbor, Detail: why}
	}
	return nil
}

// keptOff says why the pods on a node, or planned there, keep a member of a role off it.
// Cost: the claims of the node, for shapes that keep apart only.
func (r *Rules) keptOff(k *Tracked, role int, node model.NodeID) (why string) {
	ours := &k.Roles[role]
	if !ours.KeepsApart && ours.MaxPerNode == 0 && r.roster.apart == 0 {
		return ""
	}
	mates := 0
	for claim := range r.ledger.EachClaim(node) {
		o := r.roster.GangOf(claim.Holder)
		if o == nil {
			continue
		}
		if theirs := r.roster.RoleOf(claim.Holder); ours.KeepsApart || theirs.KeepsApart {
			if why := r.options.Facts.Apart(ours.Shape, theirs.Shape); why != "" {
				return why
			}
		}
		if o == k {
			mates++
		}
	}
	if ours.MaxPerNode > 0 && mates >= ours.MaxPerNode {
		return "topology spread constraint"
	}
	return ""
}

// KeptByLabels says whether rules of other holders are about a gang's labels, which are
// no part of its shape: then a verdict about the shape is none about the gang.
func (r *Rules) KeptByLabels(k *Tracked) bool {
	return slices.ContainsFunc(k.Roles, func(role Role) bool { return r.ledger.KeptApart(role.Request.Labels) })
}
