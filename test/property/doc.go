// Package property tells random stories with pods of all vocabularies at once, and
// compares what comes out with a naive model that knows nothing of the ledger.
//
// Read vocabularies_test.go (the story and its steps), naive_test.go (what must
// hold), then fleet_test.go and pods_test.go (what is drawn).
package property
