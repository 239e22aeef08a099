package engine

import (
	"github.com/tangram-dev/tangram/core/explain"
	"github.com/tangram-dev/tangram/core/model"
)

// Shape is equal for members that are alike in all that decides where they may run:
// what they ask for, and everything Kubernetes' own rules look at, their namespace
// included. Members of one shape are parsed once, refused once and planned once.
type Shape string

// Facts answers what core cannot know: Kubernetes' own rules about pods and nodes. An
// answer must stay the same during one call of the engine; between calls the adapter
// may change it and then says so (NodeRulesChanged, Changed).
type Facts interface {
	// May says why a node does not take pods of a shape, whatever runs there: cordons,
	// taints, selectors. nil: it does.
	May(s Shape, n model.NodeID) *explain.Refusal
	// Apart says why pods of two shapes may not share a node; empty when they may. It
	// depends on the shapes alone.
	Apart(a, b Shape) string
	// Budgets are the disruption budgets that limit evictions of a holder.
	Budgets(h model.HolderID) []Budget
}

// Budget is how many of the holders that share it may be evicted now.
type Budget struct {
	Name    string
	Allowed int
}

// NoFacts is a cluster without rules of its own.
type NoFacts struct{}

// May refuses nothing.
func (NoFacts) May(Shape, model.NodeID) *explain.Refusal { return nil }

// Apart keeps nothing apart.
func (NoFacts) Apart(Shape, Shape) string { return "" }

// Budgets limits nothing.
func (NoFacts) Budgets(model.HolderID) []Budget { return nil }

// refusal says why a node does not take one more member of a role, for all that is
// not a question of devices and amounts: what the adapter knows, what kube-scheduler's
// filters said before, and the pods that are on the node or planned there.
func (e *Engine) refusal(k *known, role int, node model.NodeID) *explain.Refusal {
	s := k.Roles[role].Shape
	if r := e.options.Facts.May(s, node); r != nil {
		return r
	}
	if r := e.vetoes.refusal(s, node, e.now); r != nil {
		return r
	}
	if why := e.keptOff(k, role, node); why != "" {
		return &explain.Refusal{Code: explain.Neighbor, Detail: why}
	}
	return nil
}

// keptOff says why the pods on a node, or planned there, keep a member of a role off it. Cost: the claims of the node, for shapes that keep apart only.
func (e *Engine) keptOff(k *known, role int, node model.NodeID) (why string) {
	r := &k.Roles[role]
	if !r.KeepsApart && r.MaxPerNode == 0 && e.apart == 0 {
		return ""
	}
	mates := 0
	for claim := range e.ledger.EachClaim(node) {
		o := e.gangOf(claim.Holder)
		if o == nil {
			continue
		}
		if theirs := e.roleOf(claim.Holder); r.KeepsApart || theirs.KeepsApart {
			if why := e.options.Facts.Apart(r.Shape, theirs.Shape); why != "" {
				return why
			}
		}
		if o == k {
			mates++
		}
	}
	if r.MaxPerNode > 0 && mates >= r.MaxPerNode {
		return "topology spread constraint"
	}
	return ""
}
