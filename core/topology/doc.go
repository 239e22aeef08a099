// Package topology answers what is close together: which devices of one node (links and
// NUMA nodes), and which nodes of a cluster (domains: rack, block, zone). It knows
// distances, not which devices are in use.
//
// Read links.go, then bond.go (sets in which every pair must be close), numa.go (what
// kubelet requires), levels.go and domains.go (the tree across nodes).
package topology
