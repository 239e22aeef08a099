package arbiter

import (
	"cmp"
	"errors"
	"fmt"
	"math"
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
	// Namespace is whose quota it counts against, User whose turn it takes.
	Namespace, User string
	Priority        int32
	// Submitted is nanoseconds since whatever moment the caller counts from.
	Submitted int64
	// Demand is what the job needs to start, all members of its minimum together.
	// Extra is what it could use besides.
	Demand, Extra Amounts
	// Class says which jobs fit alike: where there is no capacity for one, there is
	// none for another of the same class and demand. Empty: the demand says it all.
	Class string
	// ExpectedRuntime is declared or learned (see Runtimes); 0 is unknown.
	ExpectedRuntime time.Duration
	// Preemptible is for whoever chooses victims; the arbiter only passes it on.
	Preemptible bool
}

// class is the jobs with one demand that fit alike.
type class struct {
	needs []need
	jobs  int
	// full is the pass in which there was no capacity for it.
	full uint64
}

// entry is a job in the tree.
type entry struct {
	Job
	class *class
	space *namespace
	node  *node // nil: in no queue
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
	t.attach(t.enter(j))
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
	return cmp.Or(t.dict.check("demand", j.Demand), t.dict.check("extra", j.Extra))
}

// Remove takes a job away, with what it is charged. Removing it twice is
// harmless.
func (t *Tree) Remove(id JobID) {
	e := t.jobs[id]
	if e == nil {
		return
	}
	t.detach(e)
	delete(t.jobs, id)
	if e.class.jobs--; e.class.jobs == 0 {
		delete(t.classes, e.key())
	}
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

// Size returns how many jobs wait, those in no queue included, and how many run.
func (t *Tree) Size() (waiting, running int) {
	for _, n := range t.nodes {
		running += n.running
	}
	return len(t.jobs) - running, running
}

// enter makes a job's entry, in no queue yet.
func (t *Tree) enter(j Job) *entry {
	j.Queue = cmp.Or(j.Queue, Default)
	j.Demand, j.Extra = slices.Clone(j.Demand), slices.Clone(j.Extra)
	e := &entry{Job: j, want: j.Demand.plus(j.Extra), space: t.space(j.Namespace)}
	key := e.key()
	e.class = t.classes[key]
	if e.class == nil {
		e.class = &class{needs: j.Demand.needs()}
		t.classes[key] = e.class
	}
	e.class.jobs++
	t.jobs[j.ID] = e
	return e
}

// key is equal for jobs of one class.
func (e *entry) key() string {
	b := make([]byte, 0, 64)
	for _, n := range e.Demand.needs() {
		b = strconv.AppendInt(b, int64(n.resource), 36)
		b = append(b, '=')
		b = strconv.AppendInt(b, n.amount, 36)
		b = append(b, ' ')
	}
	return string(append(append(b, '/'), e.Class...))
}

// attach puts a job into its queue, or into none: it waits or is charged there.
func (t *Tree) attach(e *entry) {
	e.node, e.bucket = t.byName[e.Queue], nil
	if e.node != nil && !e.node.leaf() {
		e.node = nil
	}
	if e.node != nil {
		e.rank = e.node.rank(&e.Job)
		for _, w := range e.want.needs() {
			e.node.want[w.resource] += w.amount
		}
	}
	switch {
	case e.runs:
		t.count(e, 1)
		t.book(e, e.charged, 1)
	case e.node != nil:
		e.node.waiting++
		e.node.jobs.add(e)
	}
}

// detach is the reverse.
func (t *Tree) detach(e *entry) {
	if e.node != nil {
		for _, w := range e.want.needs() {
			e.node.want[w.resource] -= w.amount
		}
	}
	switch {
	case e.runs:
		t.count(e, -1)
		t.book(e, e.charged, -1)
	case e.node != nil:
		e.node.waiting--
		e.node.jobs.remove(e)
	}
	e.node = nil
}

// rank is a job's place in its queue, before submission and ID decide.
func (n *node) rank(j *Job) int64 {
	switch n.Order {
	case Priority, RoundRobin:
		return -int64(j.Priority)
	case ShortestFirst:
		if j.ExpectedRuntime == 0 {
			return math.MaxInt64
		}
		return int64(j.ExpectedRuntime)
	}
	return 0
}
