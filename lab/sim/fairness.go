package sim

import (
	"maps"
	"slices"
)

// fairMeter measures what each queue gets while jobs want more GPUs than there are.
//
// A moment is contended when all jobs together, running and waiting, want more GPUs
// than there are. In a contended moment every queue is entitled to its max-min fair
// share: all queues alike, none more than it wants. A queue's satisfaction is the
// GPU time it got in contended moments over the GPU time it was entitled to in them.
type fairMeter struct {
	gpus   int
	jobs   []TimedJob
	queues []string // sorted
	of     []int    // by job

	now             int64
	wants, uses     []int // GPUs by queue; wants are those that wait
	want, used      int
	got, due        []float64 // GPU-nanoseconds by queue, in contended moments
	contended       int64     // nanoseconds
	contendedUse    float64   // GPU-nanoseconds
	byWant          []int
	entitledIsStale bool
	entitled        []float64
}

func newFairMeter(jobs []TimedJob, gpus int) *fairMeter {
	names := map[string]int{}
	for i := range jobs {
		names[jobs[i].Queue] = 0
	}
	m := &fairMeter{gpus: gpus, jobs: jobs, queues: slices.Sorted(maps.Keys(names)), of: make([]int, len(jobs))}
	for i, name := range m.queues {
		names[name] = i
	}
	for i := range jobs {
		m.of[i] = names[jobs[i].Queue]
	}
	n := len(m.queues)
	m.wants, m.uses, m.got, m.due, m.entitled = make([]int, n), make([]int, n), make([]float64, n), make([]float64, n), make([]float64, n)
	return m
}

// wait and use count a job that waits or runs from now on (1), or no longer (-1).
func (m *fairMeter) wait(job, sign int) {
	m.wants[m.of[job]] += sign * m.jobs[job].GPUs
	m.want += sign * m.jobs[job].GPUs
	m.entitledIsStale = true
}

func (m *fairMeter) use(job, sign int) {
	m.uses[m.of[job]] += sign * m.jobs[job].GPUs
	m.used += sign * m.jobs[job].GPUs
	m.entitledIsStale = true
}

// advance counts the time since the last moment.
func (m *fairMeter) advance(to int64) {
	span := float64(to - m.now)
	if m.want+m.used > m.gpus && span > 0 {
		m.entitle()
		for q := range m.queues {
			m.got[q] += span * float64(m.uses[q])
			m.due[q] += span * m.entitled[q]
		}
		m.contended += to - m.now
		m.contendedUse += span * float64(m.used)
	}
	m.now = to
}

// entitle fills the shares: the smallest wishes first, each getting what it wants or
// an equal part of what is left.
func (m *fairMeter) entitle() {
	if !m.entitledIsStale {
		return
	}
	m.entitledIsStale = false
	m.byWant = m.byWant[:0]
	for q := range m.queues {
		m.byWant = append(m.byWant, q)
	}
	wish := func(q int) int { return m.wants[q] + m.uses[q] }
	slices.SortFunc(m.byWant, func(a, b int) int { return wish(a) - wish(b) })
	left := float64(m.gpus)
	for i, q := range m.byWant {
		m.entitled[q] = min(float64(wish(q)), left/float64(len(m.byWant)-i))
		left -= m.entitled[q]
	}
}

// satisfaction is by queue what it got over what it was entitled to; -1 for queues
// that were never entitled to anything.
func (m *fairMeter) satisfaction() []float64 {
	out := make([]float64, len(m.queues))
	for q := range out {
		out[q] = -1
		if m.due[q] > 0 {
			out[q] = m.got[q] / m.due[q]
		}
	}
	return out
}

// jain is Jain's index of values, those below 0 left out: 1 when all are equal, 1/n
// when one has all.
func jain(values []float64) float64 {
	n, sum, square := 0.0, 0.0, 0.0
	for _, v := range values {
		if v >= 0 {
			n, sum, square = n+1, sum+v, square+v*v
		}
	}
	if square == 0 {
		return 1
	}
	return sum * sum / (n * square)
}

// idealTimes is by job how long it would take from submission to end if its queue had
// a cluster of its own: one n-th of the GPUs, n the number of queues, first come first
// served, where only numbers of GPUs count. A job larger than that runs on all of it,
// for as long as the same GPU time takes.
func idealTimes(jobs []TimedJob, gpus int) []float64 {
	queues := map[string][]int{}
	for i := range jobs {
		queues[jobs[i].Queue] = append(queues[jobs[i].Queue], i)
	}
	share := max(float64(gpus)/float64(len(queues)), 1)
	out := make([]float64, len(jobs))
	for _, list := range queues { // each for itself: the order does not matter
		free, now := share, 0.0
		var running events[idealEnd]
		for _, i := range list {
			need := min(float64(jobs[i].GPUs), share)
			now = max(now, float64(jobs[i].Submitted))
			for e, ok := running.first(); ok && (e.at <= now || free < need); e, ok = running.first() {
				running.next()
				free += e.gpus
				now = max(now, e.at)
			}
			end := now + float64(jobs[i].Duration)*float64(jobs[i].GPUs)/need
			free -= need
			running.add(idealEnd{end, need})
			out[i] = end - float64(jobs[i].Submitted)
		}
	}
	return out
}

type idealEnd struct{ at, gpus float64 }

func (e idealEnd) Before(o idealEnd) bool { return e.at < o.at }
