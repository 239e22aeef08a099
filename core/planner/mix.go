package planner

import (
	"github.com/tangram-dev/tangram/core/model"
	"github.com/tangram-dev/tangram/core/pack"
)

// Class is what the objective sees of a request; false when no model of the fleet is
// allowed for it.
func (p *Planner) Class(r *model.Request) (pack.Class, bool) {
	p.Sync()
	return p.class(r)
}

// Typical returns the classes that make up at least one in so many of the requests that
// arrived lately.
func (p *Planner) Typical(oneIn int64) []pack.Class {
	if p.index == nil {
		return nil
	}
	return p.index.Typical(oneIn)
}

// Shapes returns the present shapes of the nodes that a predicate accepts, in no
// particular order. Cost: a copy.
func (p *Planner) Shapes(accept func(model.NodeID) bool) []pack.Shape {
	p.Sync()
	out := make([]pack.Shape, 0, len(p.nodes))
	for i := range p.nodes {
		if n := &p.nodes[i]; n.id != "" && n.now.GPUs > 0 && accept(n.id) {
			out = append(out, n.now)
		}
	}
	return out
}
