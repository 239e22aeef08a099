package workload

import (
	"maps"
	"time"

	"github.com/tangram-dev/tangram/core/engine"
	"github.com/tangram-dev/tangram/core/model"
)

// Arrivals are the numbers of all gangs, in the order in which they were first seen.
func (w *Gangs) Arrivals() map[engine.ID]int64 {
	out := make(map[engine.ID]int64, len(w.groups))
	for id, g := range w.groups {
		out[id] = g.arrival
	}
	return out
}

// Arrived gives gangs that come from now on the numbers that they had in another process;
// others come after all of these. Who came first within a second is first in its queue, and
// the last to be evicted.
func (w *Gangs) Arrived(numbers map[engine.ID]int64) {
	w.arrived = maps.Clone(numbers)
	for _, n := range numbers {
		w.arrivals = max(w.arrivals, n)
	}
}

// Estimates are the runtimes that were learned for gangs when they came, 0 when nothing was
// known; none for gangs that declare theirs.
func (w *Gangs) Estimates() map[engine.ID]time.Duration {
	out := map[engine.ID]time.Duration{}
	for id, g := range w.groups {
		if g.run.key != nil {
			out[id] = g.run.estimate
		}
	}
	return out
}

// Foretell makes gangs be expected to run as long as another process expected them to.
func (w *Gangs) Foretell(estimates map[engine.ID]time.Duration) { w.foretold = estimates }

// GangOf is the gang of a pod that is known; empty for others.
func (w *Gangs) GangOf(h model.HolderID) engine.ID {
	if m := w.members[h]; m != nil {
		return m.group.id
	}
	return ""
}

// Profiles are those of all scheduler names whose pods are placed here; not to be changed.
func (r *Reader) Profiles() map[string]Profile { return r.all() }

// ProtectedNamespaces are what Protect has set; nil: it was not called.
func (r *Reader) ProtectedNamespaces() []string {
	if set := r.protected.Load(); set != nil {
		return *set
	}
	return nil
}
