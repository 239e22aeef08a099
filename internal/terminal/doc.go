// Package terminal writes for people: aligned tables, colours where a terminal shows them,
// progress of what takes long, and never a control character that came from elsewhere.
//
// Reading order: clean.go (what may reach a terminal), screen.go (where a command writes),
// table.go, progress.go, live.go (a view that is drawn again and again), data.go (JSON and
// YAML).
package terminal
