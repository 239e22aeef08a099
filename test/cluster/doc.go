// Package cluster is what the tests on a real API server share: a control plane of child
// processes with nodes and Tangram's programs on it, and the few things that every such test
// does with it.
//
// A package of tests has one cluster for all of them (Shared), or one for each (ForTest).
// What only one package needs is in that package.
package cluster
