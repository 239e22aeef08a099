// Package audit writes the audit log of decisions: one line of JSON per start, eviction and
// refusal, for people and programs that want to know later who got what, when, and why not.
// docs/formats/audit.md is the format.
//
// It never makes a decision wait. Entries go through a bounded buffer to one goroutine that
// writes; when the buffer is full, or the disk is, entries are dropped and counted
// (tangram_audit_dropped_total).
//
// Read entry.go, what a line says; log.go, the buffer; file.go, the file and its rotation.
package audit
