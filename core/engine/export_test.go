package engine

import "github.com/tangram-dev/tangram/core/gang"

// Leftovers counts what an engine without gangs must not remember.
func (e *Engine) Leftovers() int {
	return len(e.gangs) + len(e.running) + len(e.partial) + len(e.ranks) + len(e.of) + len(e.reserved) + len(e.leaving)
}

// Kept says whether nodes are kept for anybody, or anybody is to leave.
func (e *Engine) Kept() bool { return len(e.reserved)+len(e.leaving) > 0 }

// Vetoes counts what is remembered of refused nodes.
func (e *Engine) Vetoes() int { return len(e.vetoes.of) + len(e.vetoes.byNode) }

// Freed counts what may have given a place to a gang that had none.
func (e *Engine) Freed() uint64 { return e.freed }

// Demand is what a gang needs now.
func (e *Engine) Demand(id ID) *gang.Ask {
	ask := e.gangs[id].demand()
	e.constrain(e.gangs[id], ask, nil)
	return ask
}

// Mending is how many groups of a running gang have been tried that must be made whole, and
// whether they are worth trying.
func (e *Engine) Mending(id ID) (tried int, worth bool) {
	k := e.gangs[id]
	return len(k.mends.tried), e.worthTrying(k, mending)
}
