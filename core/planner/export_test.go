package planner

import (
	"github.com/tangram-dev/tangram/core/model"
	"github.com/tangram-dev/tangram/core/score"
)

// Bound shows tests what the planner takes for the best a request can get.
type Bound struct {
	Best    score.Card
	Neutral bool
	PerStep int64
}

// BoundOf is the bound of a request, from the cache if it is there.
func (p *Planner) BoundOf(r *model.Request, w score.Weights) Bound {
	b := p.bound(r, w)
	return Bound{b.best, b.neutral, b.perStep}
}

// MostDemand is the most that a request can turn out to take, wherever it is placed.
func (p *Planner) MostDemand(r *model.Request) int64 {
	_, most := p.demand(r)
	return most
}
