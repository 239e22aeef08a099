package workload

import "time"

// Timing is how long gangs are waited for.
type Timing struct {
	// Owner is how long after a pod's creation its owner may be unknown: see OwnerPatience.
	Owner time.Duration
	// NextRun is how long the first members of what may be a next run wait for the others:
	// see NextRunFor.
	NextRun time.Duration
	// ShortestRun is the least that is learned from: see shortestRun.
	ShortestRun time.Duration
}

// DefaultTiming is the scheduler's.
func DefaultTiming() Timing {
	return Timing{Owner: OwnerPatience, NextRun: NextRunFor, ShortestRun: shortestRun}
}

// SetTiming changes how long gangs are waited for.
func (w *Gangs) SetTiming(t Timing) { w.timing, w.owners.patience = t, t.Owner }
