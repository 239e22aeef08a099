package engine

import (
	"slices"

	"github.com/tangram-dev/tangram/core/arbiter"
	"github.com/tangram-dev/tangram/core/gang"
	"github.com/tangram-dev/tangram/core/memo"
	"github.com/tangram-dev/tangram/core/model"
	"github.com/tangram-dev/tangram/core/preempt"
	"github.com/tangram-dev/tangram/core/reserve"
)

// Step decides which gangs start now. First gangs that lost members get them back; then
// gangs start for which nodes were kept, and the others in the arbiter's order; then
// gangs that still wait are helped by a reservation or by evictions; and what is left is
// for gangs that run and can use more. now must not go back.
func (e *Engine) Step(now int64) Plan {
	var d Plan
	e.memo.Step(now)
	e.releases.Watch(now, e.undo)
	e.cluster.Elapse(now)
	e.cluster.CountExcess()
	e.preemptor.Settle(now)
	e.book.Expire(now)
	if !e.memo.Halted() {
		e.decide(&d, now)
	}
	e.cluster.Elapse(now)
	d.Effects, d.Wake = e.releases.Effects(), e.Figures.Wake()
	if e.recorder != nil {
		e.recorder.Stepped(now, &d)
	}
	return d
}

// decide fills a plan.
func (e *Engine) decide(d *Plan, now int64) {
	e.preemptor.AssignDepartures(now)
	broken := e.repair(d, now)
	e.startKept(d, now)
	e.start(d, now)
	if !d.More || e.memo.Steps()%helpAnyway == 0 {
		e.helpWaiting(d, broken, now)
	}
	if !d.More { // else gangs may still start that were not looked at
		e.grow(d, now)
	}
}

// repair gives gangs below their minimum their members back, in their own domain. It
// returns those that need room for that.
func (e *Engine) repair(d *Plan, now int64) (broken []*tracked) {
	for k := range e.cluster.Partial() {
		if k.Missing() == 0 || !k.Complete() || e.preemptor.IsLeaving(k) || k.Memo.Rests(now) {
			continue
		}
		if k.Nested() {
			if e.mend(d, k, now) {
				broken = append(broken, k)
			}
			continue
		}
		if s, ok := e.tryStart(k, k.Missing(), nil, now); ok {
			e.repaired(d, k, s)
		} else if !e.cluster.Wait(k, k.Missing()).ForQuota() {
			broken = append(broken, k)
		}
	}
	return broken
}

// repaired adds members that a running gang got to a plan.
func (e *Engine) repaired(d *Plan, k *tracked, s Start) {
	s.Repair = true
	d.Starts = append(d.Starts, s)
	e.recount(k)
}

// grow gives gangs that run and can use more what is free.
func (e *Engine) grow(d *Plan, now int64) {
	for k := range e.cluster.Partial() {
		if k.Nested() {
			if !e.preemptor.IsLeaving(k) && !k.Memo.Rests(now) {
				e.growUnits(d, k, now)
			}
			continue
		}
		for e.memo.WorthTrying(&k.Memo, memo.Growing) && k.Missing() == 0 && k.Placed() < k.Exists() && !e.preemptor.IsLeaving(k) && !k.Memo.Rests(now) {
			s, ok := e.tryStart(k, 1, nil, now)
			if !ok {
				e.memo.Failed(&k.Memo, memo.Growing)
				break
			}
			e.repaired(d, k, s)
		}
	}
}

// startKept starts gangs on the nodes that were kept for them, whatever else would be
// first: others were kept off these nodes for just this.
func (e *Engine) startKept(d *Plan, now int64) {
	for _, r := range slices.Clone(e.book.All()) {
		k := e.cluster.Gang(r.Gang())
		if k.Placed() > 0 || k.Memo.Rests(now) || e.book.Tried(r) || e.cluster.Tree().Why(arbiter.JobID(k.ID)).Code != 0 {
			continue
		}
		if s, ok := e.tryStart(k, k.Missing(), r.Nodes(), now); ok {
			d.Starts = append(d.Starts, s)
			e.cluster.Charge(k)
		} else {
			e.book.Missed(k, r)
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
	kept := map[model.GangShape]int64{}
	pass := e.cluster.Tree().CandidatesIn(now, e.memo.RoomVersion()+1)
	if !e.options.Backfill {
		pass = e.cluster.Tree().InOrder(now)
	}
	e.memo.BeginRound()
	interrupt := func() {
		e.memo.Interrupt()
		d.More = true
	}
	for offer := range pass {
		k := e.cluster.Gang(ID(offer.Job.ID))
		if k.Invalid != "" || e.memo.Offered(&k.Memo) {
			continue
		}
		if k.Memo.Rests(now) {
			if !e.options.Backfill {
				offer.CloseQueue()
			}
			continue
		}
		failed := e.memo.Full(k.Shape()) && !e.cluster.KeptByLabels(k)
		end := k.End(now)
		switch at, ok := kept[k.Shape()]; {
		case !failed && (ok && end >= at || e.book.TakesQuota(k, end)):
			// It waits for a reservation, or would take the quota of one.
			e.memo.Offer(&k.Memo)
			left.offered()
		case failed:
			e.refuse(offer, k)
		case e.options.Backfill && left.usedUp(k.Namespace):
			interrupt() // those of other namespaces go first
		default:
			if s, ok := e.tryStart(k, k.Missing(), nil, now); ok {
				d.Starts = append(d.Starts, s)
				offer.Place(k.Used())
				left.started(len(s.Plan.Placements))
				break
			}
			left.failed(k)
			switch {
			case k.Memo.OverQuota().ForQuota(): // that is the gang's own limit, not its shape's
				e.memo.Offer(&k.Memo)
			case !e.fitsWithoutReservations(k, now):
				if !e.cluster.KeptByLabels(k) {
					e.memo.SetFull(k.Shape())
				}
				e.refuse(offer, k)
			case !e.options.Backfill && e.cluster.Never(k) == nil:
				offer.CloseQueue()
			case e.book.Closing(k, now) != nil:
				kept[k.Shape()] = end
			default: // the quota allows other members than those that have a place
			}
		}
		if left.none() {
			interrupt()
			break
		}
	}
	e.memo.EndRound()
}

// refuse says that a gang has no place.
func (e *Engine) refuse(offer *arbiter.Offer, k *tracked) {
	switch {
	case !e.options.Backfill && e.cluster.Never(k) == nil:
		offer.CloseQueue()
	case e.memo.FullNow(k.Shape()) && !e.cluster.KeptByLabels(k):
		offer.NoCapacityYet()
	default:
		offer.NoCapacity()
	}
}

// helpAnyway is after how many steps of a pass that does not end gangs are helped that
// were tried in it: a tenant whose gangs all differ must not keep others from it.
const helpAnyway = 16

// maxAsked bounds how many gangs are asked whether victims may be looked for at all.
const maxAsked = 256

// helpWaiting reserves nodes or finds victims for gangs that cannot start: first for
// broken ones, then in the arbiter's order. A gang for which no eviction helps does not
// keep later ones from it.
func (e *Engine) helpWaiting(d *Plan, broken []*tracked, now int64) {
	full := !e.options.Backfill || e.book.Waiting() >= e.options.Reservations && e.memo.Steps()%memo.ReservePause > 0
	if full && !e.options.Preempt {
		return
	}
	most := preempt.MaxHelped
	if e.options.Preempt {
		most = max(most, maxAsked)
	}
	for job := range e.cluster.Tree().Waiting(now) { // collected: helping asks the tree
		if k := e.cluster.Gang(ID(job.ID)); k.Invalid == "" && !k.Memo.Rests(now) && (!d.More || e.memo.TriedInRound(k.Shape())) {
			if broken = append(broken, k); len(broken) >= most {
				break
			}
		}
	}
	evict, helped, more := e.preemptor.Help(broken, now)
	if helped != nil {
		d.Evicts = append(d.Evicts, evict)
	}
	d.More = d.More || more
	tree := e.cluster.Tree()
	for _, k := range broken[:min(len(broken), preempt.MaxHelped)] {
		if id := arbiter.JobID(k.ID); k != helped && e.options.Backfill && reserve.ForCapacity(tree.Why(id)) && tree.Ever(id) {
			if e.book.Find(k, now) {
				d.More = true
				break
			}
		}
	}
}

// tryStart plans members of a gang outside what is reserved for others, on some nodes
// only when given, and holds their devices.
func (e *Engine) tryStart(k *tracked, least int, within []model.NodeID, now int64) (Start, bool) {
	return e.tryAsk(k, e.cluster.Asked(k, least), within, now)
}

// tryAsk is tryStart for what is asked for.
func (e *Engine) tryAsk(k *tracked, ask *gang.Ask, within []model.NodeID, now int64) (Start, bool) {
	ask.Within = within
	e.cluster.Constrain(k, ask, reserve.Closed(e.book.Closing(k, now)))
	e.book.Limit(k, ask, now)
	t := e.cluster.Begin()
	plan, failure := t.Plan(ask)
	k.Memo.Charged(arbiter.Wait{})
	if failure == nil {
		k.Memo.Charged(e.cluster.Tree().May(arbiter.JobID(k.ID), e.cluster.ChargeOfPlan(k, &plan)))
	}
	if failure != nil || k.Memo.OverQuota().ForQuota() || len(plan.Placements) == 0 && ask.Tree != nil {
		t.Rollback()
		return Start{}, false
	}
	t.Keep()
	e.take(k, &plan, now)
	e.releases.Issue(k, &plan)
	return Start{Gang: k.ID, Plan: plan, Promised: e.book.Promises.Keep(k.ID)}, true
}

// take writes down a plan that was kept in the ledger. A gang that has what it needs gives
// up the nodes that were kept for it.
func (e *Engine) take(k *tracked, plan *gang.Plan, now int64) {
	e.cluster.Take(k, plan, now)
	if k.Missing() > 0 {
		return
	}
	if e.book.Of(k.ID) != nil {
		e.preemptor.Started(k)
	}
	e.book.Drop(k.ID)
}

// fitsWithoutReservations says whether a gang that was just tried without success has a
// place where nothing is reserved or limited.
func (e *Engine) fitsWithoutReservations(k *tracked, now int64) bool {
	if e.book.Closing(k, now) == nil && k.Fixed() {
		return false // the same was tried
	}
	t := e.cluster.Begin()
	defer t.Rollback()
	ask := k.Ask(k.Missing())
	e.cluster.Constrain(k, ask, nil)
	_, failure := t.Plan(ask)
	return failure == nil
}
