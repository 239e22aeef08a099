// Package pack says where a request fits best, so that as much GPU as possible of the
// fleet stays usable for the requests after it. It sees shapes (what is free
// on a node) and classes (what a request needs), as plain numbers; it keeps no
// record of holders, and knows neither devices by name nor links.
//
// Read in this order:
//
//   - shape.go and class.go, the two values everything is about;
//   - tables.go, what is learned of a workload, with cutting.go (what a hole in a
//     GPU is worth) and curve.go (how far CPU and memory reach); learner.go counts
//     arrivals;
//   - policy.go, what a policy is; potential.go, Tangram's own, with supply.go
//     (what is scarce); explain.go takes its score apart;
//   - index.go, how the best node is found without looking at all, with
//     ranking.go (the order of one class), shapeset.go, gate.go, keys.go and lists.go
//     below it;
//     candidates.go goes on after the best. Tests hold it to a scan of all nodes;
//   - typical.go, which classes make up most of the workload.
//
// Published policies to compare with live in lab/sim, on the same Index.
//
// Invariant: every result is a function of the calls made, in their order. Sums
// that are compared are integers; floats are summed in the order of classes.
package pack
