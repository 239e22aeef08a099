package arbiter

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

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
type Runtimes struct {
	means, before map[RuntimeKey]mean
	// observed counts runs, to know which keys were seen last.
	observed int64
}

// mean is a decayed mean: the plain one of the first runs, then each new run
// counts one part in memory.
type mean struct {
	value time.Duration
	runs  int64
	// seen is the number of the last run.
	seen int64
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
	r.observed++
	for _, k := range k.general() {
		m, _ := r.mean(k)
		m.seen = r.observed
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

// SavedRuntime is what was learned of the runs of one key.
type SavedRuntime struct {
	Key  RuntimeKey
	Mean time.Duration
	// Runs is how many runs the mean is of, up to memory.
	Runs int64
}

// Save returns what was learned, of every namespace the keys seen last first, and namespaces
// in turn: a caller that cuts the list off leaves no namespace out because another has many keys.
// An owner's namespace is what is before its first slash; the rest of an owner's name its
// users choose. Cost: n log n of the keys.
func (r *Runtimes) Save() []SavedRuntime {
	type row struct {
		SavedRuntime
		seen int64
		rank int // among the namespace's
	}
	var rows []row
	all := map[RuntimeKey]mean{}
	maps.Copy(all, r.before)
	maps.Copy(all, r.means) // the newer
	for k, m := range all { // sorted below
		rows = append(rows, row{SavedRuntime: SavedRuntime{k, m.value, m.runs}, seen: m.seen})
	}
	slices.SortFunc(rows, func(a, b row) int {
		return cmp.Or(cmp.Compare(b.seen, a.seen), cmp.Compare(a.Key.Owner, b.Key.Owner), cmp.Compare(a.Key.Shape, b.Key.Shape))
	})
	ranks := map[string]int{}
	for i := range rows {
		namespace, _, _ := strings.Cut(rows[i].Key.Owner, "/")
		rows[i].rank = ranks[namespace]
		ranks[namespace]++
	}
	slices.SortStableFunc(rows, func(a, b row) int { return cmp.Compare(a.rank, b.rank) })
	out := make([]SavedRuntime, len(rows))
	for i := range rows {
		out[i] = rows[i].SavedRuntime
	}
	return out
}

// Clone returns a copy that shares no memory.
func (r *Runtimes) Clone() *Runtimes {
	return &Runtimes{means: maps.Clone(r.means), before: maps.Clone(r.before), observed: r.observed}
}

// Restore adds what was saved. It goes before what is known of the same key; what the list
// does not name stays.
func (r *Runtimes) Restore(saved []SavedRuntime) {
	if r.means == nil {
		r.means = map[RuntimeKey]mean{}
	}
	r.observed += int64(len(saved))
	for i, s := range saved {
		r.means[s.Key] = mean{s.Mean, min(max(s.Runs, 1), memory), r.observed - int64(i)}
	}
}

// MaxRuntime bounds a runtime that is restored. No run is longer than what the scheduler
// can have seen.
const MaxRuntime = 10 * 365 * 24 * time.Hour

// Validate names the field that makes no valid state.
func (s *SavedRuntime) Validate() error {
	switch {
	case s.Key == RuntimeKey{}:
		return errors.New("owner, shape: both are empty")
	case s.Mean < 0 || s.Mean > MaxRuntime:
		return fmt.Errorf("mean: %d, must be 0 to %d", s.Mean, MaxRuntime)
	case s.Runs < 1 || s.Runs > memory:
		return fmt.Errorf("runs: %d, must be 1 to %d", s.Runs, memory)
	}
	return nil
}
