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

// jobs are the jobs of a tree, and what they have in common.
//
// Invariant: classes and namespaces count their jobs. Each class has some; each namespace
// has some, or a quota.
type jobs struct {
	byID       map[JobID]*entry
	classes    map[string]*class
	namespaces map[string]*namespace
}

// namespace is what the jobs of one namespace use, and their limits.
type namespace struct {
	name  string
	jobs  int                // waiting or running
	quota map[Resource]int64 // nil: none
	hard  vector             // the quota; unlimited where it says nothing
	used  vector
}

// enter makes a job's entry, in no queue yet.
func (x *jobs) enter(j Job, d *dictionary) *entry {
	j.Queue = cmp.Or(j.Queue, Default)
	j.Demand, j.Extra = slices.Clone(j.Demand), slices.Clone(j.Extra)
	e := &entry{Job: j, want: j.Demand.Plus(j.Extra), namespace: x.namespace(j.Namespace, d)}
	e.namespace.jobs++
	key := e.key()
	e.class = x.classes[key]
	if e.class == nil {
		e.class = &class{demand: j.Demand, needs: d.needs(j.Demand)}
		x.classes[key] = e.class
	}
	e.class.jobs++
	x.byID[j.ID] = e
	return e
}

// leave is the reverse.
func (x *jobs) leave(e *entry) {
	delete(x.byID, e.ID)
	if e.class.jobs--; e.class.jobs == 0 {
		delete(x.classes, e.key())
	}
	e.namespace.jobs--
	x.release(e.namespace)
}

// waiting is a job that waits; nil when it runs or is not there.
func (x *jobs) waiting(id JobID) *entry {
	if e := x.byID[id]; e != nil && !e.runs {
		return e
	}
	return nil
}

// namespace returns a namespace, made if it is not there.
func (x *jobs) namespace(name string, d *dictionary) *namespace {
	s := x.namespaces[name]
	if s == nil {
		s = &namespace{name: name, hard: d.vector(nil, unlimited), used: make(vector, len(d.names))}
		x.namespaces[name] = s
	}
	return s
}

// release drops a namespace that has neither jobs nor a quota.
func (x *jobs) release(s *namespace) {
	if s.jobs == 0 && len(s.quota) == 0 {
		delete(x.namespaces, s.name)
	}
}

// renumber makes all vectors anew, with nothing in use.
func (x *jobs) renumber(d *dictionary) {
	for _, s := range x.namespaces {
		s.hard, s.used = d.vector(s.quota, unlimited), make(vector, len(d.names))
	}
	for _, c := range x.classes {
		c.needs = d.needs(c.demand)
	}
}

// Submit adds a job that waits. A job that is already there is replaced, unless
// it runs. Unknown queues are no error, since the queue may come later: see Why.
func (t *Tree) Submit(j Job) error {
	if e := t.jobs.byID[j.ID]; e != nil && e.runs {
		return fmt.Errorf("submit job %q: it is charged", j.ID)
	}
	if err := j.check(); err != nil {
		return fmt.Errorf("submit job %q: %w", j.ID, err)
	}
	t.Remove(j.ID)
	e := t.jobs.enter(j, &t.queues.dict)
	t.queues.enqueue(e)
	t.queues.tally(e, 1)
	t.changed()
	return nil
}

func (j *Job) check() error {
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
	e := t.jobs.byID[id]
	if e == nil {
		return
	}
	t.queues.tally(e, -1)
	t.queues.dequeue(e)
	t.jobs.leave(e)
	t.changed()
}

// Job returns a job and whether it is there. The caller must not change what its
// amounts point to.
func (t *Tree) Job(id JobID) (Job, bool) {
	if e := t.jobs.byID[id]; e != nil {
		return e.Job, true
	}
	return Job{}, false
}
