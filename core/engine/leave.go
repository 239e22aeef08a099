package engine

import (
	"github.com/tangram-dev/tangram/core/gang"
	"github.com/tangram-dev/tangram/core/model"
)

// departure is the gang for which a member was evicted, empty when it was not evicted
// here, and until when it is expected to be gone.
type departure struct {
	gang  ID
	until int64
}

// Leaves tells that a holder is terminating, for whatever reason, and until when it is
// expected to be gone: after a restart it is not known for which gang. It must be in a
// gang that is known, and should be alone in it: a pod that terminates is no part of the
// gang that stays.
func (e *Engine) Leaves(h model.HolderID, until int64) {
	if _, marked := e.leaving[h]; !marked && e.of[h].id != "" && until > e.now {
		e.leaving[h] = departure{until: until}
	}
}

// awaits says whether a holder is leaving for a gang.
func (e *Engine) awaits(k *known) bool {
	for _, d := range e.leaving {
		if d.gang == k.ID {
			return true
		}
	}
	return false
}

// afterDepartures takes holders out of the ledger that leave for a gang or for no gang in
// particular, until what it returns is called.
func (e *Engine) afterDepartures(k *known) (undo func()) {
	if len(e.leaving) == 0 {
		return func() {}
	}
	tx := e.ledger.Begin()
	for h, d := range e.leaving { // the order does not matter
		if d.gang == k.ID || d.gang == "" {
			e.ledger.Drop(h)
		}
	}
	return tx.Rollback
}

// inherit keeps nodes for a gang that needs no more than what is being freed. Those who
// leave are gone from the ledger and the tree.
func (e *Engine) takeOver(k *known, now int64) bool {
	plan, ok := e.without(k, nil, nil, now)
	if !ok || !e.admitted(k, nil) {
		return false
	}
	for _, p := range plan.Placements {
		for h, d := range e.leaving { // each for itself
			if o := e.gangOf(h); d.gang == "" && o != nil && o.placed[h].node == p.Node {
				e.leaving[h] = departure{k.ID, d.until}
			}
		}
	}
	e.free(k, &plan, now)
	k.futile.evicted = true // an engine before this one chose victims for it
	return true
}

// couldHaveEvicted says whether a holder leaves for no gang in particular that a gang
// could have evicted.
func (e *Engine) couldHaveEvicted(k *known) bool {
	var over map[string]bool
	for h, d := range e.leaving {
		o := e.gangOf(h)
		if d.gang != "" || o == nil {
			continue
		}
		if over == nil {
			over = e.overShare(k)
		}
		if yields(o, k, over) {
			return true
		}
	}
	return false
}

// assignDepartures keeps what is being freed for the gangs that need it, before another
// gang takes a part of it: after a restart this is what is left of an eviction.
func (e *Engine) assignDepartures(now int64) {
	if len(e.leaving) == 0 || !e.options.Preempt {
		return
	}
	var successors []*known
	looked := 0
	for job := range e.tree.Waiting(now) { // collected: helping asks the tree
		k := e.gangs[ID(job.ID)]
		if r := e.reservationOf(k.ID); !k.NeverPreempts && e.worthTrying(k, inheriting) && (r == nil || r.until == 0) && e.couldHaveEvicted(k) {
			successors = append(successors, k)
		}
		if looked++; looked >= maxHelped {
			break
		}
	}
	if len(successors) == 0 {
		return
	}
	defer e.foreseeLeft()()
	for _, k := range successors {
		e.failed(k, inheriting)
		undo := e.afterDepartures(k)
		e.takeOver(k, now)
		undo()
	}
}

// free keeps the nodes of a plan for a gang while they are being freed.
func (e *Engine) free(k *known, plan *gang.Plan, now int64) {
	e.unreserve(func(r *reservation) bool { return r.id == k.ID })
	e.keep(&reservation{id: k.ID, at: now, until: now + int64(e.options.Timing.Hold)}, plan)
}

// settle shortens what is kept for gangs for which no holder is leaving any more, and
// forgets departures of holders that are gone or did not go.
func (e *Engine) settle(now int64) {
	for h, d := range e.leaving { // each for itself
		if _, there := e.of[h]; d.until < now || !there {
			delete(e.leaving, h)
		}
	}
	for _, r := range e.reserved {
		if r.until > now+int64(e.options.Timing.LastWait) && !e.awaits(e.gangs[r.id]) {
			r.until = now + int64(e.options.Timing.LastWait)
		}
	}
}
