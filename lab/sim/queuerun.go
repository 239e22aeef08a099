package sim

import (
	"fmt"
	"strconv"
	"time"

	"github.com/tangram-dev/tangram/core/arbiter"
	"github.com/tangram-dev/tangram/core/engine"
	"github.com/tangram-dev/tangram/core/ledger"
	"github.com/tangram-dev/tangram/core/model"
	"github.com/tangram-dev/tangram/core/planner"
)

// jobOutcome is when a job ran.
type jobOutcome struct {
	// started is when its last run began, end when it was done; -1 before.
	started, end int64
	// ran is the time of runs that an eviction ended.
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
	running events[ending]
	waiting int
	witness *witness
	fair    *fairMeter
	curve   []moment

	outcomes    []jobOutcome
	rejected    int // jobs larger than the cluster
	preemptions int
	lost        int64 // GPU-nanoseconds of evicted runs
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
	tree, err := arbiter.NewTree(policy.queues(jobs), nil)
	if err != nil {
		return nil, err
	}
	r.engine = engine.New(r.ledger, r.planner, tree, policy.options)
	r.engine.Apply(0, engine.FleetCounted{})
	return r, nil
}

// replay runs the trace to the end of its last job.
func (r *queueRun) replay(tell func(part float64)) error {
	next, done := 0, 0
	for batch := 0; ; batch++ {
		e, running := r.running.first()
		if !running && next == len(r.jobs) {
			break
		}
		at := e.at
		if next < len(r.jobs) && (!running || r.jobs[next].Submitted < at) {
			at = r.jobs[next].Submitted
		}
		r.advance(at)
		for ; running && e.at == at; e, running = r.running.first() {
			if r.running.next(); e.run == r.outcomes[e.job].runs {
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

// fullCheck is every how many moments the witness looks at all that runs, not only at
// what changed.
const fullCheck = 256

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
			r.engine.Apply(r.now, engine.Arrived{Request: role.Request})
		}
		g.Roles = append(g.Roles, role)
	}
	add("full", full, r.config.GPUsPerNode)
	add("rest", 1, rest)
	if err := r.engine.Apply(r.now, engine.Submitted{Gang: g}).Err; err != nil {
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

// decide carries out what the engine decides, until it decides nothing more.
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
	g, _ := r.engine.Gangs.Gang(s.Gang)
	r.witness.start(job, g.Min, s.Plan.Placements, func(role int) int { return g.Roles[role].Request.Count() })
	o := &r.outcomes[job]
	o.started = r.now
	o.runs++
	r.waiting--
	r.fair.wait(job, -1)
	r.fair.use(job, 1)
	r.running.add(ending{r.now + r.jobs[job].Duration, job, o.runs})
}

func (r *queueRun) finish(job int) {
	o := &r.outcomes[job]
	o.end = r.now
	r.leave(job)
	r.engine.Apply(r.now, engine.Withdrawn{Gang: gangID(job)})
	r.fair.use(job, -1)
	r.runtimes.Observe(runtimeKey(&r.jobs[job]), time.Duration(r.jobs[job].Duration))
}

// leave tells the witness that all members of a job are gone.
func (r *queueRun) leave(job int) {
	g, _ := r.engine.Gangs.Gang(gangID(job))
	for _, role := range g.Roles {
		for _, h := range role.Members {
			r.witness.leave(job, h)
		}
	}
}

// evict ends members at once. The engine evicts all members of a job; the job loses what it
// has done and waits again.
func (r *queueRun) evict(e engine.Evict) {
	gone := map[int]bool{}
	for _, h := range e.Members {
		id, _ := r.engine.Gangs.Of(h)
		job := r.jobOf(id)
		r.witness.leave(job, h)
		r.engine.Apply(r.now, engine.Ended{Holders: []model.HolderID{h}})
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

func (e ending) Before(o ending) bool { return e.at < o.at || e.at == o.at && e.job < o.job }
