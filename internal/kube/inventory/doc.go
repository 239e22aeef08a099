// Package inventory turns what the API says of nodes (Node, GPUNode,
// NodeResourceTopology) into core's nodes. It decides nothing and keeps no state of its
// own: the informers' stores are read when a node is asked for.
package inventory
