package answer

import (
	"cmp"
	"slices"

	"github.com/tangram-dev/tangram/core/cluster"
	"github.com/tangram-dev/tangram/core/memo"
)

// NextEnd is when the first running gang is expected to end, in nanoseconds; 0 when no end is
// known. Cost: the running gangs once.
func (a Gangs) NextEnd() int64 {
	at := memo.Never
	for _, k := range a.cluster.Running() { // the first does not depend on the order
		at = min(at, k.Expected(a.memo.Now()))
	}
	if at == memo.Never {
		return 0
	}
	return at
}

// Ending is when a running gang is expected to end.
type Ending struct {
	Gang cluster.ID
	// At is in nanoseconds, 0 when it is not known; Since is when it started.
	At, Since int64
}

// Endings are the gangs that run, with their expected ends, those that end first at the
// front and those of which it is not known last. Cost: a sort of the running gangs.
func (a Gangs) Endings(now int64) []Ending {
	out := make([]Ending, 0, len(a.cluster.Running()))
	for id, k := range a.cluster.Running() {
		at := k.Expected(now)
		if at == memo.Never {
			at = 0
		}
		out = append(out, Ending{id, at, k.Started()})
	}
	slices.SortFunc(out, func(a, b Ending) int {
		return cmp.Or(cmp.Compare(uint64(a.At-1), uint64(b.At-1)), cmp.Compare(a.Gang, b.Gang)) // 0 comes last
	})
	return out
}

// Unplaced are the gangs of which no member has a place, in the order in which they came.
// Cost: a sort of the gangs that wait.
func (a Gangs) Unplaced() []cluster.ID {
	var waiting []*cluster.Tracked
	for _, k := range a.cluster.Gangs() {
		if k.Placed() == 0 {
			waiting = append(waiting, k)
		}
	}
	slices.SortFunc(waiting, func(a, b *cluster.Tracked) int {
		return cmp.Or(cmp.Compare(a.Submitted, b.Submitted), cmp.Compare(a.ID, b.ID))
	})
	out := make([]cluster.ID, len(waiting))
	for i, k := range waiting {
		out[i] = k.ID
	}
	return out
}
