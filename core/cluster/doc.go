// Package cluster is the state that decisions are made on: which node has what, which holder
// has which device, what queues are charged, which gangs there are and where their members
// are. It is the only writer of its ledger, of its planner and of its tree of queues.
//
// Other parts read it, and try hypotheses on it: a Txn over ledger and queues, which is taken
// back unless it is kept. Every change that may let a gang start is noted in core/memo by the
// method that makes it.
//
// Invariants (Verify): a member has a place exactly while the ledger has its claim, on the
// same node; what a gang is charged is the sum of its members' charges; a gang is listed as
// running while a member has a place.
//
// Read gang.go (what is submitted), tracked.go and groups.go (a gang with its members, and
// with subgroups), roster.go (all of them), hold.go (what happens outside: nodes, bound pods),
// place.go (places of members), charge.go (what queues are charged), facts.go (Kubernetes'
// rules), txn.go (hypotheses), ends.go (expected ends), never.go (what can never fit),
// cluster.go (submitting and withdrawing), options.go, verify.go.
package cluster
