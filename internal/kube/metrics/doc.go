// Package metrics is the scheduler's metrics: their names (definitions.go), how they are
// counted (events.go) and how the state of fleet, queues and usage is read when
// Prometheus asks (state.go). It is the only package that knows their names.
//
// Nothing here grows with pods, gangs, nodes or devices. The values of queue, namespace,
// user and model are bounded (bounds.go); what exceeds the bound is counted as "other".
// targets.go reads what an operator wants of the figures.
package metrics
