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
	// For is the gang, Members are the holders, whole bundles.
	For     ID
	Members []model.HolderID
}

// Decision is what to do now.
type Decision struct {
	Starts []Start
	Evicts []Evict
	// Blocked are gangs that were tried and do not fit: see Why.
	Blocked []ID
}

// Decide says who starts now. First gangs that lost members get them back, then
// gangs start in the arbiter's order, then those that can use more grow.
func (e *Engine) Decide(now int64) Decision {
	var d Decision
	e.renew(now)
	e.repair(&d, now)
	e.start(&d, now)
	e.grow(&d, now)
	return d
}

// repair gives gangs below their minimum their members back, in their own domain.
func (e *Engine) repair(d *Decision, now int64) {
	for _, id := range slices.Sorted(maps.Keys(e.partial)) {
		k := e.gangs[id]
		if k.missing() == 0 || !k.complete() || e.isLeaving(k) {
			continue
		}
		if s, failure := e.make(k, k.missing(), now); failure == nil {
			s.Repair = true
			d.Starts = append(d.Starts, s)
			e.recount(k)
		} else {
			k.reason = Reason{Failure: failure}
		}
	}
}

// grow gives gangs that run and can use more what is free.
func (e *Engine) grow(d *Decision, now int64) {
	for _, id := range slices.Sorted(maps.Keys(e.partial)) {
		k := e.gangs[id]
		if k.missing() > 0 || e.isLeaving(k) {
			continue
		}
		more := map[arbiter.Resource]int64{}
		for i, role := range k.ask(0).Roles {
			if len(role.Members) > 0 {
				e.add(more, k.Roles[i].Request, 1)
				break
			}
		}
		if wait := e.tree.May(arbiter.JobID(id), e.tree.Amounts(more)); wait.Code != 0 {
			continue
		}
		if s, failure := e.make(k, 1, now); failure == nil {
			s.Repair = true
			d.Starts = append(d.Starts, s)
			e.recount(k)
		}
	}
}

// start offers waiting gangs a place, in the arbiter's order.
func (e *Engine) start(d *Decision, now int64) {
	tried := newAttempts(e)
	var blocked []*known
	for offer := range e.tree.Contenders(now) {
		k := e.gangs[ID(offer.Job.ID)]
		if offer.Beyond {
			k.reason = Reason{} // the tree knows
			blocked = append(blocked, k)
			if e.options.Backfill {
				offer.NoCapacity()
			} else {
				offer.CloseQueue()
			}
			continue
		}
		failure := tried.failed(k, now)
		if failure == nil {
			var s Start
			if s, failure = e.make(k, k.missing(), now); failure == nil {
				d.Starts = append(d.Starts, s)
				offer.Place(e.tree.Amounts(e.used(k)))
				continue
			}
			tried.note(k, failure, now)
		}
		k.reason = Reason{Failure: failure}
		blocked = append(blocked, k)
		switch {
		case !e.options.Backfill:
			offer.CloseQueue()
		case !tried.mayFit(k, now):
			offer.NoCapacity()
		default:
			// Only a reservation is in its way: others like it may end earlier.
		}
		if tried.enough() {
			break
		}
	}
	hopeless := map[victimless]bool{}
	for _, k := range blocked {
		d.Blocked = append(d.Blocked, k.ID)
		if len(d.Evicts) == 0 && e.options.Preempt && !k.NeverPreempts {
			key := victimless{k.shape, k.Queue, k.Priority, e.before(k, now)}
			if !hopeless[key] {
				if evict, ok := e.evict(k, now); ok {
					d.Evicts = append(d.Evicts, evict)
					continue
				}
				hopeless[key] = true
			}
		}
		e.reserve(k, now)
	}
}

// victimless is gangs for whom nobody's leaving helps, since it does not for one.
type victimless struct {
	shape, queue string
	priority     int32
	before       uint64
}

// isLeaving says whether members of a gang were told to go.
func (e *Engine) isLeaving(k *known) bool {
	if len(e.leaving) == 0 {
		return false
	}
	for h := range k.placed {
		if e.leaving[h] != "" {
			return true
		}
	}
	return false
}

// make plans a gang's missing members outside what is reserved for others, and
// holds their devices.
func (e *Engine) make(k *known, least int, now int64) (Start, *gang.Failure) {
	ask := k.ask(least)
	ask.Weights = e.options.Weights
	ask.May = e.mayFor(k, now)
	plan, failure := gang.Make(e.ledger, e.planner, ask)
	if failure != nil {
		return Start{}, failure
	}
	e.take(k, &plan, now)
	return Start{Gang: k.ID, Plan: plan}, nil
}

// mayFor says where a gang's members may go: what the adapter allows, outside of
// nodes that others have reserved, unless it ends before they need them.
func (e *Engine) mayFor(k *known, now int64) func(int, model.NodeID) bool {
	closed := e.closedTo(k, now)
	if closed == nil && e.options.May == nil {
		return nil
	}
	return func(role int, node model.NodeID) bool {
		return !closed[node] && (e.options.May == nil || e.options.May(k.Roles[role].Request, node))
	}
}
