// Package state is the scheduler's memory as bytes: what it has learned and cannot read
// from the cluster's objects, so that a restart or a failover does not lose it. It is pure:
// where the bytes are kept, and when they are written, is for the caller to say.
//
// What is kept: balances of queues and users' turns (core/arbiter), runtimes of jobs
// (core/arbiter), and the mix of requests from which the packing tables are built
// (core/planner, core/pack). State.Encode and Decode are exact inverses while the bounds
// are not reached; beyond them the least telling entries are left out, and the text stays
// below MaxBytes whatever was learned.
//
// Decode trusts nothing: text that is too long, not JSON, of another version or with a
// number out of range is an error that names the field, and nothing of it is used.
//
// Read state.go, the value; encode.go with its bounds; decode.go.
package state
