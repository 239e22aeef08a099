package sim

import (
	"math/rand/v2"
	"time"

	"github.com/tangram-dev/tangram/core/pack"
)

// arrivals is the published protocol: all pods in random order, then pods drawn
// with replacement until the demand reaches the load; or, if the trace asks for
// more than that, as many as fit under it.
func arrivals(t *Trace, load float64, seed uint64) []int32 {
	random := rand.New(rand.NewPCG(seed, arrivalStream))
	goal := load * float64(t.Capacity())
	demand := float64(t.Demand())
	order := make([]int32, len(t.Pods))
	for i, pod := range random.Perm(len(t.Pods)) {
		order[i] = int32(pod)
	}
	for demand < goal && demand > 0 {
		pod := random.IntN(len(t.Pods))
		order = append(order, int32(pod))
		demand += float64(t.Pods[pod].Class.Demand())
	}
	// The order is random, so cutting its end removes pods at random.
	for demand > goal && len(order) > 0 {
		last := &t.Pods[order[len(order)-1]].Class
		if demand-float64(last.Demand()) < goal {
			break
		}
		demand -= float64(last.Demand())
		order = order[:len(order)-1]
	}
	return order
}

// sample is the state of the fleet at one moment, in percent of its GPUs.
type sample struct {
	unallocated float64
	frag        float64 // F over all typical requests
	fragGPU     float64 // F over those that ask for GPUs
}

// packRun is the outcome of one seed.
type packRun struct {
	at        []sample // by PackConfig.At
	curve     []sample // at each percent of load from 0, when asked for
	wait      []float64
	decisions int
	ratings   uint64        // made by the index; 0 without one
	spent     time.Duration // processor time of the replay, without its preparation
	end       []pack.Shape
}

// packReplay is a policy, a seed and what to replay.
type packReplay struct {
	trace  *Trace
	config *PackConfig
	policy string
	seed   uint64
	// bare replays measure nothing but time: what is left besides deciding is
	// keeping the state, a few nanoseconds.
	bare bool
	tell func(part float64)
}

// run replays the published protocol, or the one with lifetimes.
func (j *packReplay) run() (*packRun, error) {
	if j.config.Lifetimes {
		return j.timed()
	}
	return j.static()
}

// cluster is the empty fleet, with its measures.
func (j *packReplay) cluster() (*cluster, error) {
	if j.bare {
		return newCluster(j.trace, j.policy, j.config.Workload, j.seed)
	}
	workload := j.trace.Workload()
	return newCluster(j.trace, j.policy, j.config.Workload, j.seed, NewFragmentation(workload, false), NewFragmentation(workload, true))
}

// static replays one seed: requests come one by one, none ends, and one that does not
// fit is dropped.
func (j *packReplay) static() (*packRun, error) {
	t, config := j.trace, j.config
	fleet, err := j.cluster()
	if err != nil {
		return nil, err
	}
	capacity := t.Capacity()
	r := &packRun{}
	var grid []float64
	if config.curves() {
		for percent := 0; float64(percent)/100 <= config.Load+1e-9; percent++ {
			grid = append(grid, float64(percent)/100)
		}
	}
	// The value at a load is that of the last state in which not more had arrived.
	var arrived int64
	passed := func(all bool, next int64) {
		for len(r.at) < len(config.At) && (all || float64(arrived+next) > config.At[len(r.at)]*float64(capacity)) {
			r.at = append(r.at, fleet.sample(capacity))
		}
		for len(r.curve) < len(grid) && (all || float64(arrived+next) > grid[len(r.curve)]*float64(capacity)) {
			r.curve = append(r.curve, fleet.sample(capacity))
		}
	}
	order := arrivals(t, config.Load, j.seed)
	begin := cpuTime()
	for i, pod := range order {
		class := &t.Pods[pod].Class
		passed(false, class.Demand())
		arrived += class.Demand()
		fleet.arrive(int(pod))
		fleet.start(int(pod))
		r.decisions++
		if i%512 == 0 {
			j.tell(float64(i) / float64(len(order)))
		}
	}
	r.spent = cpuTime() - begin
	passed(true, 0)
	r.end = fleet.shapes
	r.ratings = fleet.planner.Work()
	return r, nil
}

// sample is the state now; without meters, no fragmentation.
func (c *cluster) sample(capacity int64) sample {
	percent := 100 / float64(capacity)
	s := sample{unallocated: float64(c.idle) * percent}
	if len(c.meters) == 2 {
		s.frag, s.fragGPU = c.meters[0].total*percent, c.meters[1].total*percent
	}
	return s
}
