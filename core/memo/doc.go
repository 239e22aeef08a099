// Package memo is what the engine knows to fail, and until when, so that it is not tried
// again before something has changed. It owns the time, the count of steps and the count of
// changes, and what is remembered by node, by shape and by gang:
//
//	Version     what has changed, by cause: a freed place, a node, a reservation
//	Vetoes      nodes that kube-scheduler's filters refused for a shape
//	Fates       gang shapes that have no place now, or can never have one
//	Gang        of one gang: attempts that failed, the pause after a failed start
//	timers      moments at which time alone lets a gang start
//	suspension  the API server cannot be written to: no start is decided
//
// It knows nothing of nodes, devices or queues; the parts above it ask and tell.
//
// Invariants (Verify): the timers are sorted; every veto of a node is found by that node and
// by its shape; no veto is empty.
//
// Read version.go, gang.go and attempt.go (per gang), veto.go (per node and shape), fate.go
// (per gang shape), timer.go and suspend.go, then memo.go, which puts them together; saved.go
// is what of it a copy of the engine needs, timing.go how long pauses are, verify.go the checks.
package memo
