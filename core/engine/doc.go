// Package engine decides who starts now, and where: the arbiter's order and the
// planner's places on one state. The scheduler and the queue simulator run this very
// code.
//
// Whoever carries decisions out tells what happened (Submit, Withdraw, Ended, Undo)
// and asks Decide. It answers with actions: start these members at these places,
// evict those. A gang is started only with a place proven for it, devices included,
// and its devices are held in the ledger from that moment on. What cannot start waits
// with a reason. Devices may be given up in the ledger directly, too; the engine
// notices.
//
// A gang that has to wait for several others to end gets a reservation: the earliest
// time at which, by the known ends of what runs, it would fit, and the nodes it would
// use. Others may use those nodes only if they end before, and the quota it needs
// likewise. So it starts no later than that because of anybody who was let past it.
//
// No starvation, stated: a gang that is the first of those that need a reservation,
// or among the first Options.Reservations of them, whose queue is, by its balance, not
// above its share and that has waited for Options.Patience, has its nodes kept even
// when nobody knows when they will be free, if need be at the cost of reservations of
// younger gangs. It starts when the last of what ran there at that moment ends: after
// its patience and the longest runtime. Sooner if its queue is owed what the gang uses
// in a part of its patience: so queues with large gangs get their share, too. Before
// that, nodes are kept only for times that are known, and for gangs that leave their
// queue about within its share: otherwise a reservation takes from those whose turn it
// is, or wastes nodes for a guess. Reservations are found anew when the fleet changes
// or when what should have ended did not.
//
// Victims are evicted only with proof, by places and by queues, that the gang starts
// once they are gone, and what they leave is kept for it. In its own queue a gang
// evicts only lower priorities, of other queues only what they use above their share,
// so nobody is evicted back.
//
// Read gang.go (what is known of a gang), engine.go (what happens), count.go (what
// queues are told), decide.go (the decision), reserve.go (reservation and backfill),
// bundle.go, evict.go, cheapest.go, foresee.go and futile.go (preemption), why.go
// (reasons).
package engine
