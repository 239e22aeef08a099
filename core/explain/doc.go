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
// Invariants, tested: every code has its row, its words and a remedy, and is given by some
// package; the limit that a remedy proposes is exactly enough; what a tenant wrote never
// becomes part of a command that a shell could misread.
//
// Read code.go, class.go and table.go (the list); refusal.go (nodes), reason.go (gangs) and
// quantity.go (amounts) for the words; help.go for what helps, with idle.go (claims that no
// pod uses), remedies.go, remedies_nodes.go, remedies_use.go, remedies_gangs.go,
// remedies_queues.go and remedywords.go; reference.go, all of it for
// docs/reference/reasons.md.
package explain
