// Package dispatch decides who starts now, and where: the arbiter's order and the
// planner's places on one state. The scheduler and the queue simulator run this very
// code.
//
// Whoever carries decisions out tells what happened (Submit, Withdraw, Ended, Undo)
// and asks Decide. It answers with actions: start these members at these places,
// evict those. A gang is started only with a place proven for it, devices included,
// and its devices are held in the ledger from that moment on. What cannot start waits
// with a reason.
//
// The first gang in order that fits nowhere gets a reservation: the earliest time at
// which, by the expected ends of what runs, it would fit, and the nodes it would use.
// Others may use those nodes only if they end before. A run that outlasts what was
// expected, or of which nothing is known, is expected to last about as long again.
// Once a gang is over age nothing goes before it in its queue; once it has its
// reservation, it waits at most for the longest that runs on its nodes at that moment.
//
// Read gang.go (what is known of a gang), engine.go (what happens), decide.go (the
// decision), attempts.go and shortest.go (what need not be tried twice), reserve.go
// (reservation and backfill), evict.go (preemption).
package dispatch
