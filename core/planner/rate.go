package planner

import (
	"github.com/tangram-dev/tangram/core/explain"
	"github.com/tangram-dev/tangram/core/ledger"
	"github.com/tangram-dev/tangram/core/model"
	"github.com/tangram-dev/tangram/core/pack"
	"github.com/tangram-dev/tangram/core/place"
	"github.com/tangram-dev/tangram/core/score"
)

// Rating is how good a node is for a request, and why.
type Rating struct {
	Grant place.Grant
	// Card has the score of each objective, 0..100.
	Card score.Card
	// Total is their weighted mean, 0..score.Scale.
	Total int
	// Fleet has the terms of the fragmentation objective.
	Fleet pack.Terms
}

// Rate says how good any node is for a request, term by term, or why it cannot
// take it.
func (p *Planner) Rate(r *model.Request, w score.Weights, id model.NodeID) (Rating, *explain.Refusal) {
	p.Sync()
	v, there := p.ledger.View(id)
	if !there {
		return Rating{}, &explain.Refusal{Code: explain.NoDevices, Need: int64(r.Count())}
	}
	var out Rating
	if r.Vendor != "" {
		var refusal *explain.Refusal
		if out.Grant, refusal = p.Fit(r, v); refusal != nil {
			return Rating{}, refusal
		}
		out.Card = score.Rate(r, v, out.Grant.Set)
	}
	c, _ := p.class(r)
	if t, ok := p.weigh(r, &c, p.ordinals[id], v, &out.Grant); ok {
		out.Fleet = t
		demand := max(c.Demand(), 1)
		if c.GPUs == 0 {
			demand = pack.Whole
		}
		out.Card[score.Fragmentation] = max(0, 100-int(int64(t.Cost)*pack.StepMilli*pointsPerGPU/demand))
	}
	if r.NodePlacement == model.Spread {
		out.Card[score.Fragmentation] = 50
	}
	out.Total = w.Total(out.Card)
	return out, nil
}

// weigh is the cost to the fleet of a grant.
func (p *Planner) weigh(r *model.Request, c *pack.Class, ordinal int, v ledger.View, g *place.Grant) (pack.Terms, bool) {
	if p.index == nil {
		return pack.Terms{}, false
	}
	after := p.after(p.nodes[ordinal].now, r, v, g)
	var before, left pack.Groups
	if links := v.Kind.Links; !links.Uniform() {
		free := v.Free(r.Vendor)
		for i, size := range pack.GroupSizes() {
			before[i], left[i] = uint8(links.Slots(free, size)), uint8(links.Slots(free&^g.Set, size))
		}
	}
	return p.index.Weigh(c, ordinal, &after, before, left)
}
