// Package place says what one node answers to a request: Fit chooses its devices or
// says why not; Ask puts the question to all nodes, once per group of interchangeable
// ones. Which node is best is for core/planner to say.
//
// What core cannot know (taints, affinity, volumes) the caller judges: it takes
// candidates in order and stops at the first its own filters accept.
package place
