// Package plugin speaks kubelet's device plugin protocol, version v1beta1: one socket and
// one registration for each resource that a node sells. It comes back after kubelet
// restarts, after its sockets were deleted, and after kubelet hung up. What is sold is
// passed in; what an answer holds is decided by a Granter.
//
// Reading order: plugin.go (all resources of a node), service.go (the calls of one
// resource), socket.go (the life of its socket and registration).
package plugin
