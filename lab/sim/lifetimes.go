package sim

import (
	"math/rand/v2"

	"github.com/tangram-dev/tangram/core/pack"
)

// The clock of a run counts mean lifetimes. The fleet fills during the warm-up;
// then it is measured.
const (
	warmUp   = 2.0
	measured = 3.0
	horizon  = warmUp + measured
)

// request is one arrival, the same for every policy.
type request struct {
	pod     int // of the trace
	class   *pack.Class
	arrival float64
	life    float64
}

// requests draws arrivals: Poisson, at the rate that asks for load times the
// capacity if all ran at once, each for an exponential time.
func requests(t *Trace, load float64, seed uint64) []request {
	random := rand.New(rand.NewPCG(seed, lifetimeStream))
	perLifetime := load * float64(t.Capacity()) / (float64(t.Demand()) / float64(len(t.Pods)))
	var list []request
	for now := random.ExpFloat64() / perLifetime; now < horizon; now += random.ExpFloat64() / perLifetime {
		pod := random.IntN(len(t.Pods))
		list = append(list, request{pod, &t.Pods[pod].Class, now, random.ExpFloat64()})
	}
	return list
}

// timed replays one seed at each load of PackConfig.At.
func (j *packReplay) timed() (*packRun, error) {
	r := &packRun{}
	for i, load := range j.config.At {
		fleet, err := j.cluster()
		if err != nil {
			return nil, err
		}
		s := &timedRun{packRun: r, capacity: j.trace.Capacity(), fleet: fleet, waiting: map[pack.Class]*queue{}}
		list := requests(j.trace, load, j.seed)
		begin := cpuTime()
		s.replay(list, func(part float64) { j.tell((float64(i) + part) / float64(len(j.config.At))) })
		r.spent += cpuTime() - begin
		r.ratings += fleet.planner.Work()
	}
	return r, nil
}

// timedRun is one load of one seed.
type timedRun struct {
	*packRun
	capacity int64
	fleet    *cluster
	running  events[departure]
	waiting  map[pack.Class]*queue
	queues   []*queue // of waiting, in the order of first use

	now      float64
	sum      sample  // over measured time
	waited   float64 // GPU-weighted, of arrivals in measured time
	measured float64 // GPU of those
}

// queue holds waiting requests of one class, oldest first.
type queue struct {
	class   *pack.Class
	waiting []waiter
}

type waiter struct {
	request
	number int // of the arrival
}

func (s *timedRun) replay(list []request, progress func(part float64)) {
	for i, r := range list {
		s.endUntil(r.arrival)
		s.advance(r.arrival)
		s.fleet.arrive(r.pod)
		q := s.queue(r.class)
		// If one of the class waits, this one would not fit either.
		if len(q.waiting) > 0 || !s.start(r) {
			q.waiting = append(q.waiting, waiter{r, i})
		}
		if i%512 == 0 {
			progress(r.arrival / horizon)
		}
	}
	s.endUntil(horizon)
	s.advance(horizon)
	for _, q := range s.queues {
		for _, w := range q.waiting {
			s.countWait(w.request)
		}
	}
	s.at = append(s.at, sample{s.sum.unallocated / measured, s.sum.frag / measured, s.sum.fragGPU / measured})
	wait := 0.0
	if s.measured > 0 {
		wait = s.waited / s.measured
	}
	s.wait = append(s.wait, wait)
}

// endUntil ends the pods whose lifetime is over by a time. Pods that wait fitted on no node
// before, so after an end only its node can take them: they are tried in order of arrival,
// skipping those that still do not fit.
func (s *timedRun) endUntil(until float64) {
	for d, ok := s.running.first(); ok && d.end <= until; d, ok = s.running.first() {
		s.running.next()
		s.advance(d.end)
		s.fleet.end(d.held)
		for {
			q := s.firstThatFits(d.node)
			if q == nil || !s.start(q.waiting[0].request) {
				break
			}
			q.waiting = q.waiting[1:]
		}
	}
}

func (s *timedRun) firstThatFits(node int) *queue {
	var first *queue
	for _, q := range s.queues {
		if len(q.waiting) == 0 || first != nil && first.waiting[0].number < q.waiting[0].number {
			continue
		}
		if s.fleet.shapes[node].Fits(q.class) {
			first = q
		}
	}
	return first
}

// start places a request now, if it fits anywhere.
func (s *timedRun) start(r request) bool {
	h, ok := s.fleet.start(r.pod)
	s.decisions++
	if !ok {
		return false
	}
	s.running.add(departure{s.now + r.life, s.decisions, h})
	s.countWait(r)
	return true
}

// countWait adds the wait of a request that starts now, or never did.
func (s *timedRun) countWait(r request) {
	if r.arrival >= warmUp {
		s.waited += (s.now - r.arrival) * float64(r.class.Demand())
		s.measured += float64(r.class.Demand())
	}
}

// advance moves the clock, and counts what was idle meanwhile.
func (s *timedRun) advance(to float64) {
	if span := to - max(s.now, warmUp); span > 0 {
		state := s.fleet.sample(s.capacity)
		s.sum.unallocated += span * state.unallocated
		s.sum.frag += span * state.frag
		s.sum.fragGPU += span * state.fragGPU
	}
	s.now = to
}

func (s *timedRun) queue(c *pack.Class) *queue {
	q := s.waiting[*c]
	if q == nil {
		q = &queue{class: c}
		s.waiting[*c] = q
		s.queues = append(s.queues, q)
	}
	return q
}

// departure is the end of a running request; number makes the order total.
type departure struct {
	end    float64
	number int
	held
}

func (d departure) Before(o departure) bool {
	return d.end < o.end || d.end == o.end && d.number < o.number
}
