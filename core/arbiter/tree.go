package arbiter

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"
)

// Tree is the queues, the jobs in them and what they use. It is not safe for
// concurrent use; the caller brings the lock.
type Tree struct {
	queues hierarchy
	jobs   jobs
	pass   pass
	// elapsed is the time up to which balances are settled.
	elapsed int64
	// version counts changes; a pass over an older version ends.
	version uint64
}

// NewTree builds a tree of queues over a cluster that has the given total. Root
// and Default need not be described. Errors are those of ValidateQueues; pass the
// queues through Usable first to leave out the invalid ones and learn which they are.
func NewTree(queues []Queue, total map[Resource]int64) (*Tree, error) {
	if err := checkAmounts("total", total); err != nil {
		return nil, err
	}
	t := &Tree{
		queues: hierarchy{have: maps.Clone(total)},
		jobs:   jobs{byID: map[JobID]*entry{}, classes: map[string]*class{}, namespaces: map[string]*namespace{}},
	}
	t.pass.queues = &t.queues
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
	q := &t.queues
	same := maps.EqualFunc(total, q.have, func(_, _ int64) bool { return true })
	q.have = maps.Clone(total)
	if same {
		q.total = q.dict.vector(q.have, 0)
	} else {
		t.renumber()
	}
	t.changed()
	return nil
}

// MinRuntime is how long jobs of a queue are left alone once they run: what the queue says,
// or else the nearest one above it that says something; 0 when none does.
func (t *Tree) MinRuntime(queue string) time.Duration {
	for n := t.queues.byName[queue]; n != nil; n = n.parent {
		if n.Queue.MinRuntime > 0 {
			return n.Queue.MinRuntime
		}
	}
	return 0
}

// Takes says whether a queue exists and takes jobs of a namespace, as do the queues above.
func (t *Tree) Takes(queue, namespace string) bool {
	n := t.queues.byName[queue]
	return n != nil && n.leaf() && n.refuses(namespace) == nil
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
	old := t.queues.byName
	t.queues.build(queues)
	for name, n := range t.queues.byName {
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
	for _, id := range slices.Sorted(maps.Keys(t.jobs.byID)) {
		t.queues.enqueue(t.jobs.byID[id])
	}
	t.renumber()
	t.changed()
	return nil
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
	for _, s := range t.jobs.namespaces {
		s.quota = nil
	}
	for _, q := range quotas {
		t.jobs.namespace(q.Namespace, &t.queues.dict).quota = maps.Clone(q.Hard)
	}
	for _, s := range t.jobs.namespaces {
		t.jobs.release(s)
	}
	t.renumber()
	t.changed()
	return nil
}

// changed ends passes under way and makes shares be computed anew.
func (t *Tree) changed() {
	t.queues.stale = true
	t.version++
}

// renumber makes the dictionary anew and with it all vectors, and counts every job
// again. Cost: jobs times the depth of the tree, and queues times resources.
func (t *Tree) renumber() {
	t.queues.renumber(t.jobs.namespaces)
	t.jobs.renumber(&t.queues.dict)
	for _, e := range t.jobs.byID {
		t.queues.tally(e, 1)
	}
}

// Queues are the queues as they were set; Root and Default are among them.
func (t *Tree) Queues() (out []Queue) {
	for _, n := range t.queues.nodes {
		out = append(out, n.Queue)
	}
	return out
}

// Quotas are the quotas as they were set, sorted by namespace.
func (t *Tree) Quotas() (out []Quota) {
	for _, name := range slices.Sorted(maps.Keys(t.jobs.namespaces)) {
		if s := t.jobs.namespaces[name]; s.quota != nil {
			out = append(out, Quota{Namespace: name, Hard: s.quota})
		}
	}
	return out
}
