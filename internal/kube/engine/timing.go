package engine

import (
	"time"

	"github.com/tangram-dev/tangram/internal/kube/workload"
)

// BatchTimeout is how long members that start together may take until the last of them
// is at Permit, unless it was set to something else. They follow each other in
// kube-scheduler's queue, so it is less than a second, unless another plugin keeps one of
// them out of it.
const BatchTimeout = 2 * time.Minute

// Timing is how long the adapter waits; core's own times are in its options.
type Timing struct {
	// Step is how long decisions are left alone when nothing happens: time itself changes
	// things (ages, reservations whose time came).
	Step time.Duration
	// Terminating is how long after its grace period a pod is still expected to go.
	Terminating time.Duration
	// Contest is how long two records may name one device on a node with an agent: see
	// contestGrace.
	Contest time.Duration
	// InvalidQueue is how long a queue may be invalid before that is reported: see
	// queuePatience.
	InvalidQueue time.Duration
	workload.Timing
}

// DefaultTiming is the scheduler's.
func DefaultTiming() Timing {
	return Timing{Step: stepEvery, Terminating: goneBy, Contest: contestGrace, InvalidQueue: queuePatience, Timing: workload.DefaultTiming()}
}

// SetTiming changes how long the adapter waits, from the next step on.
func (e *Engine) SetTiming(t Timing) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.timing = t
	e.work.SetTiming(t.Timing)
}
