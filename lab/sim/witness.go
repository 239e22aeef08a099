package sim

import (
	"github.com/tangram-dev/tangram/core/gang"
	"github.com/tangram-dev/tangram/core/ledger"
	"github.com/tangram-dev/tangram/core/model"
)

// witness keeps its own record of the job on each device, from what the engine says it
// does, and counts what must not happen: a device with two owners, a member with
// another number of devices than it asked for, a job that runs with fewer members
// than its minimum, a ledger that disagrees. It shares no code with the engine.
type witness struct {
	owner   map[deviceName]int // job
	members map[int]map[model.HolderID]heldDevices
	minimum map[int]int
	// touched are jobs that changed since the last look.
	touched []int
	// bad counts violations.
	bad int
}

type deviceName struct {
	node model.NodeID
	slot int
}

type heldDevices struct {
	node model.NodeID
	set  model.Mask
}

func newWitness() *witness {
	return &witness{owner: map[deviceName]int{}, members: map[int]map[model.HolderID]heldDevices{}, minimum: map[int]int{}}
}

// start notes members of a job that start.
func (w *witness) start(job int, minimum int, placements []gang.Placement, count func(role int) int) {
	w.touched = append(w.touched, job)
	w.minimum[job] = minimum
	has := w.members[job]
	if has == nil {
		has = map[model.HolderID]heldDevices{}
		w.members[job] = has
	}
	for _, p := range placements {
		if _, twice := has[p.Holder]; twice || p.Grant.Set.Count() != count(p.Role) {
			w.bad++
		}
		has[p.Holder] = heldDevices{p.Node, p.Grant.Set}
		for slot := range p.Grant.Set.Slots() {
			d := deviceName{p.Node, slot}
			if _, taken := w.owner[d]; taken {
				w.bad++
			}
			w.owner[d] = job
		}
	}
}

// leave notes that a member is gone.
func (w *witness) leave(job int, h model.HolderID) {
	w.touched = append(w.touched, job)
	held, ok := w.members[job][h]
	if !ok {
		w.bad++
		return
	}
	for slot := range held.set.Slots() {
		if d := (deviceName{held.node, slot}); w.owner[d] == job {
			delete(w.owner, d)
		}
	}
	if delete(w.members[job], h); len(w.members[job]) == 0 {
		delete(w.members, job)
		delete(w.minimum, job)
	}
}

// check looks, once everything of one moment has happened, at all that changed in
// it, or at all that runs.
func (w *witness) check(l *ledger.Ledger, all bool) {
	if all {
		w.touched = w.touched[:0]
		for job := range w.members { // only counts: the order does not matter
			w.touched = append(w.touched, job)
		}
	}
	for _, job := range w.touched {
		has := w.members[job]
		if len(has) > 0 && len(has) < w.minimum[job] {
			w.bad++
		}
		for h, held := range has {
			if node, set := l.Held(h); node != held.node || set != held.set {
				w.bad++
			}
		}
	}
	w.touched = w.touched[:0]
	holders := 0
	if all {
		for _, has := range w.members {
			holders += len(has)
		}
		if _, n := l.Size(); n != holders {
			w.bad++
		}
	}
}
