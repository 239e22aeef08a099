package planner

import (
	"cmp"
	"container/heap"
	"iter"
	"slices"

	"github.com/tangram-dev/tangram/core/explain"
	"github.com/tangram-dev/tangram/core/ledger"
	"github.com/tangram-dev/tangram/core/model"
	"github.com/tangram-dev/tangram/core/pack"
	"github.com/tangram-dev/tangram/core/place"
	"github.com/tangram-dev/tangram/core/score"
)

// Candidate is a node that can take a request, and what it would get there.
type Candidate struct {
	Node  model.NodeID
	Grant place.Grant
}

// lookahead bounds how many candidates are judged before one is yielded. Often many
// nodes cost the fleet the same; the best of this many suffices, and the cost of a
// decision stays independent of the size of the fleet.
const lookahead = 256

// Candidates yields nodes that can take a request, best first. The ledger must not
// change meanwhile. When there are none, Reasons says why.
func (p *Planner) Candidates(r *model.Request, w score.Weights) iter.Seq[Candidate] {
	return func(yield func(Candidate) bool) {
		p.Sync()
		if !p.ledger.Publishes(r) {
			return
		}
		given := map[model.NodeID]bool{}
		give := func(c Candidate) bool {
			if given[c.Node] {
				return true
			}
			given[c.Node] = true
			return yield(c)
		}
		if cares(r, w) && p.index != nil {
			if c, ok := p.class(r); ok && !p.indexed(r, &c, w, give) {
				return
			}
			if p.knowsAll(r) {
				return
			}
		}
		if r.Vendor != "" {
			p.surveyed(r, w, give)
		}
	}
}

// cares says whether the cost to the fleet counts for a request. If not, the index's
// order is useless for it.
func cares(r *model.Request, w score.Weights) bool {
	return r.Vendor == "" || w[score.Fragmentation] > 0 && r.NodePlacement != model.Spread
}

// knowsAll says whether the index proposes every node that can take a request. It
// sees one amount per device, so a share of memory may fit where compute is taken;
// one geometry per model; and one model per node.
func (p *Planner) knowsAll(r *model.Request) bool {
	return p.inexact == 0 && (r.Vendor == "" || r.Kind() == model.Whole || exact(r, true) && p.models.computeOnly())
}

// surveyed evaluates every bucket of nodes and yields those that fit, ranked by the
// other objectives; among equals the fuller first, or the emptier for Spread. Where nodes
// of one bucket differ, the first ones of each are judged for themselves.
func (p *Planner) surveyed(r *model.Request, w score.Weights, give func(Candidate) bool) {
	survey := place.Ask(p.ledger, r)
	b := p.bound(r, w)
	alone := 0 // how many of each bucket are judged for themselves
	if p.differ(r, w) {
		alone = max(1, lookahead/max(1, len(survey.Groups)))
	}
	var runs []run
	for i := range survey.Groups {
		g := &survey.Groups[i]
		rest := run{group: g, node: g.First, from: alone, cost: p.survey(r, w, b, g.First)}
		n := 0
		for id := range g.Nodes() {
			if n == alone {
				runs = append(runs, rest)
				break
			}
			n++
			runs = append(runs, run{group: g, node: id, single: true, cost: p.survey(r, w, b, id)})
		}
	}
	slices.SortStableFunc(runs, func(x, y run) int {
		fuller := cmp.Compare(y.group.Used, x.group.Used)
		if r.NodePlacement == model.Spread {
			fuller = -fuller
		}
		return cmp.Or(cmp.Compare(x.cost, y.cost), fuller, cmp.Compare(x.node, y.node))
	})
	for _, run := range runs {
		for id := range run.nodes() {
			v, _ := p.ledger.View(id)
			if !v.Covers(r) {
				continue
			}
			if grant, refusal := p.Fit(r, v); refusal == nil && !give(Candidate{id, grant}) {
				return
			}
		}
	}
}

// survey is what a node costs a request, without what it costs the fleet.
func (p *Planner) survey(r *model.Request, w score.Weights, b bound, id model.NodeID) int64 {
	v, _ := p.ledger.View(id)
	grant, _ := p.Fit(r, v)
	return b.otherCost(w, score.Rate(r, v, grant.Set))
}

// differ says whether nodes of one bucket can be of different worth to a request:
// measurements and domains are not part of buckets.
func (p *Planner) differ(r *model.Request, w score.Weights) bool {
	for o := range score.NumObjectives {
		if basis := o.Basis(); w[o] > 0 && (basis == score.OfTelemetry || basis == score.OfGroup) && p.varies(r, o) {
			return true
		}
	}
	return false
}

// run are nodes of a group of which the same is known: one, or all but the first ones.
type run struct {
	group  *place.Group
	node   model.NodeID
	single bool
	from   int
	cost   int64
}

func (x *run) nodes() iter.Seq[model.NodeID] {
	return func(yield func(model.NodeID) bool) {
		if x.single {
			yield(x.node)
			return
		}
		n := 0
		for id := range x.group.Nodes() {
			if n++; n > x.from && !yield(id) {
				return
			}
		}
	}
}

// Reasons says why nodes cannot take a request.
func (p *Planner) Reasons(r *model.Request) explain.Tally {
	return place.Ask(p.ledger, r).Refused
}

// Best is the first candidate, without looking for the others.
func (p *Planner) Best(r *model.Request, w score.Weights) (Candidate, bool) {
	p.Sync()
	if c, ok := p.class(r); ok && (p.index == nil || cares(r, w) && p.bound(r, w).neutral) {
		choice, ok := p.ranking.Best(&c)
		if !ok && p.index == nil {
			return Candidate{}, false
		}
		if ok {
			if found, ok := p.take(r, &c, choice); ok {
				return found, true
			}
		}
	}
	for c := range p.Candidates(r, w) {
		return c, true
	}
	return Candidate{}, false
}

// take makes a candidate of the ranking's choice, if the node has what the ranking
// does not know of (extras, bytes below a MiB). Which device is for Fit to say,
// unless the policy has a way of its own to choose one for a share.
func (p *Planner) take(r *model.Request, c *pack.Class, choice pack.Choice) (Candidate, bool) {
	id := p.nodes[choice.Ordinal].id
	v, there := p.ledger.View(id)
	if !there || !v.Covers(r) {
		return Candidate{}, false
	}
	if r.Vendor == "" {
		return Candidate{Node: id}, true
	}
	how := place.Choose{Worth: p.worth()}
	if how.Worth == nil && c.Milli < pack.Whole && exact(r, true) {
		how.Only = choice.Devices
	}
	grant, refusal := place.FitWith(r, v, how)
	return Candidate{id, grant}, refusal == nil
}

// indexed yields the nodes of the index by total cost. The index knows the cost to the
// fleet, which is a lower bound, so a judged node is yielded as soon as no other can be
// cheaper. If other objectives count, the first node of every model and fullness is
// judged beforehand, so that none is missed for being beyond the lookahead. It returns
// false when the receiver stopped.
func (p *Planner) indexed(r *model.Request, c *pack.Class, w score.Weights, give func(Candidate) bool) bool {
	b := p.bound(r, w)
	var judged waiting
	judge := func(choice pack.Choice) {
		candidate, ok := p.take(r, c, choice)
		if !ok {
			return
		}
		cost := b.fleetCost(choice.Cost)
		if !b.neutral {
			v, _ := p.ledger.View(candidate.Node)
			cost = p.cost(r, c, w, b, choice, v, &candidate.Grant)
		}
		heap.Push(&judged, verdict{candidate, cost, choice, p.order(candidate.Node)})
	}
	early := map[int]bool{}
	if !b.neutral {
		for choice := range p.index.Heads(c) {
			early[choice.Ordinal] = true
			judge(choice)
		}
		for _, id := range p.around(r) {
			if choice, ok := p.index.Rate(c, p.ordinals[id]); ok && !early[choice.Ordinal] {
				early[choice.Ordinal] = true
				judge(choice)
			}
		}
	}
	for choice := range p.index.Candidates(c) {
		least := b.fleetCost(choice.Cost)
		for len(judged) > 0 && (judged[0].cost <= least || len(judged) >= lookahead) {
			if !give(heap.Pop(&judged).(verdict).Candidate) {
				return false
			}
		}
		if !early[choice.Ordinal] {
			judge(choice)
		}
	}
	for len(judged) > 0 {
		if !give(heap.Pop(&judged).(verdict).Candidate) {
			return false
		}
	}
	return true
}

// around are nodes in the domains that a request prefers.
func (p *Planner) around(r *model.Request) []model.NodeID {
	group, ok := r.Group()
	if !ok || r.Prefer.Level.Name == "" {
		return nil
	}
	return p.ledger.Around(group, r.Prefer.Level.Depth, lookahead)
}

// cost is the total cost of a candidate.
func (p *Planner) cost(r *model.Request, c *pack.Class, w score.Weights, b bound, choice pack.Choice, v ledger.View, g *place.Grant) int64 {
	fleet := choice.Cost
	if !exact(r, v.Kind.Links.Uniform()) && r.Vendor != "" {
		if t, ok := p.weigh(r, c, choice.Ordinal, v, g); ok {
			fleet = t.Cost
		}
	}
	return b.fleetCost(fleet) + b.otherCost(w, score.Rate(r, v, g.Set))
}

// verdict is a judged candidate.
type verdict struct {
	Candidate
	cost   int64
	choice pack.Choice
	order  uint32
}

// waiting is a heap of verdicts, cheapest first; among equals as the index orders
// them.
type waiting []verdict

func (w waiting) Len() int      { return len(w) }
func (w waiting) Swap(i, j int) { w[i], w[j] = w[j], w[i] }
func (w waiting) Less(i, j int) bool {
	a, b := &w[i], &w[j]
	return cmp.Or(cmp.Compare(a.cost, b.cost), cmp.Compare(a.choice.Cost, b.choice.Cost), cmp.Compare(a.choice.Tie, b.choice.Tie),
		cmp.Compare(a.order, b.order), cmp.Compare(a.Node, b.Node)) < 0
}
func (w *waiting) Push(v any) { *w = append(*w, v.(verdict)) }
func (w *waiting) Pop() any {
	last := (*w)[len(*w)-1]
	*w = (*w)[:len(*w)-1]
	return last
}
