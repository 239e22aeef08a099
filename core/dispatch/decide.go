package dispatch

import (
	"maps"
	"slices"

	"github.com/tangram-dev/tangram/core/arbiter"
	"github.com/tangram-dev/tangram/core/gang"
	"github.com/tangram-dev/tangram/core/model"
)

// Start is members of a gang that have a place now. Their devices are held.
type Start struct {
	Gang ID
	Plan gang.Plan
	// Repair: the gang runs and gets members back, or grows.
	Repair bool
}

// Evict is holders that must go so that a gang can start.
type Evict struct {
	// For is the gang, Members are the holders, whole bundles, sorted.
	For     ID
	Members []model.HolderID
}

// Decision is what to do now.
type Decision struct {
	Starts []Start
	Evicts []Evict
}

// Decide says who starts now. First gangs that lost members get them back; then
// those start for whom nodes were kept, and the others in the arbiter's order; then
// who still waits is helped by a reservation or by evictions; and what is left is for
// gangs that run and can use more. now must not go back.
func (e *Engine) Decide(now int64) Decision {
	defer e.enter()()
	var d Decision
	e.decided++
	e.now = now
	e.tree.Elapse(now)
	defer e.tree.Elapse(now)
	e.expire(now)
	e.findHeirs(now)
	broken := e.repair(&d, now)
	e.startKept(&d, now)
	e.start(&d, now)
	e.help(&d, broken, now)
	e.grow(&d, now)
	return d
}

// repair gives gangs below their minimum their members back, in their own domain. It
// returns those that need room for that.
func (e *Engine) repair(d *Decision, now int64) (broken []*known) {
	for _, id := range slices.Sorted(maps.Keys(e.partial)) {
		k := e.gangs[id]
		if k.missing() == 0 || !k.complete() || e.isLeaving(k) {
			continue
		}
		if s, ok := e.make(k, k.missing(), nil, now); ok {
			s.Repair = true
			d.Starts = append(d.Starts, s)
			e.recount(k)
		} else if !e.wait(k, k.missing()).ForQuota() {
			broken = append(broken, k)
		}
	}
	return broken
}

// grow gives gangs that run and can use more what is free.
func (e *Engine) grow(d *Decision, now int64) {
	for _, id := range slices.Sorted(maps.Keys(e.partial)) {
		k := e.gangs[id]
		for k.grew != e.freed+1 && k.missing() == 0 && len(k.placed) < k.exists && !e.isLeaving(k) {
			s, ok := e.make(k, 1, nil, now)
			if !ok {
				k.grew = e.freed + 1
				break
			}
			s.Repair = true
			d.Starts = append(d.Starts, s)
			e.recount(k)
		}
	}
}

// startKept starts gangs on the nodes that were kept for them, whoever else would be
// first: others were kept off these nodes for just this.
func (e *Engine) startKept(d *Decision, now int64) {
	for _, r := range slices.Clone(e.reserved) {
		k := e.gangs[r.id]
		if len(k.placed) > 0 || r.tried == e.freed+1 || e.tree.Why(arbiter.JobID(r.id)).Code != 0 {
			continue
		}
		if s, ok := e.make(k, k.missing(), r.nodes, now); ok {
			d.Starts = append(d.Starts, s)
			_ = e.tree.Charge(arbiter.Job{ID: arbiter.JobID(k.ID)}, e.tree.Amounts(e.used(k))) // it waits there
		} else if r.tried = e.freed + 1; r.until == 0 && e.idle(r) {
			// What was planned cannot be done: nobody must wait for it.
			k.reserveAt = e.decided + maxPause
			e.unreserve(func(o *reservation) bool { return o == r })
		}
	}
}

// start offers waiting gangs a place, in the arbiter's order.
func (e *Engine) start(d *Decision, now int64) {
	tries := 0
	// kept is, by shape, the earliest end with which only a reservation was in the way:
	// who ends later is kept off the same nodes.
	kept := map[string]int64{}
	pass := e.tree.Candidates
	if !e.options.Backfill {
		pass = e.tree.InOrder
	}
	for offer := range pass(now) {
		k := e.gangs[ID(offer.Job.ID)]
		end := e.end(k, now)
		failed := e.full[k.shape] == e.freed+1
		if at, ok := kept[k.shape]; !failed && (ok && end >= at || e.crowds(k, end)) {
			// It waits for a reservation, or would take the quota of one.
		} else {
			if !failed {
				if s, ok := e.make(k, k.missing(), nil, now); ok {
					d.Starts = append(d.Starts, s)
					offer.Place(e.tree.Amounts(e.used(k)))
					continue
				}
				failed = !e.fitsWithoutReservations(k, now)
			}
			if failed {
				e.full[k.shape] = e.freed + 1
			}
			switch {
			case !e.options.Backfill && e.never(k) == nil:
				offer.CloseQueue()
			case failed:
				offer.NoCapacity()
			case e.closing(k, now) != nil:
				kept[k.shape] = end
			default: // the quota allows other members than those that have a place
			}
		}
		if tries++; tries >= e.options.Tries {
			break
		}
	}
	if len(e.full) > maxNever {
		clear(e.full)
	}
}

// maxHelped bounds for how many gangs a decision looks for a reservation, and for how
// many for victims.
const maxHelped = 16

// help reserves nodes or finds victims for gangs that cannot start: first for broken
// ones, then in the arbiter's order. Who has nobody to evict does not keep from it who
// comes later and has.
func (e *Engine) help(d *Decision, broken []*known, now int64) {
	full := !e.options.Backfill || e.reservations() >= e.options.Reservations && e.decided%reservePause > 0
	if full && !e.options.Preempt {
		return
	}
	most := maxHelped
	if e.options.Preempt {
		most = max(most, e.options.Tries)
	}
	for job := range e.tree.Waiting(now) { // collected: helping asks the tree
		if broken = append(broken, e.gangs[ID(job.ID)]); len(broken) >= most {
			break
		}
	}
	helped := e.evictFor(d, broken, now)
	for _, k := range broken[:min(len(broken), maxHelped)] {
		if id := arbiter.JobID(k.ID); k != helped && e.options.Backfill && capacity(e.tree.Why(id)) && e.tree.Ever(id) {
			e.reserve(k, now)
		}
	}
}

// evictFor finds victims for the first gang that some can help, and returns it. A
// queue must be due what it claims also with those started for whom others leave
// already, and must have what it gives also before they start.
func (e *Engine) evictFor(d *Decision, gangs []*known, now int64) *known {
	if !e.options.Preempt {
		return nil
	}
	defer e.foreseeLeft()()
	undo := e.foreseeStarts()
	defer func() { undo() }()
	lawful := func(k *known, victims []*bundle) bool {
		undo()
		ok := len(e.givable(k, victims)) == len(victims)
		undo = e.foreseeStarts()
		return ok
	}
	tried := 0
	for _, k := range gangs {
		if !e.mayEvict(k) {
			continue
		}
		if evict, ok := e.evict(k, lawful, now); ok {
			d.Evicts = append(d.Evicts, evict)
			return k
		}
		if tried++; tried >= maxHelped {
			break
		}
	}
	return nil
}

// isLeaving says whether members of a gang were told to go.
func (e *Engine) isLeaving(k *known) bool {
	if len(e.leaving) == 0 {
		return false
	}
	for h := range k.placed {
		if _, ok := e.leaving[h]; ok {
			return true
		}
	}
	return false
}

// make plans members of a gang outside what is reserved for others, on some nodes
// only when given, and holds their devices.
func (e *Engine) make(k *known, least int, within []model.NodeID, now int64) (Start, bool) {
	ask := e.asked(k, least)
	ask.Within = within
	e.dress(k, ask, e.closing(k, now))
	e.sparing(k, ask, now)
	plan, failure := gang.Make(e.ledger, e.planner, ask)
	if failure != nil {
		return Start{}, false
	}
	e.take(k, &plan, now)
	return Start{Gang: k.ID, Plan: plan}, true
}

// dress gives a question the engine's weights, what the adapter allows and the nodes
// that are closed to it.
func (e *Engine) dress(k *known, ask *gang.Ask, closed []*reservation) {
	ask.Weights = e.options.Weights
	if len(closed) == 0 && e.options.May == nil {
		return
	}
	ask.May = func(role int, node model.NodeID) bool {
		for _, r := range closed {
			if r.has(node) {
				return false
			}
		}
		return e.options.May == nil || e.options.May(k.Roles[role].Request, node)
	}
}

// fitsWithoutReservations says whether a gang that has just been tried in vain has a
// place where nothing is reserved or limited.
func (e *Engine) fitsWithoutReservations(k *known, now int64) bool {
	if e.closing(k, now) == nil && k.fixed() {
		return false // the same was tried
	}
	tx := e.ledger.Begin()
	defer tx.Rollback()
	ask := k.ask(k.missing())
	e.dress(k, ask, nil)
	_, failure := gang.Make(e.ledger, e.planner, ask)
	return failure == nil
}
