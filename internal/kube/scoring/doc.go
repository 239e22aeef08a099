// Package scoring reads what an administrator writes about the choice between nodes that
// fit: weights, directions in which nodes are filled, the standing of tenants. It is one
// set of typed arguments for the scheduler's plugin and for the extender; an invalid one is
// an error that names the field.
//
// Read args.go, tenants.go and volcano.go (arguments under Volcano's names).
package scoring
