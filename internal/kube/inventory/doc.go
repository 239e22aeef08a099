// Package inventory turns what the API says of nodes (Node, GPUNode,
// NodeResourceTopology) into core's nodes. It decides nothing and keeps no state of its
// own but when telemetry was measured: the informers' stores are read when a node is asked
// for.
//
// Read inventory.go (a node), levels.go (levels of domains, from the configuration and from
// HyperNodes and Topologies), fresh.go (telemetry that is too old), fixed.go (an inventory of
// objects that do not change, for a replica).
package inventory
