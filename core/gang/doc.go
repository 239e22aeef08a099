// Package gang plans groups of holders that run together or not at all.
//
// A plan is made for the whole gang on one state of the ledger, devices included,
// before anything is promised to anybody. It succeeds with all members placed (at
// least the minimum), or leaves the ledger as it was and says what was missing.
// Domains are tried from the tightest outwards; inside one, as many members as
// possible share a node. The cost follows the number of different requests, of
// domains tried and of nodes used, not the size of the fleet.
//
// Read ask.go (what is asked), plan.go (the decision), fill.go (inside one domain).
package gang
