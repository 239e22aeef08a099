// Package model holds the plain values that all other core packages use: nodes and
// their devices, GPU models, and requests. It decides nothing and does not know where
// values come from; Validate methods state what callers may rely on afterwards.
//
// Invariants, tested: every field of a node is in its KindKey, and every field of a request
// in its FitKey or RankKey or listed as one that no placement reads, so that values with
// equal keys are interchangeable.
//
// Read node.go with gpumodel.go, host.go, extras.go (resources beside devices), telemetry.go
// and mask.go (sets of devices); request.go with part.go (shares, slices), closeness.go
// (links and levels), placement.go and affinity.go (rules about other holders); gang.go
// (what gangs are called); nodekey.go, requestkey.go and key.go, what makes values equal.
package model
