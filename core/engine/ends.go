package engine

import (
	"cmp"
	"slices"
)

// Ending is when a running gang is expected to end.
type Ending struct {
	Gang ID
	// At is in nanoseconds; 0 when it is not known.
	At int64
}

// Endings are the gangs that run, with their expected ends, those that end first at the
// front and those of which it is not known last. Cost: a sort of the running gangs.
func (e *Engine) Endings(now int64) []Ending {
	out := make([]Ending, 0, len(e.running))
	for id, k := range e.running {
		at := e.expected(k, now)
		if at == never {
			at = 0
		}
		out = append(out, Ending{id, at})
	}
	slices.SortFunc(out, func(a, b Ending) int {
		return cmp.Or(cmp.Compare(uint64(a.At-1), uint64(b.At-1)), cmp.Compare(a.Gang, b.Gang)) // 0 comes last
	})
	return out
}

// Unplaced are the gangs of which no member has a place, in the order in which they came.
// Cost: a sort of the gangs that wait.
func (e *Engine) Unplaced() []ID {
	var waiting []*known
	for _, k := range e.gangs {
		if len(k.placed) == 0 {
			waiting = append(waiting, k)
		}
	}
	slices.SortFunc(waiting, func(a, b *known) int {
		return cmp.Or(cmp.Compare(a.Submitted, b.Submitted), cmp.Compare(a.ID, b.ID))
	})
	out := make([]ID, len(waiting))
	for i, k := range waiting {
		out[i] = k.ID
	}
	return out
}
