package workload

import "time"

// Timing is how long gangs are waited for.
type Timing struct {
	Owner       time.Duration // how long after a pod's creation its owner may be unknown: see OwnerPatience
	NextRun     time.Duration // how long the first members of a next run wait for others: see NextRunFor
	ShortestRun time.Duration // the least that is learned from: see shortestRun
}

// DefaultTiming is the scheduler's.
func DefaultTiming() Timing {
	return Timing{Owner: OwnerPatience, NextRun: NextRunFor, ShortestRun: shortestRun}
}

// SetTiming changes how long gangs are waited for.
func (w *Gangs) SetTiming(t Timing) { w.timing, w.owners.patience = t, t.Owner }
