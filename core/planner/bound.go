package planner

import (
	"github.com/tangram-dev/tangram/core/model"
	"github.com/tangram-dev/tangram/core/pack"
	"github.com/tangram-dev/tangram/core/score"
)

// bound turns costs to the fleet and scores of other objectives into one number,
// the weighted points lost against the best any node could give, in thousandths.
// Costs are never negative, so that the cost to the fleet alone is a lower bound of
// the whole.
type bound struct {
	// best is the most a request can get of each objective on any kind of node.
	best score.Card
	// neutral: the other objectives say the same of every node, so only the cost to
	// the fleet counts.
	neutral bool
	// perStep is what one step of cost to the fleet weighs.
	perStep int64
}

// boundKey is what a plain request's bound depends on, besides the kinds of nodes.
type boundKey struct {
	vendor model.Vendor
	count  int
	// parts distinguishes requests beyond their number of devices.
	parts          string
	tenantPriority int
	workload       model.Workload
	place          model.Placement
	measured       bool
	weights        score.Weights
}

// pointsPerGPU: losing one whole GPU per GPU asked for costs half of the points of
// the fragmentation objective, losing two all of them.
const pointsPerGPU = 50

func (p *Planner) bound(r *model.Request, w score.Weights) bound {
	if r.Vendor == "" {
		return bound{neutral: true, perStep: 1}
	}
	if v := p.ledger.KindsVersion(); v != p.boundsKinds {
		clear(p.bounds)
		p.boundsKinds = v
	}
	if !score.Plain(r) {
		return p.newBound(r, w)
	}
	key := boundKey{r.Vendor, r.Count(), partsKey(r), r.TenantPriority, r.Workload, r.NodePlacement, p.ledger.Measured(), w}
	if b, ok := p.bounds[key]; ok {
		return b
	}
	if len(p.bounds) >= maxBounds {
		clear(p.bounds)
	}
	b := p.newBound(r, w)
	p.bounds[key] = b
	return b
}

// maxBounds is how many bounds are remembered: far more than there are different
// requests in use, so that only made-up ones reach it.
const maxBounds = 4096

// partsKey is empty for a single container with whole devices, which its number of
// devices describes fully.
func partsKey(r *model.Request) string {
	if len(r.Containers) == 1 && r.Kind() == model.Whole {
		return ""
	}
	devices := model.Request{Containers: r.Containers, Placement: r.Placement}
	return devices.FitKey()
}

func (p *Planner) newBound(r *model.Request, w score.Weights) bound {
	demand := int64(r.Distinct()) * pack.Whole
	if c, ok := p.class(r); ok && c.Milli > 0 {
		demand = max(1, c.Demand())
	}
	b := bound{neutral: true, perStep: int64(w[score.Fragmentation]) * pointsPerGPU * 1000 * pack.StepMilli / demand}
	first := true
	var one score.Card
	alone := *r // affinity rules have nothing to match on an empty node
	alone.Affinity, alone.Labels = nil, nil
	for v := range p.ledger.Kinds() {
		grant, refusal := p.Fit(&alone, v)
		if refusal != nil {
			continue
		}
		card := score.Rate(r, v, grant.Set)
		if first {
			one, first = card, false
		}
		if card != one || r.Distinct() > 1 && !v.Kind.Links.Uniform() {
			b.neutral = false
		}
		for o := range card {
			b.best[o] = max(b.best[o], card[o])
		}
	}
	for o := range score.NumObjectives {
		if p.varies(r, o) {
			b.best[o], b.neutral = 100, false
		}
	}
	if !exact(r, b.neutral) {
		b.neutral = false
	}
	return b
}

// varies says whether nodes of one kind, with the same devices chosen, can have
// different scores: then the best of the kinds is not the best there is.
func (p *Planner) varies(r *model.Request, o score.Objective) bool {
	if len(r.UseUUIDs)+len(r.AvoidUUIDs) > 0 && o.Basis() != score.OfFleet {
		return true // UUIDs are a node's own, and decide which devices are chosen
	}
	if o == score.Topology && r.Kind() != model.Whole && r.Count() > 1 {
		return true // what other pods hold decides which devices are shared
	}
	switch o.Basis() {
	case score.OfKind, score.OfFleet:
		return false
	case score.OfClaims:
		return r.NodePlacement != model.Auto
	case score.OfGroup:
		return r.Prefer.Level.Name != ""
	case score.OfTelemetry:
		return p.ledger.Measured()
	}
	return true // unknown basis: any node may be the best
}

func (b bound) fleetCost(steps int) int64 { return int64(steps) * b.perStep }

func (b bound) otherCost(w score.Weights, card score.Card) int64 {
	sum := int64(0)
	for o := range card {
		if score.Objective(o) != score.Fragmentation {
			sum += int64(w[o]) * int64(max(0, b.best[o]-card[o])) * 1000
		}
	}
	return sum
}
