package pack

import (
	"cmp"
	"slices"

	"github.com/tangram-dev/tangram/core/model"
)

// Index finds the best node for a request under a policy, without looking at
// every node. The caller reports changes of nodes (Set, Update, Remove) and arrivals of
// requests (Arrive), and asks Best or Candidates.
//
// Per class it keeps the nodes in order, in one sorted set per bucket of nodes
// whose ratings shift alike; a decision compares the heads of the buckets. A
// change is only written to a journal; a class catches up when it is asked for
// next, so a decision costs as many ratings as nodes changed since that class
// was last seen: on average not more than there are classes, however large the
// fleet.
//
// Not safe for concurrent use.
type Index struct {
	policy  Policy
	nodes   []Node
	gates   []gate
	empties []Shape
	present int
	journal journal
	classes map[Class]*ranking
	epoch   uint32 // ratings of older epochs are void
	uses    uint64 // decisions, to know the class that was not asked for longest
	orders  uint32 // changes of nodes' orders
	ratings uint64
	// ties is the nodes by order, as of tiesEpoch; lists is scratch.
	ties      []int32
	tiesEpoch uint32
	lists     lists
	shapeSet  shapeSet
	verdicts  verdicts // scratch
	// maxCells bounds the ratings kept, so that memory is bounded whatever classes
	// come.
	maxCells int
}

// defaultMaxCells bounds the ratings kept, classes times nodes, at about 24 bytes each.
const defaultMaxCells = 12 << 20

// ranking is the order of the nodes for one class.
type ranking struct {
	class   Class
	epoch   uint32
	read    int // journal entries seen
	used    uint64
	cells   []cell // by ordinal, of those the class fits on
	fits    bitset // those
	buckets []keys
	live    []uint16 // buckets that are not empty, in no order
}

// cell is the rating of one node, and the version of the node it is for.
type cell struct {
	version uint32
	Rating
}

// NewIndex returns an empty index that ranks by the policy.
func NewIndex(policy Policy) *Index {
	return &Index{policy: policy, classes: map[Class]*ranking{}, maxCells: defaultMaxCells}
}

// Set adds a node, or replaces all that is known of it. Ordinals are small
// numbers below MaxNodes, given by the caller. Of nodes that rate alike the one
// with the smallest order wins, of which the lower 31 bits count: see Order. empty is
// the shape of the node without any holder.
//
// Adding nodes changes which models can serve a class; that is taken into
// account at the next rebuild of a learning policy, or by Refresh.
func (x *Index) Set(ordinal int, order uint32, empty, now Shape) {
	for len(x.nodes) <= ordinal {
		x.nodes = append(x.nodes, Node{})
		x.gates = append(x.gates, gate{})
		x.empties = append(x.empties, Shape{})
	}
	g := &x.gates[ordinal]
	if g.present {
		x.left(ordinal)
	} else {
		g.present = true
		x.present++
	}
	if g.order != order {
		g.order = order
		x.epoch++ // keys hold the order
		x.orders++
	}
	x.empties[ordinal] = empty
	x.nodes[ordinal] = Node{Shape: now}
	x.entered(ordinal)
}

// Update sets a node's new shape. A node that is not there is ignored.
func (x *Index) Update(ordinal int, now Shape) {
	if !x.has(ordinal) || x.nodes[ordinal].Shape == now {
		return
	}
	x.left(ordinal)
	x.nodes[ordinal].Shape = now
	x.entered(ordinal)
}

// Remove takes a node out.
func (x *Index) Remove(ordinal int) {
	if !x.has(ordinal) {
		return
	}
	x.left(ordinal)
	x.gates[ordinal].present = false
	x.gates[ordinal].version++
	x.present--
	x.journal.add(ordinal, len(x.nodes))
}

func (x *Index) has(ordinal int) bool { return ordinal < len(x.gates) && x.gates[ordinal].present }

func (x *Index) entered(ordinal int) {
	n, g := &x.nodes[ordinal], &x.gates[ordinal]
	g.look(&n.Shape)
	g.shape = x.shapeSet.enter(&n.Shape)
	n.full = int(g.full)
	x.policy.Enter(n)
	x.journal.add(ordinal, len(x.nodes))
}

// left is before a node that is there changes or goes.
func (x *Index) left(ordinal int) {
	n := &x.nodes[ordinal]
	x.policy.Leave(n)
	x.shapeSet.leave(&n.Shape, x.gates[ordinal].shape)
}

// Arrive counts a request, placed or not. Call it before asking for a place.
func (x *Index) Arrive(c *Class) {
	if x.policy.Arrive(c, x.present) {
		x.Refresh()
	}
}

// Ratings is how often the policy was asked to rate a class on a node: the work done
// so far, on any machine. It is not asked about nodes the class does not fit on, and
// when all nodes are rated, about one of each shape.
func (x *Index) Ratings() uint64 { return x.ratings }

// Refresh makes the policy look at the whole fleet again.
func (x *Index) Refresh() {
	x.epoch++
	x.policy.Reset(x.fleet())
	x.enterAll()
}

func (x *Index) enterAll() {
	for i := range x.nodes {
		if x.gates[i].present {
			x.policy.Enter(&x.nodes[i])
		}
	}
}

// Forget unlearns the workload, of a policy that learns.
func (x *Index) Forget() {
	if p, ok := x.policy.(*Potential); ok {
		p.Forget()
		x.Refresh()
	}
}

// Save returns what was learned of the workload, by a policy that learns.
func (x *Index) Save() Saved {
	if p, ok := x.policy.(*Potential); ok && p.oracle == nil {
		return p.learner.save(p.built)
	}
	return Saved{}
}

// Restore replaces what was learned of the workload. On the same fleet the same nodes are
// best as when it was saved.
func (x *Index) Restore(s Saved) {
	p, ok := x.policy.(*Potential)
	if !ok || p.oracle != nil {
		return
	}
	x.epoch++
	p.restore(s, x.fleet())
	x.enterAll()
}

// fleet counts the nodes by capacity, in order.
func (x *Index) fleet() []Kind {
	counts := map[Shape]int{}
	for i := range x.nodes {
		if x.gates[i].present {
			counts[x.empties[i]]++
		}
	}
	kinds := make([]Kind, 0, len(counts))
	for shape, nodes := range counts {
		kinds = append(kinds, Kind{shape, nodes})
	}
	slices.SortFunc(kinds, func(a, b Kind) int {
		return cmp.Or(cmp.Compare(a.Empty.Model, b.Empty.Model), cmp.Compare(a.Empty.GPUs, b.Empty.GPUs),
			cmp.Compare(a.Empty.CPU, b.Empty.CPU), cmp.Compare(a.Empty.Memory, b.Empty.Memory),
			slices.Compare(a.Empty.Free[:], b.Empty.Free[:]), cmp.Compare(a.Empty.Guests, b.Empty.Guests))
	})
	return kinds
}

// Choice is a node for a request, with the devices it would get.
type Choice struct {
	Ordinal int
	Devices model.Mask
	// Cost is what was compared, smaller is better, in steps of the policy.
	Cost int
	Tie  int
}

// Best is the best node, false if the class fits nowhere.
func (x *Index) Best(c *Class) (Choice, bool) {
	s := x.ranking(c)
	x.policy.Begin(c)
	var best entry
	found := false
	for _, b := range s.live {
		e := entry{key: s.buckets[b].first(), shift: x.policy.Shift(c, int(b))}
		if !found || e.before(best) {
			best, found = e, true
		}
	}
	if !found {
		return Choice{}, false
	}
	return x.choice(s, best), true
}

// entry is a key with the shift of its bucket at this moment.
type entry struct {
	key   key
	shift Shift
}

func (e entry) cost() int { return e.key.cost() + e.shift.Cost }

// before is the order of choices: cost, tie, order, ordinal.
func (e entry) before(o entry) bool {
	if a, b := e.cost(), o.cost(); a != b {
		return a < b
	}
	if e.shift.Tie != o.shift.Tie {
		return e.shift.Tie < o.shift.Tie
	}
	return e.key.inCost() < o.key.inCost()
}

func (x *Index) choice(s *ranking, e entry) Choice {
	ordinal := e.key.ordinal()
	return Choice{
		Ordinal: ordinal,
		Devices: x.nodes[ordinal].devices(&s.class, s.cells[ordinal].Rating),
		Cost:    e.cost(), Tie: e.shift.Tie,
	}
}
