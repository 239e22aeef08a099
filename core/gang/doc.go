// Package gang plans groups of holders that run together or not at all.
//
// A plan is made for the whole gang on one state of the ledger, devices included,
// before anything is promised to anybody. It succeeds with all members placed (at
// least the minimum), or leaves the ledger as it was and says what was missing.
//
// One node is tried first, then domains from the tightest outwards, then the whole
// cluster; inside each as many members as possible share a node. A gang that could
// use more than its minimum is first tried with all of its members everywhere, then
// with the minimum. The cost follows the number of different requests, of domains
// tried and of nodes used, not the size of the fleet.
//
// How far a plan is complete: members that ask for whole devices, without wishes
// about links, named devices or company, on nodes whose devices are alike, are placed
// whenever they can be at all. One role is simply laid out. Several are placed one
// after the other, the largest request first; where that fails they are weighed
// against each other (weigh.go), which is exact within counted limits. What else
// members ask for is tried for on each node, in several orders of roles, without a
// promise that all is found.
//
// Read ask.go (what is asked), plan.go (the decision), domains.go and scarce.go (where
// to try), fill.go (inside one domain), weigh.go, mixes.go and table.go (roles that
// compete), never.go (what can never be).
package gang
