// Package state tests on a real API server what a scheduler keeps and what it writes about
// its decisions: state that outlives a restart, the audit log, and logs as JSON.
package state
