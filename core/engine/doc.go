// Package engine decides which gangs start now, and where: the arbiter's order and the
// planner's places on one state. It is a state machine. The adapter tells it what happened
// (Apply, with events as values) and steps it with the time (Step); it returns what to do, as
// data, and carries out nothing. The scheduler, the extender, copies of the scheduler and the
// simulators run this code.
//
// The state is divided into parts, each the only writer of its own:
//
//	core/cluster   ledger, queues, gangs and where their members are
//	core/memo      what is known to fail, and until when; the time
//	core/reserve   nodes that are kept for gangs
//	core/release   members on their way from a plan to a Binding
//	core/preempt   which gang may be evicted for which, which members leave
//	core/answer    nothing: it reads the others
//
// This package has the order of a step, and what an event means to several parts; parts do not
// call each other upwards.
//
// A step returns a Plan: gangs that start, holders to evict. With releases
// (Options.BatchTimeout) its Effects say the same member by member: released, revoked, to
// be activated. A gang is started only with a place proven for it, devices included, and
// its devices are held in the ledger from that moment on. A gang that cannot start waits
// with a reason (Reasons.Why).
//
// What core cannot know, Kubernetes' own rules, it asks through Facts. A node that is
// refused although it was planned gets a veto for the shape of the pod, for a while. A
// start that fails for other causes makes its gang rest.
//
// Read event.go (what an engine is told), plan.go (what it answers), engine.go (the parts),
// step.go (the decision), mend.go (gangs with subgroups), effort.go (what a step may cost),
// apply.go (what events do), saved.go, passing.go and checkpoint.go (what outlives an engine),
// text.go (the text form of decisions), types.go (words of the parts).
package engine
