package arbiter

import (
	"cmp"
	"errors"
	"fmt"
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
	// number is the queue's place in Tree.nodes: parents first.
	number int
	// shut: it is closed, or one above it is.
	shut bool

	// floor is what is kept for the queue: its guarantee, or its children's where
	// that is more.
	floor Amounts
	// cap is the capability; deserved the explicit one, -1 where there is none.
	cap, deserved Amounts

	// used is what jobs below are charged. booked is what others may not have:
	// used, and what is kept though idle. within is what booked would be without
	// the queue's own floor. Invariant: booked = max(floor, within); within = used
	// in a leaf, the sum of the children's booked elsewhere.
	used, booked, within Amounts

	// want is what the jobs of a leaf use or wait for; elsewhere what the children
	// do, and what is kept for them.
	want Amounts
	// share is what the queue is entitled to now: see share.go.
	share Amounts
	// owed is the balance, in amounts times ticks: see balance.go. rival is what counts
	// for it until time passes: nothing where the queue does not compete.
	owed  Amounts
	rival struct{ part, held Amounts }

	running, waiting int

	jobs *backlog // of a leaf
	turn standing // in the pass under way
}

func (n *node) leaf() bool { return len(n.children) == 0 && n.parent != nil }

// held is what counts against the queue's share. Above the leaves that includes
// guarantees that are idle: they were given to a child, whoever else has work.
func (n *node) held(r int) int64 {
	if n.leaf() {
		return n.used[r]
	}
	return n.booked[r]
}

// Tree is the queues, the jobs in them and what they use. It is not safe for
// concurrent use; the caller brings the lock.
type Tree struct {
	dict  dictionary
	total Amounts
	root  *node
	// nodes lists all queues, parents before children, siblings by name.
	nodes  []*node
	byName map[string]*node

	jobs    map[JobID]*entry
	classes map[string]*class
	spaces  map[string]*namespace

	// stale says that shares must be computed anew.
	stale bool
	// version counts changes; a pass over an older version ends.
	version uint64
	// passes counts passes; active is the leaves that may still offer something in
	// the one under way.
	passes uint64
	active []*node
	mode   mode // of the pass under way

	// elapsed is the time up to which balances are settled.
	elapsed int64
}

// namespace is what the jobs of one namespace use, and their limits.
type namespace struct {
	hard Amounts // unlimited where the quota says nothing; shorter: the same
	used Amounts
}

// NewTree builds a tree of queues over a cluster that has the given total. Root
// and Default need not be described. Errors are those of ValidateQueues.
func NewTree(queues []Queue, total map[Resource]int64) (*Tree, error) {
	t := &Tree{jobs: map[JobID]*entry{}, classes: map[string]*class{}, spaces: map[string]*namespace{}}
	if err := t.SetTotal(total); err != nil {
		return nil, err
	}
	if err := t.SetQueues(queues); err != nil {
		return nil, err
	}
	return t, nil
}

// SetTotal says what the cluster has now. A resource that is absent or 0 is not
// divided: it counts in no share, though capabilities and quotas still hold.
func (t *Tree) SetTotal(total map[Resource]int64) error {
	if err := checkAmounts("total", total); err != nil {
		return err
	}
	t.total = t.Amounts(total)
	t.changed()
	return nil
}

// SetQueues replaces the queues; jobs and what they use stay. A job whose queue
// is gone stays too, in no queue: it waits with the reason NoQueue, and what it
// runs counts against the cluster alone, until its queue returns or it is
// submitted anew. It does not fall to Default: that would let the removal of one
// queue use up another's share. Invalid queues change nothing.
//
// Cost: all jobs are sorted anew.
func (t *Tree) SetQueues(queues []Queue) error {
	if err := ValidateQueues(queues); err != nil {
		return err
	}
	old := t.byName
	t.build(queues)
	for name, n := range t.byName {
		o := old[name]
		if o == nil {
			continue
		}
		if n.parent != nil && cmp.Or(o.Parent, Root) == n.parent.Name {
			copy(n.owed, o.owed) // among the same siblings
		}
		if o.jobs != nil && n.jobs != nil {
			n.jobs.turns = o.jobs.turns
			n.jobs.clock = o.jobs.clock
		}
	}
	for _, s := range t.spaces {
		clear(s.used)
	}
	for _, id := range slices.Sorted(maps.Keys(t.jobs)) {
		t.attach(t.jobs[id])
	}
	t.changed()
	return nil
}

// build makes the nodes, without jobs.
func (t *Tree) build(queues []Queue) {
	described := map[string]Queue{
		Root:    {Name: Root},
		Default: {Name: Default, Reclaimable: true},
	}
	for _, q := range queues {
		described[q.Name] = q
	}
	t.byName = map[string]*node{}
	for _, name := range slices.Sorted(maps.Keys(described)) {
		q := described[name]
		q.Guarantee, q.Deserved, q.Capability = maps.Clone(q.Guarantee), maps.Clone(q.Deserved), maps.Clone(q.Capability)
		for _, m := range []map[Resource]int64{q.Guarantee, q.Deserved, q.Capability} {
			t.Amounts(m) // every resource has its number before vectors are made
		}
		t.byName[name] = &node{Queue: q}
	}
	t.root = t.byName[Root]
	for _, name := range slices.Sorted(maps.Keys(described)) {
		if n := t.byName[name]; n != t.root {
			n.parent = t.byName[cmp.Or(n.Parent, Root)]
			n.parent.children = append(n.parent.children, n)
		}
	}
	t.nodes = []*node{t.root}
	for i := 0; i < len(t.nodes); i++ {
		n := t.nodes[i]
		n.number, n.shut = i, n.Closed || n.parent != nil && n.parent.shut
		t.nodes = append(t.nodes, n.children...)
	}
	for _, n := range slices.Backward(t.nodes) {
		t.fill(n)
	}
}

// fill gives a node its vectors; its children have theirs.
func (t *Tree) fill(n *node) {
	n.cap = t.dict.amounts(n.Capability, unlimited)
	n.deserved = t.dict.amounts(n.Deserved, -1)
	n.floor = t.dict.amounts(n.Guarantee, 0)
	width := len(t.dict.names)
	n.used, n.within = make(Amounts, width), make(Amounts, width)
	n.want, n.share = make(Amounts, width), make(Amounts, width)
	n.owed, n.rival.part, n.rival.held = make(Amounts, width), make(Amounts, width), make(Amounts, width)
	for r := range width {
		for _, c := range n.children {
			n.within[r] += c.booked[r]
		}
		n.floor[r] = max(n.floor[r], n.within[r])
	}
	n.booked = slices.Clone(n.floor)
	if n.leaf() {
		n.jobs = newBacklog(n)
	}
}

// SetQuotas replaces the quotas of all namespaces.
func (t *Tree) SetQuotas(quotas []Quota) error {
	seen := map[string]bool{}
	var errs []error
	for _, q := range quotas {
		if seen[q.Namespace] {
			errs = append(errs, fmt.Errorf("quota of namespace %q: there are two", q.Namespace))
		}
		seen[q.Namespace] = true
		if err := checkAmounts("hard", q.Hard); err != nil {
			errs = append(errs, fmt.Errorf("quota of namespace %q: %w", q.Namespace, err))
		}
	}
	if len(errs) > 0 {
		return errors.Join(errs...)
	}
	for _, s := range t.spaces {
		s.hard = nil
	}
	for _, q := range quotas {
		t.Amounts(q.Hard)
		t.space(q.Namespace).hard = t.dict.amounts(q.Hard, unlimited)
	}
	t.changed()
	return nil
}

func (t *Tree) space(name string) *namespace {
	s := t.spaces[name]
	if s == nil {
		s = &namespace{}
		t.spaces[name] = s
	}
	return s
}

// Amounts translates amounts by name; a resource not heard of before is learned.
func (t *Tree) Amounts(m map[Resource]int64) Amounts {
	known := len(t.dict.names)
	a := t.dict.amounts(m, 0)
	if len(t.dict.names) > known {
		t.widen()
	}
	return a
}

// widen makes room for new resources everywhere.
func (t *Tree) widen() {
	width := len(t.dict.names)
	pad := func(a Amounts, v int64) Amounts {
		for len(a) < width {
			a = append(a, v)
		}
		return a
	}
	t.total = pad(t.total, 0)
	for _, n := range t.nodes {
		n.cap, n.deserved = pad(n.cap, unlimited), pad(n.deserved, -1)
		n.floor, n.used, n.booked, n.within = pad(n.floor, 0), pad(n.used, 0), pad(n.booked, 0), pad(n.within, 0)
		n.want, n.share = pad(n.want, 0), pad(n.share, 0)
		n.owed, n.rival.part, n.rival.held = pad(n.owed, 0), pad(n.rival.part, 0), pad(n.rival.held, 0)
	}
}

// Map translates back; resources of which there is nothing are left out.
func (t *Tree) Map(a Amounts) map[Resource]int64 {
	m := map[Resource]int64{}
	for r, v := range a {
		if v != 0 {
			m[t.dict.names[r]] = v
		}
	}
	return m
}

// changed ends passes under way and makes shares be computed anew.
func (t *Tree) changed() {
	t.stale = true
	t.version++
}
