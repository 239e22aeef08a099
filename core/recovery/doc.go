// Package recovery decides what is done about sick nodes and devices: keep new pods off
// them, move the pods that they hurt, and put them back into service. It is told what the
// API shows (a Fleet) and the time, and returns what to do (a Plan); it reads no clock and
// writes nothing.
//
// The API is its memory. What it has isolated carries a Mark, so a controller that is
// killed goes on where it was. Only suspicion (how often in a row a fault was seen) and
// back-offs are in the Machine, and begin anew.
//
// Three promises, which a property test holds against any sequence of observations:
//
//   - Never more than a set share of the fleet is isolated for faults. If more looks
//     sick than the share allows, nothing new is isolated: many faults at once are more
//     likely one fault of what reports them.
//   - What an operator cordoned stays cordoned, and what an operator put back into
//     service stays there until the fault has gone and come again.
//   - Only pods are evicted that a fault, a maintenance or their own excess concerns, or
//     that are of a gang which cannot go on without one of those.
//
// Read config.go, observe.go (what it is told), action.go (what it says), then machine.go
// with backoff.go, and what it calls in order: suspect.go, isolate.go with budget.go,
// release.go, agent.go, evict.go, scheduler.go, count.go.
package recovery
