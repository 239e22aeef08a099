// Package dra makes the agent a driver of Dynamic Resource Allocation: it publishes the
// node's GPUs as ResourceSlices, and prepares what claims were given when kubelet asks.
//
// One pool per node, named after it. A GPU is a device; where MIG instances are cut on
// demand, every place an instance can be cut at is a device too, and all of them draw on
// the counters of their card, so that the allocator gives out what can exist together and
// nothing else.
//
// Upstream's helper for drivers (k8s.io/dynamic-resource-allocation/kubeletplugin) is not
// used: it needs client-go's whole clientset, which makes the program 44 % larger, ours 3 %
// (docs/guides/dra-driver.md has the figures). What it does is small: two gRPC services on
// two sockets (server.go), and slices that are written by difference (publisher.go).
//
// The package knows no kubelet journal, no MIG and no CDI: a [Door] decides whether a
// device is free, and what makes allocations real is passed in.
//
// Reading order: part.go (what can be given), describe.go (as devices), slices.go (as
// slices), publisher.go and observed.go (written by difference), claim.go (what a claim was
// given), journal.go, driver.go (prepare and unprepare), server.go (kubelet's protocols).
package dra
