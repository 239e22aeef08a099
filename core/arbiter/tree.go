package arbiter

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"time"
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

// Tree is the queues, the jobs in them and what they use. It is not safe for
// concurrent use; the caller brings the lock.
type Tree struct {
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

	jobs    map[JobID]*entry
	classes map[string]*class
	// namespaces has those that have jobs or a quota.
	namespaces map[string]*namespace

	// stale says that shares must be computed anew.
	stale bool
	// version counts changes; a pass over an older version ends.
	version uint64
	// passes counts passes; active is the leaves that may still offer something in
	// the one under way.
	passes uint64
	active []*node
	// mode and space are of the pass under way.
	mode  mode
	space uint64

	// elapsed is the time up to which balances are settled.
	elapsed int64
}

// namespace is what the jobs of one namespace use, and their limits.
type namespace struct {
	name  string
	jobs  int                // waiting or running
	quota map[Resource]int64 // nil: none
	hard  vector             // the quota; unlimited where it says nothing
	used  vector
}

// NewTree builds a tree of queues over a cluster that has the given total. Root
// and Default need not be described. Errors are those of ValidateQueues; pass the
// queues through Usable first to leave out the invalid ones and learn which they are.
func NewTree(queues []Queue, total map[Resource]int64) (*Tree, error) {
	if err := checkAmounts("total", total); err != nil {
		return nil, err
	}
	t := &Tree{
		have: maps.Clone(total),
		jobs: map[JobID]*entry{}, classes: map[string]*class{}, namespaces: map[string]*namespace{},
	}
	if err := t.SetQueues(queues); err != nil {
		return nil, err
	}
	return t, nil
}

// SetTotal says what the cluster has now. A resource that is absent or 0 is not
// divided: it counts in no share, though capabilities and quotas still hold. An
// invalid total changes nothing. Cost: the resources; all jobs are counted anew when
// the total names other resources than before.
func (t *Tree) SetTotal(total map[Resource]int64) error {
	if err := checkAmounts("total", total); err != nil {
		return err
	}
	same := len(total) == len(t.have)
	for r := range total {
		_, known := t.have[r]
		same = same && known
	}
	t.have = maps.Clone(total)
	if same {
		t.total = t.dict.vector(t.have, 0)
	} else {
		t.renumber()
	}
	t.changed()
	return nil
}

// MinRuntime is how long jobs of a queue are left alone once they run: what the queue says,
// or else the nearest one above it that says something; 0 when none does.
func (t *Tree) MinRuntime(queue string) time.Duration {
	for n := t.byName[queue]; n != nil; n = n.parent {
		if n.Queue.MinRuntime > 0 {
			return n.Queue.MinRuntime
		}
	}
	return 0
}

// limit is the most that may be booked of a resource in a queue.
func (t *Tree) limit(n *node, r int) int64 {
	if n != t.root || t.total[r] <= 0 {
		return n.cap[r]
	}
	return min(n.cap[r], t.total[r])
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
			n.owed = o.owed // among the same siblings
		}
		if o.jobs != nil && n.jobs != nil {
			n.jobs.turns = o.jobs.turns.withoutBuckets()
		}
	}
	for _, id := range slices.Sorted(maps.Keys(t.jobs)) {
		t.enqueue(t.jobs[id])
	}
	t.renumber()
	t.changed()
	return nil
}

// build makes the nodes, without jobs and vectors.
func (t *Tree) build(queues []Queue) {
	described := map[string]Queue{
		Root:    {Name: Root},
		Default: {Name: Default, Reclaimable: true},
	}
	for _, q := range queues {
		described[q.Name] = q
	}
	t.byName = map[string]*node{}
	for name, q := range described {
		q.Guarantee, q.Deserved, q.Capability = maps.Clone(q.Guarantee), maps.Clone(q.Deserved), maps.Clone(q.Capability)
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
		if n.leaf() {
			n.jobs = newBacklog(n)
		}
		t.nodes = append(t.nodes, n.children...)
	}
}

// SetQuotas replaces the quotas of all namespaces. Invalid quotas change nothing.
// Cost: all jobs are counted anew.
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
	for _, s := range t.namespaces {
		s.quota = nil
	}
	for _, q := range quotas {
		t.namespace(q.Namespace).quota = maps.Clone(q.Hard)
	}
	for _, s := range t.namespaces {
		t.release(s)
	}
	t.renumber()
	t.changed()
	return nil
}

// namespace returns a namespace, made if it is not there.
func (t *Tree) namespace(name string) *namespace {
	s := t.namespaces[name]
	if s == nil {
		s = &namespace{name: name, hard: t.dict.vector(nil, unlimited), used: make(vector, len(t.dict.names))}
		t.namespaces[name] = s
	}
	return s
}

// release drops a namespace that has neither jobs nor a quota.
func (t *Tree) release(s *namespace) {
	if s.jobs == 0 && len(s.quota) == 0 {
		delete(t.namespaces, s.name)
	}
}

// changed ends passes under way and makes shares be computed anew.
func (t *Tree) changed() {
	t.stale = true
	t.version++
}

// Queues are the queues as they were set; Root and Default are among them.
func (t *Tree) Queues() (out []Queue) {
	for _, n := range t.nodes {
		out = append(out, n.Queue)
	}
	return out
}

// Quotas are the quotas as they were set, sorted by namespace.
func (t *Tree) Quotas() (out []Quota) {
	for _, name := range slices.Sorted(maps.Keys(t.namespaces)) {
		if s := t.namespaces[name]; s.quota != nil {
			out = append(out, Quota{Namespace: name, Hard: s.quota})
		}
	}
	return out
}
