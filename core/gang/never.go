package gang

import (
	"slices"

	"github.com/tangram-dev/tangram/core/ledger"
	"github.com/tangram-dev/tangram/core/model"
	"github.com/tangram-dev/tangram/core/planner"
)

// Empty is the fleet without any holder: what does not fit here can never fit, however
// long it waits. It costs a second ledger, which is built on first use and updated only
// when inventories have changed.
type Empty struct {
	of      *ledger.Ledger
	version uint64
	l       *ledger.Ledger
	p       *planner.Planner
	nodes   map[model.NodeID]*model.Node
}

// NewEmpty returns the empty fleet of a ledger.
func NewEmpty(of *ledger.Ledger) *Empty { return &Empty{of: of} }

// Never says why a gang can never fit on the present nodes, or nil when it fits once
// enough pods have ended. A member with a required affinity to other holders may be
// rejected here although such holders could arrive later.
func (e *Empty) Never(ask *Ask) *Failure {
	e.sync()
	tx := e.l.Begin()
	defer tx.Rollback()
	_, failure := Make(e.l, e.p, ask)
	return failure
}

// sync copies the changed inventories. They are never changed in place, so comparing
// pointers is enough.
func (e *Empty) sync() {
	if e.l == nil {
		e.l, e.nodes = ledger.New(), map[model.NodeID]*model.Node{}
		e.p = planner.New(e.l)
	} else if e.version == e.of.FleetVersion() {
		return
	}
	e.version = e.of.FleetVersion()
	for _, id := range slices.Sorted(e.of.Nodes()) {
		v, _ := e.of.View(id)
		if e.nodes[id] != v.Node && e.l.SetNode(v.Node) == nil {
			e.nodes[id] = v.Node
		}
	}
	for id := range e.nodes { // each for itself
		if _, there := e.of.View(id); !there {
			e.l.RemoveNode(id)
			delete(e.nodes, id)
		}
	}
}
