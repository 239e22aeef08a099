// Package place says what one node answers to a request: Fit chooses its devices or
// says why not; Ask puts the question to all nodes, once per group of interchangeable
// ones. Which node is best is for core/planner to say.
//
// What core cannot know (taints, affinity, volumes) the caller judges: it takes
// candidates in order and stops at the first its own filters accept.
//
// Invariants, tested: devices that are granted are as close as the request and the node's
// kubelet require; no two holders are closer than a rule of either allows; requests with
// equal FitKeys get equal answers.
//
// Read fit.go, with parts.go (shares, slices, several containers), nearness.go (links and
// NUMA nodes) and affinity.go (rules about other holders); survey.go (all nodes).
package place
