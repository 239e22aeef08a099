// Package ledger knows who holds which device. It decides nothing: the planner
// reads views of it, adapters feed it.
//
// A node's occupancy is a pure function of its inventory and the claims on it
// (occupy.go). That one choice gives the invariants for free: no device is ever
// held twice, whatever order events came in; undo restores the very same state;
// and a ledger rebuilt from the API equals the one that lived through the
// events.
//
// Nodes that are alike in every respect a planner can ask about form a Kind;
// nodes of one kind with the same devices taken form a Bucket. There are few
// buckets however many nodes there are, so a search visits buckets, not nodes.
//
// The ledger is not safe for concurrent use; the adapter brings the lock. Views
// are values and stay valid.
//
// Read claim.go, occupy.go, ledger.go, index.go, domains.go, journal.go.
package ledger
