// Package property runs random sequences of events with pods of all vocabularies at
// once, and compares the result with a naive model that is independent of the ledger.
//
// Read vocabularies_test.go (the events), naive_test.go (the invariants), then
// fleet_test.go and pods_test.go (the generators).
package property
