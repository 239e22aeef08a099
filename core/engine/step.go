package engine

import (
	"maps"
	"slices"

	"github.com/tangram-dev/tangram/core/arbiter"
	"github.com/tangram-dev/tangram/core/explain"
	"github.com/tangram-dev/tangram/core/gang"
	"github.com/tangram-dev/tangram/core/model"
	"github.com/tangram-dev/tangram/core/score"
)

// Start is members of a gang that have a place now. Their devices are held.
type Start struct {
	Gang ID
	Plan gang.Plan
	// Repair: the gang runs and gets members back, or grows.
	Repair bool
	// Promised is the first start time that a reservation gave the gang; 0 when it had
	// none, or has started before.
	Promised int64
}

// Evict is holders that must go so that a gang can start.
type Evict struct {
	// For is the gang, Members are the holders, whole bundles, sorted.
	For     ID
	Members []model.HolderID
}

// Plan is what to do now.
type Plan struct {
	// Starts are carried out first: their devices are held. With releases
	// (Options.BatchTimeout) Effects says it member by member.
	Starts []Start
	Evicts []Evict
	// More: the step ended before all waiting gangs were looked at; the next one goes on
	// where this one stopped, and should follow soon.
	More bool
}

// Step decides which gangs start now. First gangs that lost members get them back; then
// gangs start for which nodes were kept, and the others in the arbiter's order; then
// gangs that still wait are helped by a reservation or by evictions; and what is left is
// for gangs that run and can use more. now must not go back.
func (e *Engine) Step(now int64) Plan {
	var d Plan
	e.steps++
	e.now = now
	if e.popTimers(now) {
		e.freed++
	}
	e.vetoes.expire(now)
	e.watchReleases(now)
	e.tree.Elapse(now)
	defer e.tree.Elapse(now)
	e.countExcess()
	e.expire(now)
	if now < e.suspension.until {
		return d
	}
	e.assignDepartures(now)
	broken := e.repair(&d, now)
	e.startKept(&d, now)
	e.start(&d, now)
	if !d.More || e.steps%helpAnyway == 0 {
		e.helpWaiting(&d, broken, now)
	}
	if !d.More { // else gangs may still start that were not looked at
		e.grow(&d, now)
	}
	return d
}

// repair gives gangs below their minimum their members back, in their own domain. It
// returns those that need room for that.
func (e *Engine) repair(d *Plan, now int64) (broken []*known) {
	for _, id := range slices.Sorted(maps.Keys(e.partial)) {
		k := e.gangs[id]
		if k.missing() == 0 || !k.complete() || e.isLeaving(k) || k.rests(now) {
			continue
		}
		if k.tree != nil {
			if e.mend(d, k, now) {
				broken = append(broken, k)
			}
			continue
		}
		if s, ok := e.tryStart(k, k.missing(), nil, now); ok {
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
func (e *Engine) grow(d *Plan, now int64) {
	for _, id := range slices.Sorted(maps.Keys(e.partial)) {
		k := e.gangs[id]
		if k.tree != nil {
			if !e.isLeaving(k) && !k.rests(now) {
				e.growTree(d, k, now)
			}
			continue
		}
		for e.worthTrying(k, growing) && k.missing() == 0 && len(k.placed) < k.exists && !e.isLeaving(k) && !k.rests(now) {
			s, ok := e.tryStart(k, 1, nil, now)
			if !ok {
				e.failed(k, growing)
				break
			}
			s.Repair = true
			d.Starts = append(d.Starts, s)
			e.recount(k)
		}
	}
}

// startKept starts gangs on the nodes that were kept for them, whatever else would be
// first: others were kept off these nodes for just this.
func (e *Engine) startKept(d *Plan, now int64) {
	for _, r := range slices.Clone(e.reserved) {
		k := e.gangs[r.id]
		if len(k.placed) > 0 || k.rests(now) || r.tried == e.freed+1 || e.tree.Why(arbiter.JobID(r.id)).Code != 0 {
			continue
		}
		if s, ok := e.tryStart(k, k.missing(), r.nodes, now); ok {
			d.Starts = append(d.Starts, s)
			_ = e.tree.Charge(arbiter.Job{ID: arbiter.JobID(k.ID)}, k.used) // it waits there
		} else if r.tried = e.freed + 1; r.until == 0 && e.idle(r) {
			// What was planned cannot be done: no gang must wait for it.
			e.failed(k, keeping)
			e.unreserve(func(o *reservation) bool { return o == r })
		}
	}
}

// start offers waiting gangs a place, in the arbiter's order. Gangs that are known to
// have none cost next to nothing and do not count, so none of them keeps others from
// being looked at. A pass that costs too much is continued by the next step: until it
// has come to its end every shape is tried once only, whatever was freed meanwhile.
func (e *Engine) start(d *Plan, now int64) {
	left := e.newEffort()
	// kept is, by shape, the earliest end with which only a reservation was in the way:
	// gangs that end later are kept off the same nodes.
	kept := map[gangShape]int64{}
	pass := e.tree.Candidates
	if !e.options.Backfill {
		pass = e.tree.InOrder
	}
	if !e.unfinished {
		e.round++
	}
	e.unfinished = false
	for offer := range pass(now) {
		k := e.gangs[ID(offer.Job.ID)]
		if k.Invalid != "" || k.offered == e.round {
			continue
		}
		if k.rests(now) {
			if !e.options.Backfill {
				offer.CloseQueue()
			}
			continue
		}
		v, known := e.full[k.shape]
		failed := known && (v.freed == e.freed || v.round == e.round) && !e.keptByLabels(k)
		end := e.end(k, now)
		switch at, ok := kept[k.shape]; {
		case !failed && (ok && end >= at || e.takesReservedQuota(k, end)):
			// It waits for a reservation, or would take the quota of one.
			k.offered = e.round
			left.offered()
		case failed:
			e.refuse(offer, k)
		case e.options.Backfill && left.usedUp(k.Namespace):
			e.unfinished, d.More = true, true // those of other namespaces go first
		default:
			if s, ok := e.tryStart(k, k.missing(), nil, now); ok {
				d.Starts = append(d.Starts, s)
				offer.Place(k.used)
				left.started(len(s.Plan.Placements))
				break
			}
			left.failed(k)
			switch {
			case k.overQuota.ForQuota(): // that is the gang's own limit, not its shape's
				k.offered = e.round
			case !e.fitsWithoutReservations(k, now):
				if !e.keptByLabels(k) {
					e.full[k.shape] = verdict{e.freed, e.round}
				}
				e.refuse(offer, k)
			case !e.options.Backfill && e.never(k) == nil:
				offer.CloseQueue()
			case e.closing(k, now) != nil:
				kept[k.shape] = end
			default: // the quota allows other members than those that have a place
			}
		}
		if left.none() {
			e.unfinished, d.More = true, true
			break
		}
	}
	if len(e.full) > maxNever && !e.unfinished {
		clear(e.full)
	}
}

// keptByLabels says whether rules of other holders are about a gang's labels, which are
// no part of its shape: then a verdict about the shape is none about the gang.
func (e *Engine) keptByLabels(k *known) bool {
	return slices.ContainsFunc(k.Roles, func(r Role) bool { return e.ledger.KeptApart(r.Request.Labels) })
}

// refuse says that a gang has no place.
func (e *Engine) refuse(offer *arbiter.Offer, k *known) {
	if !e.options.Backfill && e.never(k) == nil {
		offer.CloseQueue()
	} else {
		offer.NoCapacity()
	}
}

// rests says whether a gang is left alone after a start that failed.
func (g *known) rests(now int64) bool { return now < g.restUntil }

// helpAnyway is after how many steps of a pass that does not end gangs are helped that
// were tried in it: a tenant whose gangs all differ must not keep others from it.
const helpAnyway = 16

// maxHelped bounds for how many gangs a step looks for a reservation, and for how many
// for victims.
const maxHelped = 16

// maxAsked bounds how many gangs are asked whether victims may be looked for at all.
const maxAsked = 256

// helpWaiting reserves nodes or finds victims for gangs that cannot start: first for
// broken ones, then in the arbiter's order. A gang for which no eviction helps does not
// keep later ones from it.
func (e *Engine) helpWaiting(d *Plan, broken []*known, now int64) {
	full := !e.options.Backfill || e.reservations() >= e.options.Reservations && e.steps%reservePause > 0
	if full && !e.options.Preempt {
		return
	}
	most := maxHelped
	if e.options.Preempt {
		most = max(most, maxAsked)
	}
	for job := range e.tree.Waiting(now) { // collected: helping asks the tree
		if k := e.gangs[ID(job.ID)]; k.Invalid == "" && !k.rests(now) && (!d.More || e.full[k.shape].round == e.round) {
			if broken = append(broken, k); len(broken) >= most {
				break
			}
		}
	}
	helped := e.evictFor(d, broken, now)
	for _, k := range broken[:min(len(broken), maxHelped)] {
		if id := arbiter.JobID(k.ID); k != helped && e.options.Backfill && capacity(e.tree.Why(id)) && e.tree.Ever(id) {
			if e.reserve(k, now) {
				d.More = true
				break
			}
		}
	}
}

// evictFor finds victims for the first gang that some can help, and returns it. A
// queue must be due what it claims also with those started for which others leave
// already, and must have what it gives also before they start.
func (e *Engine) evictFor(d *Plan, gangs []*known, now int64) *known {
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
		if _, small := e.small(k.missing()); !small { // one search is enough for a step
			d.More = d.More || k.ground > 0
			break
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

// tryStart plans members of a gang outside what is reserved for others, on some nodes
// only when given, and holds their devices.
func (e *Engine) tryStart(k *known, least int, within []model.NodeID, now int64) (Start, bool) {
	return e.tryAsk(k, e.asked(k, least), within, now)
}

// tryAsk is tryStart for what is asked for.
func (e *Engine) tryAsk(k *known, ask *gang.Ask, within []model.NodeID, now int64) (Start, bool) {
	ask.Within = within
	e.constrain(k, ask, e.closing(k, now))
	e.limitToQuota(k, ask, now)
	tx := e.ledger.Begin()
	plan, failure := gang.Make(e.ledger, e.planner, ask)
	k.overQuota = arbiter.Wait{}
	if failure == nil {
		k.overQuota = e.tree.May(arbiter.JobID(k.ID), e.chargeOfPlan(k, &plan))
	}
	if failure != nil || k.overQuota.ForQuota() || len(plan.Placements) == 0 && ask.Tree != nil {
		tx.Rollback()
		return Start{}, false
	}
	tx.Keep()
	e.take(k, &plan, now)
	e.release(k, &plan)
	s := Start{Gang: k.ID, Plan: plan, Promised: k.promised}
	k.promised = 0
	return s, true
}

// constrain gives a question the gang's weights, Kubernetes' rules and the nodes that
// are closed to it.
func (e *Engine) constrain(k *known, ask *gang.Ask, closed []*reservation) {
	ask.Weights = e.options.Weights
	if k.Weights != (score.Weights{}) {
		ask.Weights = k.Weights
	}
	if _, none := e.options.Facts.(NoFacts); none && len(closed) == 0 && len(e.vetoes.of) == 0 {
		return
	}
	ask.May = func(role int, node model.NodeID) *explain.Refusal {
		for _, r := range closed {
			if r.has(node) {
				return &explain.Refusal{Code: explain.Taken}
			}
		}
		return e.refusal(k, role, node)
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
	e.constrain(k, ask, nil)
	_, failure := gang.Make(e.ledger, e.planner, ask)
	return failure == nil
}
