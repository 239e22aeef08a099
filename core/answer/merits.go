package answer

import (
	"github.com/tangram-dev/tangram/core/explain"
	"github.com/tangram-dev/tangram/core/gang"
	"github.com/tangram-dev/tangram/core/model"
	"github.com/tangram-dev/tangram/core/planner"
	"github.com/tangram-dev/tangram/core/score"
)

// Merits is why a holder is where it is: how its node rates, and how others would, as found
// now with the holder taken out. What was true when it was placed is not kept.
type Merits struct {
	Node    model.NodeID
	Weights score.Weights
	// Rating is its node's; false in Fits when the node would not take it now, and Refusal
	// says why.
	Rating  planner.Rating
	Fits    bool
	Refusal *explain.Refusal
	// Others are nodes that could take it as well, the best first.
	Others []RatedNode
	// Refused counts why the others cannot.
	Refused explain.Tally
}

// RatedNode is a node and how it rates.
type RatedNode struct {
	Node   model.NodeID
	Rating planner.Rating
}

// Merits rates the place of a holder that has one, beside at most so many others; false when
// it has none. Cost: a look at every node.
func (a Nodes) Merits(h model.HolderID, limit int) (Merits, bool) {
	k := a.cluster.GangOf(h)
	if k == nil {
		return Merits{}, false
	}
	s, placed := k.PlaceOf(h)
	if !placed {
		return Merits{}, false
	}
	role := &k.Roles[s.Role]
	m := Merits{Node: s.Node, Weights: a.cluster.WeightsOf(k)}
	t := a.cluster.Begin()
	defer t.Rollback()
	t.Drop(h)
	m.Rating, m.Refusal = a.cluster.Planner().Rate(role.Request, m.Weights, s.Node)
	m.Fits = m.Refusal == nil
	for c := range a.cluster.Planner().Candidates(role.Request, m.Weights) {
		if len(m.Others) >= limit {
			break
		}
		if c.Node == s.Node || a.cluster.Refusal(k, s.Role, c.Node) != nil {
			continue
		}
		if rating, refusal := a.cluster.Planner().Rate(role.Request, m.Weights, c.Node); refusal == nil {
			m.Others = append(m.Others, RatedNode{c.Node, rating})
		}
	}
	m.Refused = gang.Tally(a.cluster.Ledger(), role.Request, func(id model.NodeID) *explain.Refusal { return a.cluster.Refusal(k, s.Role, id) })
	return m, true
}
