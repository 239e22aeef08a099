// Package fleet describes simulated nodes: the fleet file, what is known of GPU models,
// and the Node and GPUNode objects that follow from both. The local cluster creates
// nodes from it, the simulated agent has its hardware from it.
//
// It talks to no cluster and keeps no state: the same file always gives the same
// objects, down to the devices' UUIDs.
//
// Vocabulary: a Fleet is a list of Pools, each a number of equal nodes; a Fault is
// something that is wrong with a simulated device, as people write it.
//
// Reading order: fleet.go, file.go (the format) and decode.go (its values), catalog.go and hardware.go (models), objects.go (what follows), fault.go.
package fleet
