// Package preempt decides which members make room for a gang. It owns which members leave, which
// members are spared, since when queues are short of gangs, and what came of evictions.
//
// Victims are evicted only with proof, by places and by queues, that the gang starts once they
// are gone, and what they leave is kept for it (core/reserve). Which gang may be evicted for which is one table
// (rule.go), which the extender, explanations and metrics use as well: in its own queue a gang
// evicts only lower priorities, of other queues only what they use above their share, so no
// eviction can be answered by its reverse. Cheapest is by the highest priority among the
// victims, then members that their gangs can spare, then by how many members go, then by lost
// work.
//
// Invariants (Verify): what is remembered of a gang is of a gang that is known.
//
// Read rule.go (which gang may be evicted for which), preempt.go (state, and the order of an attempt),
// leave.go (which members leave already, and what queues are shown meanwhile), bundle.go
// (what is evicted together), search.go, cheapest.go and price.go (choosing victims),
// node.go (one node, for another scheduler), futile.go (evictions that did not help), saved.go (what a copy of the engine needs),
// verify.go.
package preempt
