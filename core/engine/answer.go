package engine

import "github.com/tangram-dev/tangram/core/model"

// Answers about the state, for people. None of them changes a decision, and none shares
// memory with the engine that it goes on changing. Each says what it costs: the caller
// holds the engine meanwhile.

// Sums are the state in a few numbers.
type Sums struct {
	// Nodes with devices, by condition.
	Nodes [NodeLost + 1]int
	// RunningGangs have a member with a place, RunningPods are these members.
	RunningGangs, RunningPods int
}

// Sums adds up nodes and what runs. Cost: nodes and running gangs; below 1 ms at 1,000
// nodes and 7,000 gangs.
func (e *Engine) Sums(of func(model.NodeID) Condition) (s Sums) {
	for id := range e.ledger.Nodes() { // sums do not depend on the order
		if v, _ := e.ledger.View(id); len(v.Node.Devices) > 0 {
			s.Nodes[of(id)]++
		}
	}
	for _, k := range e.running { // sums do not depend on the order
		s.RunningGangs++
		s.RunningPods += len(k.placed)
	}
	return s
}
