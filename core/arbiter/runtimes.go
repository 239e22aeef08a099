package arbiter

import "time"

// RuntimeKey says whose jobs are alike: those of one owner (namespace and user)
// and one shape (image, size: whatever the caller finds telling).
type RuntimeKey struct{ Owner, Shape string }

// memory is how many of the last runs count. Short, because people change what
// they run; long enough that one crash after a minute does not decide.
const memory = 4

// remembered bounds how many keys are held twice over: of those seen since, and of
// as many before. People and images come and go for years.
const remembered = 1 << 14

// Runtimes learns how long jobs run. The zero value knows nothing. It holds one
// small entry per key, owner and shape it has seen lately.
type Runtimes struct{ means, before map[RuntimeKey]mean }

// mean is a decayed mean: the plain one of the first runs, then each new run
// counts one part in memory.
type mean struct {
	value time.Duration
	runs  int64
}

// Observe learns from a run that ended. Negative runtimes are ignored: clocks of
// different machines disagree.
func (r *Runtimes) Observe(k RuntimeKey, ran time.Duration) {
	if ran < 0 {
		return
	}
	if r.means == nil || len(r.means) > remembered {
		r.means, r.before = map[RuntimeKey]mean{}, r.means
	}
	for _, k := range k.general() {
		m, _ := r.mean(k)
		m.runs = min(m.runs+1, memory)
		m.value += (ran - m.value) / time.Duration(m.runs)
		r.means[k] = m
	}
}

// Estimate returns the expected runtime: of the owner's jobs of this shape, or
// else of the owner's jobs, or else of this shape; false when all are unknown.
// Never 0 when true, since 0 says unknown in Job.ExpectedRuntime.
func (r *Runtimes) Estimate(k RuntimeKey) (time.Duration, bool) {
	for _, k := range k.general() {
		if m, ok := r.mean(k); ok {
			return max(1, m.value), true
		}
	}
	return 0, false
}

func (r *Runtimes) mean(k RuntimeKey) (mean, bool) {
	m, ok := r.means[k]
	if !ok {
		m, ok = r.before[k]
	}
	return m, ok
}

// general lists the key and the more general ones to use instead, the closest first.
func (k RuntimeKey) general() []RuntimeKey {
	keys := []RuntimeKey{k}
	if k.Owner != "" && k.Shape != "" {
		keys = append(keys, RuntimeKey{Owner: k.Owner}, RuntimeKey{Shape: k.Shape})
	}
	return keys
}
