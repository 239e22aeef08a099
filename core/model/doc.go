// Package model holds the plain values that all other core packages use: nodes and
// their devices, GPU models, and requests. It decides nothing and does not know where
// values come from; Validate methods state what callers may rely on afterwards.
//
// Read node.go, then request.go, closeness.go and gpumodel.go.
package model
