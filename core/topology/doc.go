// Package topology answers what is close together: which devices of one node (links and
// NUMA nodes), and which nodes of a cluster (domains: rack, block, zone). It knows
// distances, not which devices are in use.
//
// Invariants, tested: the set that Best and Within return is the best connected one, as
// trying all sets finds it; after any history domains are what the nodes' labels say, and
// nothing is left when all nodes have left.
//
// Read links.go, then bond.go (sets in which every pair must be close), groups.go (how many
// such sets there are), numa.go (what kubelet requires) and bands.go (for readers); levels.go
// with merge.go (levels that objects add) and domains.go (the tree across nodes).
package topology
