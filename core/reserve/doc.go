// Package reserve keeps nodes for gangs that have to wait for others to end. It owns the
// reservations.
//
// A gang that has to wait for several others to end gets the earliest time at which, by the
// known ends of what runs, it would fit, and the nodes it would use. Other gangs may use those
// nodes, and the quota it needs, only if they end before that time. So no gang that was let
// past it delays it. While victims leave for a gang, the nodes that they free are kept as well,
// and no other gang may use them.
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
// Invariants (Verify): a reservation is of a gang that is known, a gang has one at most, and
// its nodes are sorted and not empty.
//
// Read reservation.go, promise.go, book.go (making, keeping, dropping), quota.go (the quota of gangs that
// have one), find.go (the earliest start), renew.go (what time and nodes change), saved.go
// (what a copy of the engine needs) and verify.go.
package reserve
