// Package gang plans groups of holders that run together or not at all.
//
// A plan is made for the whole gang against one state of the ledger, devices included,
// before any member is promised anything. It either places at least the minimum of
// members, or leaves the ledger as it was and says what was missing.
//
// Single nodes are tried first, then domains from the tightest outwards, then the whole
// cluster; inside each, as many members as possible share a node. A gang that can use
// more than its minimum is first tried with all of its members everywhere, then with
// the minimum. The cost grows with the number of distinct requests, of domains tried
// and of nodes used, not with the size of the fleet.
//
// Invariants, tested: a plan places at least the minimum of the gang and of every role, no
// device twice, inside one domain of the required level; a failure leaves the ledger as it
// was; the same question has the same answer, because limits are counted in steps.
//
// Completeness: members that ask for whole devices, without rules about links, named
// devices or other pods, on nodes with equal devices, are placed whenever a placement
// exists. One role is laid out directly. Several are placed one after the other, the
// largest request first; where that fails they are weighed against each other
// (weigh.go), which is exact within counted limits. Other requirements are tried on
// each node, in several orders of roles; for these a placement that exists can be
// missed.
//
// Read ask.go (input and output), plan.go (the decision), domains.go and scarce.go
// (where to try), fill.go (inside one domain), weigh.go, mixes.go and table.go (roles
// that compete), explain.go (why not) and never.go (what can never fit). Gangs with
// subgroups: subgroup.go, tree.go (input), nest.go (the search), nestscopes.go with
// nestbounds.go (where to try), together.go (members of several leaves that compete),
// nestexplain.go (why not).
package gang
