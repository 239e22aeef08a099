// Package cli is the tangram command: up, down and fault for the local cluster, what asks
// the scheduler (internal/cli/see), version, and what the main function adds.
//
// It composes and prints; it decides nothing. Errors are returned with their full
// text and printed once, by main.
//
// Reading order: main.go, root.go, up.go, session.go (the steps of a start), detach.go,
// down.go, fault.go, demo.go.
package cli
