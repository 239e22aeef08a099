// Package ledger records which holder has which device. It decides nothing: the planner
// reads views of it, adapters feed it.
//
// A node's occupancy is a pure function of its inventory and the claims on it
// (occupy.go). The invariants follow: no device is ever held twice, in any order of
// events; undo restores the identical state; and a ledger rebuilt from the API equals
// the one that processed the events.
//
// Nodes that are alike in every respect a planner can ask about form a Kind;
// nodes of one kind with the same devices taken form a Bucket. There are few
// buckets however many nodes there are, so a search visits buckets, not nodes.
//
// The ledger is not safe for concurrent use; the adapter brings the lock. Views
// are values and stay valid.
//
// Read claim.go, the value, and occupy.go with usage.go (parts of devices) and standing.go
// (which of two claims keeps a device); ledger.go, with journal.go (transactions), changes.go
// (what changed since), owners.go (UUIDs), labels.go (rules between holders), telemetry.go and
// audit.go (the invariants); index.go and kind.go (interchangeable nodes), domains.go (where
// they are); view.go with host.go and excess.go, what a planner reads.
package ledger
