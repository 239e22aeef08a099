// Package release is the way from a plan to a Binding: each member of a gang that starts gets
// a release with a ticket, goes through kube-scheduler's cycle with it, and is bound when the
// last of its batch has come as far. It owns releases, batches and tickets, and gathers what
// the adapter has to do (Effects).
//
// Before the last member of a batch is reserved, one failure takes back all of the batch.
// After it each member stands for itself: a Binding cannot be taken back.
//
// The package takes back releases; that members lose their places then is for the caller, who
// is told which (Undone).
//
// Invariants (Verify): a released member comes to its scheduling cycle or is taken back in
// time; every release is in its batch; a ticket is given once.
//
// Read release.go (values), register.go (giving and using releases), undo.go (taking them back),
// watch.go (what time changes), verify.go.
package release
