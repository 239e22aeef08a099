package arbiter

import (
	"cmp"
	"maps"
	"math"
	"slices"
)

// unlimited is the capability of a queue that names none.
const unlimited = math.MaxInt64

// node is a queue with what is known of it. All vectors are as long as the
// tree's dictionary.
type node struct {
	Queue
	parent   *node
	children []*node // sorted by name
	// number is the queue's place in hierarchy.nodes: parents first.
	number int
	// shut: it is closed, or one above it is.
	shut bool

	// floor is what is kept for the queue: its guarantee, or its children's where
	// that is more.
	floor vector
	// cap is the capability; deserved the explicit one, -1 where there is none.
	cap, deserved vector

	// used is what jobs below are charged. booked is what others may not have:
	// used, and what is kept though idle. within is what booked would be without
	// the queue's own floor. Invariant: booked = max(floor, within); within = used
	// in a leaf, the sum of the children's booked elsewhere.
	used, booked, within vector

	// want is what the jobs of a leaf use or wait for; elsewhere what the children
	// do, and what is kept for them.
	want vector
	// share is what the queue is entitled to now: see share.go.
	share vector
	// owed is the balance, in amounts times ticks: see balance.go. competes is the part
	// and the use with which the queue competes until the next Elapse; 0 where it does not.
	owed     vector
	competes struct{ part, held vector }

	running, waiting int

	jobs     *backlog // of a leaf
	position position // in the pass under way
}

func (n *node) leaf() bool { return len(n.children) == 0 && n.parent != nil }

// held is what counts against the queue's share. Above the leaves that includes
// guarantees that are idle: they were given to a child, whatever other children want.
func (n *node) held(r int) int64 {
	if n.leaf() {
		return n.used[r]
	}
	return n.booked[r]
}

// hierarchy is the queues with their limits, and what of these is in use, wanted and shared
// out. It counts jobs, but does not keep them.
//
// Invariant: besides node's own, a queue's counts and amounts are the sums over the jobs
// that were added to it and not removed.
type hierarchy struct {
	dict dictionary
	// numbering counts how often the dictionary was made.
	numbering uint64
	// have is what the cluster has, total the same by number.
	have  map[Resource]int64
	total vector
	root  *node
	// nodes lists all queues, parents before children, siblings by name.
	nodes  []*node
	byName map[string]*node
	// stale says that shares must be computed anew.
	stale bool
}

// build makes the nodes, without jobs and vectors.
func (h *hierarchy) build(queues []Queue) {
	described := map[string]Queue{
		Root:    {Name: Root},
		Default: {Name: Default, Reclaimable: true},
	}
	for _, q := range queues {
		described[q.Name] = q
	}
	h.byName = map[string]*node{}
	for name, q := range described {
		q.Guarantee, q.Deserved, q.Capability = maps.Clone(q.Guarantee), maps.Clone(q.Deserved), maps.Clone(q.Capability)
		h.byName[name] = &node{Queue: q}
	}
	h.root = h.byName[Root]
	for _, name := range slices.Sorted(maps.Keys(described)) {
		if n := h.byName[name]; n != h.root {
			n.parent = h.byName[cmp.Or(n.Parent, Root)]
			n.parent.children = append(n.parent.children, n)
		}
	}
	h.nodes = []*node{h.root}
	for i := 0; i < len(h.nodes); i++ {
		n := h.nodes[i]
		n.number, n.shut = i, n.Closed || n.parent != nil && n.parent.shut
		if n.leaf() {
			n.jobs = newBacklog(n)
		}
		h.nodes = append(h.nodes, n.children...)
	}
}

// named lists the resources that can matter to a decision: those that the total, a
// quota or a queue names, and those of which a queue still has a balance. Such a
// balance ends with the next call of Elapse.
func (h *hierarchy) named(namespaces map[string]*namespace) []Resource {
	names := map[Resource]bool{}
	add := func(m map[Resource]int64) {
		for r := range m {
			names[r] = true
		}
	}
	add(h.have)
	for _, s := range namespaces {
		add(s.quota)
	}
	for _, n := range h.nodes {
		add(n.Guarantee)
		add(n.Deserved)
		add(n.Capability)
		for r, name := range h.dict.names {
			if n.owed.at(r) != 0 || n.competes.part.at(r) != 0 {
				names[name] = true
			}
		}
	}
	return slices.Sorted(maps.Keys(names))
}

// renumber makes the dictionary and all vectors anew, without jobs.
func (h *hierarchy) renumber(namespaces map[string]*namespace) {
	h.numbering++
	old := h.dict
	h.dict = newDictionary(h.named(namespaces))
	h.total = h.dict.vector(h.have, 0)
	for _, n := range slices.Backward(h.nodes) { // children first
		n.fill(&h.dict, &old)
	}
}

// fill gives a queue its vectors, without jobs; its children have theirs. Balances are
// taken over from vectors that the old dictionary numbered.
func (n *node) fill(d, old *dictionary) {
	n.cap = d.vector(n.Capability, unlimited)
	n.deserved = d.vector(n.Deserved, -1)
	n.floor = d.vector(n.Guarantee, 0)
	width := len(d.names)
	n.used, n.within = make(vector, width), make(vector, width)
	n.want, n.share = make(vector, width), make(vector, width)
	for r := range width {
		for _, c := range n.children {
			n.within[r] += c.booked[r]
		}
		n.floor[r] = max(n.floor[r], n.within[r])
	}
	n.booked = slices.Clone(n.floor)
	for _, v := range []*vector{&n.owed, &n.competes.part, &n.competes.held} {
		*v = d.vector(old.amounts(*v).Map(), 0)
	}
}

// limit is the most that may be booked of a resource in a queue.
func (h *hierarchy) limit(n *node, r int) int64 {
	if n != h.root || h.total[r] <= 0 {
		return n.cap[r]
	}
	return min(n.cap[r], h.total[r])
}

// enqueue finds a job's queue and adds the job to those that wait or run there. A running
// job in no queue counts at the root. Amounts are counted by tally.
func (h *hierarchy) enqueue(e *entry) {
	e.node, e.bucket = h.byName[e.Queue], nil
	if e.node != nil && (!e.node.leaf() || e.node.refuses(e.Namespace) != nil) {
		e.node = nil
	}
	if e.node != nil {
		e.rank = e.node.Order.rank(&e.Job)
	}
	switch {
	case e.runs:
		h.counted(e).running++
	case e.node != nil:
		e.node.waiting++
		e.node.jobs.add(e)
	}
}

// refuses is the queue that does not take the jobs of a namespace: this one or the nearest
// above it; nil when all take them.
func (n *node) refuses(namespace string) *node {
	for ; n != nil; n = n.parent {
		if !n.takes(namespace) {
			return n
		}
	}
	return nil
}

// dequeue is the reverse.
func (h *hierarchy) dequeue(e *entry) {
	switch {
	case e.runs:
		h.counted(e).running--
	case e.node != nil:
		e.node.waiting--
		e.node.jobs.remove(e)
	}
	e.node = nil
}

// counted is the queue that counts a running job: its own, or the root.
func (h *hierarchy) counted(e *entry) *node {
	if e.node == nil {
		return h.root
	}
	return e.node
}

// tally adds what a job wants and is charged, times 1 or -1, to all that count it.
func (h *hierarchy) tally(e *entry, sign int64) {
	if e.node != nil {
		e.node.want.add(h.needs(e, e.want), sign, 0)
	}
	if e.runs {
		h.book(e, h.needs(e, e.charged), sign)
	}
}

// needs translates amounts of a job. They are most often its demand, which is translated.
func (h *hierarchy) needs(e *entry, a Amounts) []need {
	if len(a) > 0 && len(a) == len(e.Demand) && &a[0] == &e.Demand[0] {
		return e.class.needs
	}
	return h.dict.needs(a)
}
