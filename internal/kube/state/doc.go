// Package state keeps core's ledger equal to what the API server says, plus what
// the scheduler has promised and not yet written. It is the one place where
// Kubernetes events meet the ledger.
//
// Events only say where to look: node and pod are read again from the informers'
// stores, so events may be repeated, reordered or delivered by somebody else
// (a queueing hint) without harm.
//
// Objects that only some clusters have, GPUNodes and NodeResourceTopologies, are
// watched by optional.go.
package state
