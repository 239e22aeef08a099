package sim

import (
	"container/heap"
	"fmt"
	"strconv"
	"time"

	"github.com/tangram-dev/tangram/core/arbiter"
	"github.com/tangram-dev/tangram/core/engine"
	"github.com/tangram-dev/tangram/core/ledger"
	"github.com/tangram-dev/tangram/core/model"
	"github.com/tangram-dev/tangram/core/pack"
	"github.com/tangram-dev/tangram/core/planner"
)

// jobOutcome is what became of one job.
type jobOutcome struct {
	// started is when its last run began, end when it was done; -1 before.
	started, end int64
	// ran is the time of runs that were cut short.
	ran  int64
	runs int
}

// queueRun is one policy on one trace.
type queueRun struct {
	config   *QueueConfig
	policy   queuePolicy
	jobs     []TimedJob
	ledger   *ledger.Ledger
	planner  *planner.Planner
	engine   *engine.Engine
	runtimes arbiter.Runtimes
	requests map[int]*model.Request // by number of GPUs

	now     int64
	running endings
	waiting int
	witness *witness
	fair    *fairMeter
	curve   []moment

	outcomes    []jobOutcome
	rejected    int // jobs larger than the cluster
	preemptions int
	lost        int64 // GPU-nanoseconds of runs cut short
	decisions   int
	spent       time.Duration // processor time of deciding
}

// moment is the state from a time on.
type moment struct {
	at            int64
	waiting, used int
}

// newQueueRun is an unused cluster and a policy.
func newQueueRun(name string, c *QueueConfig, jobs []TimedJob) (*queueRun, error) {
	policy, err := newQueuePolicy(name, c)
	if err != nil {
		return nil, err
	}
	r := &queueRun{
		config: c, policy: policy, jobs: jobs, ledger: ledger.New(), requests: map[int]*model.Request{},
		witness: newWitness(), fair: newFairMeter(jobs, c.GPUs), outcomes: make([]jobOutcome, len(jobs)),
	}
	for i := range c.GPUs / c.GPUsPerNode {
		n := &model.Node{ID: model.NodeID(fmt.Sprintf("node-%05d", i)), Sellable: map[model.Vendor]int{model.NVIDIA: c.GPUsPerNode}}
		for g := range c.GPUsPerNode {
			n.Devices = append(n.Devices, model.Device{Index: g, Vendor: model.NVIDIA, Model: model.ParseModel("GPU"), NUMA: model.NUMAUnknown})
		}
		if err := r.ledger.SetNode(n); err != nil {
			return nil, err
		}
	}
	r.planner = planner.New(r.ledger)
	total := map[arbiter.Resource]int64{engine.GPU(model.NVIDIA): int64(c.GPUs) * pack.Whole}
	tree, err := arbiter.NewTree(policy.queues(jobs), total)
	if err != nil {
		return nil, err
	}
	r.engine = engine.New(r.ledger, r.planner, tree, policy.options)
	return r, nil
}

// replay runs the trace to the end of its last job.
func (r *queueRun) replay(tell func(part float64)) error {
	next, done := 0, 0
	for batch := 0; next < len(r.jobs) || len(r.running) > 0; batch++ {
		at := never
		if next < len(r.jobs) {
			at = r.jobs[next].Submitted
		}
		if len(r.running) > 0 {
			at = min(at, r.running[0].at)
		}
		r.advance(at)
		for len(r.running) > 0 && r.running[0].at == at {
			if e := heap.Pop(&r.running).(ending); e.run == r.outcomes[e.job].runs {
				r.finish(e.job)
				done++
			}
		}
		for ; next < len(r.jobs) && r.jobs[next].Submitted == at; next++ {
			if r.jobs[next].GPUs > r.config.GPUs {
				r.rejected++
				r.outcomes[next].end = -1
				done++
				continue
			}
			if err := r.submit(next); err != nil {
				return err
			}
		}
		r.decide()
		r.witness.check(r.ledger, batch%fullCheck == 0)
		if batch%512 == 0 {
			tell(float64(done) / float64(len(r.jobs)))
		}
	}
	r.witness.check(r.ledger, true)
	if r.waiting > 0 {
		return fmt.Errorf("%d jobs wait although nothing runs", r.waiting)
	}
	return nil
}

const (
	never = int64(1<<63 - 1)
	// fullCheck is every how many moments the witness looks at all that runs, not only
	// at what changed.
	fullCheck = 256
)

func (r *queueRun) advance(to int64) {
	r.fair.advance(to)
	r.now = to
}

// gangID names the gang of a job.
func gangID(job int) engine.ID { return engine.ID("job-" + strconv.Itoa(job)) }

// submit makes a job a gang: of one member if it fits on a node, of full nodes and the
// rest otherwise.
func (r *queueRun) submit(job int) error {
	j := &r.jobs[job]
	g := engine.Gang{
		ID: gangID(job), Queue: r.policy.queueOf(j), User: j.Queue, Priority: j.Priority,
		Submitted: j.Submitted, Preemptible: r.policy.options.Preempt,
	}
	switch r.config.Runtimes {
	case Declared:
		g.Runtime = time.Duration(j.Duration)
	case Learned:
		g.Runtime, _ = r.runtimes.Estimate(runtimeKey(j))
	}
	full, rest := j.GPUs/r.config.GPUsPerNode, j.GPUs%r.config.GPUsPerNode
	add := func(name string, members, gpus int) {
		if members == 0 || gpus == 0 {
			return
		}
		role := engine.Role{Name: name, Request: r.request(gpus), Min: members}
		for range members {
			role.Members = append(role.Members, model.HolderID(fmt.Sprintf("%s-%d", g.ID, g.Min)))
			g.Min++
			r.planner.Arrive(role.Request)
		}
		g.Roles = append(g.Roles, role)
	}
	add("full", full, r.config.GPUsPerNode)
	add("rest", 1, rest)
	if err := r.engine.Submit(g); err != nil {
		return err
	}
	r.waiting++
	r.fair.wait(job, 1)
	return nil
}

func runtimeKey(j *TimedJob) arbiter.RuntimeKey {
	return arbiter.RuntimeKey{Owner: j.Queue, Shape: strconv.Itoa(j.GPUs)}
}

func (r *queueRun) request(gpus int) *model.Request {
	if r.requests[gpus] == nil {
		r.requests[gpus] = &model.Request{Vendor: model.NVIDIA, Containers: []model.Container{{Name: "main", Count: gpus}}}
	}
	return r.requests[gpus]
}

// decide carries out what the engine decides, until it has nothing more to say.
func (r *queueRun) decide() {
	for again := true; again; {
		begin := cpuTime()
		d := r.engine.Step(r.now)
		r.spent += cpuTime() - begin
		r.decisions++
		for _, s := range d.Starts {
			r.start(s)
		}
		for _, e := range d.Evicts {
			r.evict(e)
		}
		again = len(d.Evicts) > 0 || d.More
	}
	r.curve = append(r.curve, moment{r.now, r.waiting, r.fair.used})
}

func (r *queueRun) jobOf(id engine.ID) int {
	job, _ := strconv.Atoi(string(id[len("job-"):]))
	return job
}

func (r *queueRun) start(s engine.Start) {
	job := r.jobOf(s.Gang)
	g, _ := r.engine.Gang(s.Gang)
	r.witness.start(job, g.Min, s.Plan.Placements, func(role int) int { return g.Roles[role].Request.Count() })
	o := &r.outcomes[job]
	o.started = r.now
	o.runs++
	r.waiting--
	r.fair.wait(job, -1)
	r.fair.use(job, 1)
	heap.Push(&r.running, ending{r.now + r.jobs[job].Duration, job, o.runs})
}

func (r *queueRun) finish(job int) {
	o := &r.outcomes[job]
	o.end = r.now
	r.leave(job)
	r.engine.Withdraw(gangID(job))
	r.fair.use(job, -1)
	r.runtimes.Observe(runtimeKey(&r.jobs[job]), time.Duration(r.jobs[job].Duration))
}

// leave tells the witness that all members of a job are gone.
func (r *queueRun) leave(job int) {
	g, _ := r.engine.Gang(gangID(job))
	for _, role := range g.Roles {
		for _, h := range role.Members {
			r.witness.leave(job, h)
		}
	}
}

// evict ends members at once. A job that loses members here loses all, and starts anew
// later.
func (r *queueRun) evict(e engine.Evict) {
	gone := map[int]bool{}
	for _, h := range e.Members {
		id, _ := r.engine.Of(h)
		job := r.jobOf(id)
		r.witness.leave(job, h)
		r.engine.Ended(h)
		if gone[job] {
			continue
		}
		gone[job] = true
		o := &r.outcomes[job]
		o.ran += r.now - o.started
		o.runs++ // its ending is void
		r.preemptions++
		r.lost += (r.now - o.started) * int64(r.jobs[job].GPUs)
		r.waiting++
		r.fair.use(job, -1)
		r.fair.wait(job, 1)
	}
}

// ending is when a run of a job ends.
type ending struct {
	at       int64
	job, run int
}

// endings is a heap, soonest first.
type endings []ending

func (e endings) Len() int      { return len(e) }
func (e endings) Swap(i, j int) { e[i], e[j] = e[j], e[i] }
func (e *endings) Push(v any)   { *e = append(*e, v.(ending)) }

func (e endings) Less(i, j int) bool {
	if e[i].at != e[j].at {
		return e[i].at < e[j].at
	}
	return e[i].job < e[j].job
}

func (e *endings) Pop() any {
	last := (*e)[len(*e)-1]
	*e = (*e)[:len(*e)-1]
	return last
}
