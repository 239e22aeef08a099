// Package engine decides which gangs start now, and where: the arbiter's order and the
// planner's places on one state. It is a state machine. The adapter tells it what
// happened and steps it with the time; it returns what to do, as data, and carries out
// nothing. It is the only writer of its ledger. The scheduler and the queue simulator
// run this code.
//
//	Submit, Withdraw           a gang came, changed or is gone
//	SetNode, RemoveNode        the fleet
//	Bound, Ended, Leaves       a member is bound, has ended, is terminating
//	Refused, Took              what kube-scheduler's filters said of a planned node
//	Reserved, StartFailed      a member's scheduling cycle succeeded or failed
//	EvictionRefused            a victim may not be evicted now
//	SetQueues, SetQuotas       limits
//	Suspend, Resume            starts cannot, or can again, be carried out
//	Tick, Step                 the time; a decision
//
// A step returns a Plan: gangs that start, holders to evict. With releases
// (Options.BatchTimeout) Effects says the same member by member: released, revoked, to
// be activated. A gang is started only with a place proven for it, devices included, and
// its devices are held in the ledger from that moment on. A gang that cannot start waits
// with a reason (Why).
//
// What core cannot know, Kubernetes' own rules, it asks through Facts. A node that is
// refused although it was planned gets a veto for the shape of the pod, for a while. A
// start that fails for other causes makes its gang rest.
//
// Reservations. A gang that has to wait for several others to end gets the earliest time
// at which, by the known ends of what runs, it would fit, and the nodes it would use.
// Other gangs may use those nodes, and the quota it needs, only if they end before that
// time. So no gang that was let past it delays it.
//
// No starvation, stated: a gang that is the first of those that need a reservation, or
// among the first Options.Reservations of them, whose queue is, by its balance, not above
// its share and that has waited for Options.Patience, has its nodes kept even when the
// time at which they will be free is not known, if need be at the cost of reservations of
// younger gangs. It starts when the last of what ran there at that moment ends: after its
// patience and the longest runtime. Sooner if its queue is owed what the gang uses in a
// part of its patience. Before that, nodes are kept only for times that are known, and
// for gangs that leave their queue about within its share. Reservations are found anew
// when the fleet changes or when a gang runs longer than expected.
//
// Evictions. Victims are evicted only with proof, by places and by queues, that the gang
// starts once they are gone, and what they leave is kept for it. In its own queue a gang
// evicts only lower priorities, of other queues only what they use above their share, so
// no eviction can be answered by its reverse.
//
// Read gang.go (what is known of a gang), tree.go and mend.go (gangs with subgroups), engine.go and hold.go (what happens), count.go
// (what queues are charged), facts.go and veto.go (Kubernetes' rules), step.go (the
// decision), release.go (the way to a Binding), retry.go and timer.go (what is tried
// again, and when), reserve.go (reservation and backfill), bundle.go, evict.go,
// cheapest.go, leave.go, foresee.go and futile.go (preemption), suspend.go, why.go
// (reasons), shortage.go and pursuit.go (what autoscalers are asked for), read.go (questions), verify.go (the engine's own accounts).
package engine
