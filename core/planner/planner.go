package planner

import (
	"slices"

	"github.com/tangram-dev/tangram/core/explain"
	"github.com/tangram-dev/tangram/core/ledger"
	"github.com/tangram-dev/tangram/core/model"
	"github.com/tangram-dev/tangram/core/pack"
	"github.com/tangram-dev/tangram/core/place"
)

// Ranking orders nodes by one objective. pack.Index is the one that schedules;
// others are for comparison.
type Ranking interface {
	Set(ordinal int, order uint32, empty, now pack.Shape)
	Update(ordinal int, now pack.Shape)
	Remove(ordinal int)
	Arrive(c *pack.Class)
	Best(c *pack.Class) (pack.Choice, bool)
}

// Planner answers where requests go. It needs no notice of changes: it reads the
// ledger's list of changes before it answers. There is one planner per ledger. Not safe
// for concurrent use.
type Planner struct {
	ledger  *ledger.Ledger
	ranking Ranking
	index   *pack.Index // the ranking, when it is one
	order   func(model.NodeID) uint32

	ordinals map[model.NodeID]int
	nodes    []entry // by ordinal
	unused   []int   // ordinals without a node
	models   models
	// inexact counts the nodes that the index does not represent exactly.
	inexact int

	// bounds caches the best score a request can get, see bound.
	bounds      map[boundKey]bound
	boundsKinds uint64

	// devices has one of each device of the fleet, see lookDevices.
	devices      []model.Device
	devicesKinds uint64
}

// entry is the index's present state of a node.
type entry struct {
	id         model.NodeID
	empty, now pack.Shape
	inexact    bool
}

// New returns the planner of a ledger. It learns the mix of requests from Arrive.
func New(l *ledger.Ledger) *Planner {
	return NewWith(l, pack.NewIndex(pack.NewPotential()), func(id model.NodeID) uint32 { return pack.Order(string(id)) })
}

// NewWith returns a planner with another ranking. order is the last tie-break
// between nodes.
func NewWith(l *ledger.Ledger, ranking Ranking, order func(model.NodeID) uint32) *Planner {
	p := &Planner{ledger: l, ranking: ranking, order: order, ordinals: map[model.NodeID]int{}, bounds: map[boundKey]bound{}}
	p.index, _ = ranking.(*pack.Index)
	for _, id := range slices.Sorted(l.Nodes()) {
		p.look(id)
	}
	l.Changes() // seen
	p.refresh()
	return p
}

// Arrive records a new request, so that the planner learns the mix of requests. Call it
// once per holder, before asking for a place.
func (p *Planner) Arrive(r *model.Request) {
	p.Sync()
	if c, ok := p.class(r); ok {
		p.ranking.Arrive(&c)
	}
}

// Sync brings the index up to date with the ledger. Every question does so itself.
func (p *Planner) Sync() {
	fleet := false
	for _, id := range p.ledger.Changes() {
		fleet = p.look(id) || fleet
	}
	switch {
	case fleet && len(p.ordinals) == 0 && p.index != nil:
		p.index.Forget() // no node is left: the next fleet is a new one
	case fleet:
		p.refresh()
	}
}

// refresh passes the present fleet to the ranking.
func (p *Planner) refresh() {
	if p.index != nil {
		p.index.Refresh()
	}
}

// look updates the index for one node, and says whether the fleet changed: a node was
// added, removed or resized.
func (p *Planner) look(id model.NodeID) (fleet bool) {
	v, there := p.ledger.View(id)
	ordinal, known := p.ordinals[id]
	if !there {
		if known {
			p.ranking.Remove(ordinal)
			p.countInexact(ordinal, false)
			delete(p.ordinals, id)
			p.nodes[ordinal] = entry{}
			p.unused = append(p.unused, ordinal)
		}
		return known
	}
	empty, now := p.shapes(v)
	if known && p.nodes[ordinal].empty == empty {
		p.nodes[ordinal].now = now
		p.ranking.Update(ordinal, now)
		return false
	}
	if !known {
		if n := len(p.unused); n > 0 {
			ordinal, p.unused = p.unused[n-1], p.unused[:n-1]
		} else {
			ordinal = len(p.nodes)
			p.nodes = append(p.nodes, entry{})
		}
		p.ordinals[id] = ordinal
	}
	p.countInexact(ordinal, inexact(v.Node))
	p.nodes[ordinal] = entry{id, empty, now, p.nodes[ordinal].inexact}
	p.ranking.Set(ordinal, p.order(id), empty, now)
	return true
}

func (p *Planner) countInexact(ordinal int, inexact bool) {
	if e := &p.nodes[ordinal]; e.inexact != inexact {
		e.inexact = inexact
		if inexact {
			p.inexact++
		} else {
			p.inexact--
		}
	}
}

// Shape is a node as the objective sees it.
func (p *Planner) Shape(id model.NodeID) (pack.Shape, bool) {
	p.Sync()
	ordinal, ok := p.ordinals[id]
	if !ok {
		return pack.Shape{}, false
	}
	return p.nodes[ordinal].now, true
}

// Work counts the ratings made so far: the cost of deciding, on any machine.
func (p *Planner) Work() uint64 {
	if p.index == nil {
		return 0
	}
	return p.index.Ratings()
}

// Fit chooses the devices a request would get on a node, or says why it gets none.
func (p *Planner) Fit(r *model.Request, v ledger.View) (place.Grant, *explain.Refusal) {
	if r.Vendor == "" { // asks for no device
		return place.Grant{}, nil
	}
	return place.FitWith(r, v, place.Choose{Worth: p.worth()})
}

// worth values what is left of a device; nil for rankings without such a valuation.
func (p *Planner) worth() place.Worth {
	if p.index == nil || !p.index.Prices() {
		return nil
	}
	return p.index.Worth
}
