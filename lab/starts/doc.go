// Package starts measures how far the expected starts that Tangram tells are off: it replays
// a trace on a copy of the scheduler (internal/replica), asks when jobs that must wait will
// start, and compares with when they do. It is `tangram simulate starts`.
//
// Reading order: timeline.go (a trace that is replayed), measure.go, command.go.
package starts
