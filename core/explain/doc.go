// Package explain holds the reasons for every "no". A reason is data: a code, with the
// numbers and objects that go with it. It decides nothing; core fills reasons while it
// decides, adapters print them.
//
//	Code      one list of causes: of nodes, gangs, queues and quotas, with the class of
//	          each (what is waited for) and its permanence (what could cure it)
//	Refusal   why one node cannot take a request
//	Tally     refusals counted over nodes
//	Reason    why a gang waits, and what it can count on (Prospect)
//	Help      what would let a gang start or start sooner, with the numbers of its case
//
// The words are here and nowhere else: no other package composes or compares them. Texts
// may change, codes do not.
//
// Read code.go, then refusal.go (nodes), reason.go (gangs), quantity.go (amounts), help.go
// and remedies.go (what helps) and reference.go (all of it, for docs/reference/reasons.md).
package explain
