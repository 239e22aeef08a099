// Package observe remembers what happens, for metrics, GPU hours and the timeline: no
// decision reads it. The engine tells it under its lock, and a nil *Observer, as a replica
// has, observes nothing.
//
//	observe.go   since when pods wait, what holders use, reasons that were counted
//	events.go    what is written to the timeline
//	timeline.go  the last decisions, with a lock of their own
package observe
