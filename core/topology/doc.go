// Package topology answers what belongs together: which devices of one node
// (links and NUMA nodes), and which nodes of a cluster (domains: rack, block,
// zone). It knows distances; who holds what is the caller's business.
//
// Read links.go, then bond.go (sets whose every pair must be close), numa.go (what
// kubelet will demand), levels.go and domains.go (the tree across nodes).
package topology
