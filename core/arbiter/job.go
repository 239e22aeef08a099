package arbiter

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"
)

// JobID names a job. Comparisons end in it.
type JobID string

// Job is a gang as the arbiter sees it.
type Job struct {
	ID JobID
	// Queue is where it waits; empty is Default.
	Queue string
	// Namespace has the quota that it counts against; where users take turns (RoundRobin), it
	// takes one of User.
	Namespace, User string
	Priority        int32
	// Submitted is nanoseconds since a moment of the caller's choice.
	Submitted int64
	// Demand is what the job needs to start, all members of its minimum together.
	// Extra is what it could use besides.
	Demand, Extra Amounts
	// Class says which jobs fit alike: where there is no capacity for one, there is
	// none for another of the same class and demand. Empty: the demand says it all.
	Class string
	// ExpectedRuntime is declared or learned (see Runtimes); 0 is unknown.
	ExpectedRuntime time.Duration
	// Preemptible is for the choice of victims; the arbiter only passes it on.
	Preemptible bool
}

// class is the jobs with one demand that fit alike.
type class struct {
	// demand is what each job asks for, needs the part of it that has a number.
	demand Amounts
	needs  []need
	jobs   int
	// full is the pass in which there was no capacity for it.
	full uint64
	// fullIn is the space in which there is none: see Tree.CandidatesIn.
	fullIn uint64
}

// entry is a job in the tree.
type entry struct {
	Job
	class     *class
	namespace *namespace
	node      *node // nil: in no queue
	// bucket is where it waits; nil when it runs or is in no queue.
	bucket *bucket
	// rank is its place by the queue's policy, the smallest first.
	rank int64
	// charged is what it is charged; nil: it waits.
	charged Amounts
	// want is what its queue wants because of it: the larger of what it is charged
	// and what it could use.
	want Amounts
	runs bool
}

// Submit adds a job that waits. A job that is already there is replaced, unless
// it runs. Unknown queues are no error, since the queue may come later: see Why.
func (t *Tree) Submit(j Job) error {
	if e := t.jobs[j.ID]; e != nil && e.runs {
		return fmt.Errorf("submit job %q: it is charged", j.ID)
	}
	if err := t.checkJob(&j); err != nil {
		return fmt.Errorf("submit job %q: %w", j.ID, err)
	}
	t.Remove(j.ID)
	e := t.enter(j)
	t.enqueue(e)
	t.tally(e, 1)
	t.changed()
	return nil
}

func (t *Tree) checkJob(j *Job) error {
	if j.ID == "" {
		return errors.New("id: is empty")
	}
	if j.ExpectedRuntime < 0 {
		return fmt.Errorf("expected runtime: %v is negative", j.ExpectedRuntime)
	}
	return cmp.Or(j.Demand.check("demand"), j.Extra.check("extra"))
}

// Remove takes a job away, with what it is charged. Removing it twice is
// harmless.
func (t *Tree) Remove(id JobID) {
	e := t.jobs[id]
	if e == nil {
		return
	}
	t.tally(e, -1)
	t.dequeue(e)
	delete(t.jobs, id)
	if e.class.jobs--; e.class.jobs == 0 {
		delete(t.classes, e.key())
	}
	e.namespace.jobs--
	t.release(e.namespace)
	t.changed()
}

// Job returns a job and whether it is there. The caller must not change what its
// amounts point to.
func (t *Tree) Job(id JobID) (Job, bool) {
	if e := t.jobs[id]; e != nil {
		return e.Job, true
	}
	return Job{}, false
}

// enter makes a job's entry, in no queue yet.
func (t *Tree) enter(j Job) *entry {
	j.Queue = cmp.Or(j.Queue, Default)
	j.Demand, j.Extra = slices.Clone(j.Demand), slices.Clone(j.Extra)
	e := &entry{Job: j, want: j.Demand.Plus(j.Extra), namespace: t.namespace(j.Namespace)}
	e.namespace.jobs++
	key := e.key()
	e.class = t.classes[key]
	if e.class == nil {
		e.class = &class{demand: j.Demand, needs: t.dict.needs(j.Demand)}
		t.classes[key] = e.class
	}
	e.class.jobs++
	t.jobs[j.ID] = e
	return e
}

// key is equal for jobs of one class.
func (e *entry) key() string {
	b := make([]byte, 0, 64)
	for _, x := range e.Demand {
		b = append(b, x.Resource...)
		b = append(b, 0) // in no name of a resource or of a class
		b = strconv.AppendInt(b, x.Value, 36)
		b = append(b, 0)
	}
	return string(append(append(b, 0), e.Class...))
}

// enqueue finds a job's queue and adds the job to those that wait or run there. A running
// job in no queue counts at the root. Amounts are counted by tally.
func (t *Tree) enqueue(e *entry) {
	e.node, e.bucket = t.byName[e.Queue], nil
	if e.node != nil && (!e.node.leaf() || e.node.refuses(e.Namespace) != nil) {
		e.node = nil
	}
	if e.node != nil {
		e.rank = e.node.Order.rank(&e.Job)
	}
	switch {
	case e.runs:
		t.counted(e).running++
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
func (t *Tree) dequeue(e *entry) {
	switch {
	case e.runs:
		t.counted(e).running--
	case e.node != nil:
		e.node.waiting--
		e.node.jobs.remove(e)
	}
	e.node = nil
}

// counted is the queue that counts a running job: its own, or the root.
func (t *Tree) counted(e *entry) *node {
	if e.node == nil {
		return t.root
	}
	return e.node
}

// tally adds what a job wants and is charged, times 1 or -1, to all that count it.
func (t *Tree) tally(e *entry, sign int64) {
	if e.node != nil {
		e.node.want.add(t.needs(e, e.want), sign, 0)
	}
	if e.runs {
		t.book(e, t.needs(e, e.charged), sign)
	}
}

// needs translates amounts of a job. They are most often its demand, which is translated.
func (t *Tree) needs(e *entry, a Amounts) []need {
	if len(a) > 0 && len(a) == len(e.Demand) && &a[0] == &e.Demand[0] {
		return e.class.needs
	}
	return t.dict.needs(a)
}
