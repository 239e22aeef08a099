// Package model holds the plain values every other core package speaks: nodes
// and their devices, GPU models, and requests. It decides nothing and refuses
// to know where values come from; Validate methods state what callers may rely
// on afterwards.
//
// Read node.go, then request.go, closeness.go and gpumodel.go.
package model
