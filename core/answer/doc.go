// Package answer is questions about an engine's state as it is, for people and for adapters.
// It owns nothing and changes no decision, and nothing that it returns shares memory with what
// the engine goes on changing. Each question says what it costs: the caller holds the engine
// meanwhile.
//
// Read answers.go (what there is to ask), gangs.go, account.go and ends.go (gangs, their order
// and their ends), nodes.go, node.go and merits.go (nodes, and who holds what), queues.go, figures.go
// (sums for metrics), why.go and expect.go (why and until when a gang waits), releases.go,
// shortage.go and pursuit.go (what autoscalers are asked for).
package answer
