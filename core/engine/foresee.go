package engine

import (
	"slices"

	"github.com/tangram-dev/tangram/core/arbiter"
)

// While victims take their time to go, queues are told of what will be: otherwise
// what one gives would be taken again by the next gang that looks for victims, and
// what another is due be claimed again, until both are on the wrong side of their
// share and it all goes back.

// foreseeLeft shows the tree without those who were told to go; what it returns shows
// it as it is.
func (e *Engine) foreseeLeft() (undo func()) {
	gone := map[ID]*bundle{}
	for h := range e.leaving { // sums do not depend on the order
		id := e.of[h].id
		k := e.gangs[id]
		if k == nil {
			continue
		}
		if _, placed := k.placed[h]; !placed {
			continue
		}
		if gone[id] == nil {
			gone[id] = &bundle{gang: k}
		}
		gone[id].members = append(gone[id].members, h)
	}
	var undos []func()
	for id, b := range gone { // each for itself
		amounts := e.amounts(b)
		if e.tree.Shrink(arbiter.JobID(id), amounts) == nil {
			undos = append(undos, func() { _ = e.tree.Charge(arbiter.Job{ID: arbiter.JobID(id)}, amounts) }) // as it was
		}
	}
	return func() { undoAll(undos) }
}

// foreseeStarts shows the tree with those started for whom others go; what it returns
// shows it as it is.
func (e *Engine) foreseeStarts() (undo func()) {
	var undos []func()
	for _, r := range e.reserved {
		if r.until == 0 || r.short {
			continue
		}
		k := e.gangs[r.id]
		sum := map[arbiter.Resource]int64{}
		for i, role := range k.demand().Roles {
			e.add(sum, &k.Roles[i], len(role.Members))
		}
		job, amounts := e.job(k), arbiter.NewAmounts(sum)
		if len(k.placed) == 0 {
			e.tree.Remove(job.ID) // who is found running takes no turn
			undos = append(undos, func() { e.recount(k) })
		} else {
			undos = append(undos, func() { _ = e.tree.Shrink(job.ID, amounts) })
		}
		_ = e.tree.Charge(job, amounts) // never negative
	}
	return func() { undoAll(undos) }
}

func undoAll(undos []func()) {
	for _, undo := range slices.Backward(undos) {
		undo()
	}
}
