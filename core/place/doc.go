// Package place decides where a request can go: Fit chooses devices on one node
// or says why not, Search ranks all nodes without visiting them. A pod's fate is
// decided here; adapters ask and print.
//
// What core cannot know (taints, affinity, volumes) the caller judges: it takes
// candidates in order and stops at the first its own filters accept.
package place
