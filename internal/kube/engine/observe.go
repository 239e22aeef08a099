package engine

import (
	"cmp"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/tangram-dev/tangram/core/arbiter"
	"github.com/tangram-dev/tangram/core/engine"
	"github.com/tangram-dev/tangram/core/explain"
	"github.com/tangram-dev/tangram/core/measure"
	"github.com/tangram-dev/tangram/core/model"
	"github.com/tangram-dev/tangram/internal/dialect"
	"github.com/tangram-dev/tangram/internal/kube/metrics"
)

// observed is what is remembered for metrics alone: no decision reads it. It is guarded
// by the engine's lock.
type observed struct {
	meter *measure.Meter
	idle  *measure.Idle
	// leads: this process decides, and counts what happens. Replicas that follow count
	// nothing, so that sums over replicas are right.
	leads bool
	// since is when waiting pods could first be scheduled; zero while they may not.
	since map[model.HolderID]time.Time
	// planned is the step that placed a pod which is on its way to its place; step is the
	// one under way, or the last.
	planned map[model.HolderID]span
	step    span
	// reasons is what gangs wait for, as it was last counted.
	reasons map[engine.ID]explain.Code
}

// span is from when to when something took place.
type span struct{ began, ended time.Time }

// idleBelow and idleAfter are when a device that is held counts as idle, unless set to
// something else: 1 percent for ten minutes.
const (
	idleBelow = 1
	idleAfter = 10 * time.Minute
)

func newObserved() observed {
	return observed{
		meter: measure.NewMeter(measure.DefaultLimits()), idle: measure.NewIdle(idleBelow, idleAfter.Milliseconds()),
		since: map[model.HolderID]time.Time{}, planned: map[model.HolderID]span{}, reasons: map[engine.ID]explain.Code{},
	}
}

// SetIdle sets when a device that is held counts as idle: when its utilization, in
// percent, has not been above a bound for so long.
func (e *Engine) SetIdle(below int, after time.Duration) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.observed.idle = measure.NewIdle(below, after.Milliseconds())
}

// SetPrices sets what GPU hours cost from now on.
func (e *Engine) SetPrices(p measure.Prices) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.observed.meter.SetPrices(p, e.clock().UnixMilli())
}

// sinceSlack is how exact creation times are: the API server cuts them to seconds.
const sinceSlack = 2 * time.Second

// waitsSince notes when a pod that waits could first be scheduled: when it was created,
// or when its last scheduling gate went.
func (o *observed) waitsSince(pod *v1.Pod, now time.Time) {
	h := model.HolderID(pod.UID)
	at, known := o.since[h]
	switch {
	case len(pod.Spec.SchedulingGates) > 0:
		o.since[h] = time.Time{}
	case known && at.IsZero():
		o.since[h] = now
	case known:
	case now.Sub(pod.CreationTimestamp.Time) < sinceSlack:
		o.since[h] = now // it was seen at once, which is more exact
	default:
		o.since[h] = pod.CreationTimestamp.Time
	}
}

// forget forgets a pod that does not wait any more.
func (o *observed) forget(h model.HolderID) {
	delete(o.since, h)
	delete(o.planned, h)
}

// timeline is what is known of a pod when its scheduling cycle begins.
func (o *observed) timeline(h model.HolderID) metrics.Timeline {
	at := o.planned[h]
	return metrics.Timeline{Since: o.since[h], PlanBegan: at.began, Planned: at.ended}
}

// waitsFor counts the pods of a gang that wait for a reason, once for each reason.
func (o *observed) waitsFor(id engine.ID, reason explain.Code, pods int) {
	if o.reasons[id] != reason {
		o.reasons[id] = reason
		metrics.Unschedulable(reason.String(), pods)
	}
}

// lead notes that this process decides from now on.
func (e *Engine) lead(now time.Time) {
	if !e.observed.leads {
		e.observed.leads = true
		e.leading.Store(true)
		e.observed.meter.Restart(now.UnixMilli())
	}
}

// stepped notes what a step decided.
func (e *Engine) stepped(plan *engine.Plan, now time.Time) {
	for _, s := range plan.Starts {
		if s.Promised > 0 && !e.copied {
			metrics.Started(now, time.Unix(0, s.Promised))
		}
	}
}

// meterGang begins to count what bound members of a gang hold.
func (e *Engine) meterGang(g *engine.Gang, now time.Time) {
	for _, r := range g.Roles {
		for _, h := range r.Members {
			if m := e.work.Member(h); m != nil && m.Pod.Spec.NodeName != "" && !e.observed.meter.Has(h) {
				e.meterHolder(h, g, now)
			}
		}
	}
}

// meterHolder counts what a holder holds from now on.
func (e *Engine) meterHolder(h model.HolderID, g *engine.Gang, now time.Time) {
	if holds := e.core.Holding(h); len(holds) > 0 || e.observed.meter.Has(h) {
		owner := measure.Owner{Queue: cmp.Or(g.Queue, arbiter.Default), Namespace: g.Namespace, User: g.User}
		e.observed.meter.Set(h, owner, holds, now.UnixMilli())
	}
}

// remeter counts anew what is held on a node whose devices changed.
func (e *Engine) remeter(node model.NodeID, now time.Time) {
	for _, h := range e.core.HoldersOn(node) {
		if id, ok := e.core.Of(h); ok && e.observed.meter.Has(h) {
			if g, ok := e.core.Gang(id); ok {
				e.meterHolder(h, &g, now)
			}
		}
	}
}

// ended ends the count of what a pod held.
func (e *Engine) ended(pod *v1.Pod, now time.Time) {
	e.observed.forget(model.HolderID(pod.UID))
	for _, h := range dialect.Holders(pod) {
		e.observed.meter.End(h, now.UnixMilli())
	}
}

// gpuHours is what a holder has used so far.
func (e *Engine) gpuHours(h model.HolderID, now time.Time) float64 {
	return float64(e.observed.meter.Used(h, now.UnixMilli())) / (1000 * 3_600_000)
}

// stateEvery is how old figures may be that a scrape shows: several scrapers cost no more
// than one.
const stateEvery = 2 * time.Second

// shown is the last state that was shown.
type shown struct {
	mu sync.Mutex
	metrics.State
}

// State returns what gauges show. It holds the engine's lock for parts of a census, one
// after the other, so that decisions wait for one part at most; what can be computed later
// is not computed under it.
func (e *Engine) State() metrics.State {
	e.shown.mu.Lock()
	defer e.shown.mu.Unlock()
	now := e.clock()
	if age := now.Sub(e.shown.At); age >= 0 && age < stateEvery {
		return e.shown.State
	}
	s := metrics.State{At: now}
	e.look("metrics", func() {
		if e.fleetChanged && !e.observed.leads { // a leader does so in its steps
			e.fleetChanged = false
			e.core.CountFleet()
		}
	})
	e.look("metrics", func() { s.Census = e.core.CountWork(e.condition) })
	e.look("metrics", func() { s.Census.Fleet = e.core.CountDevices(e.condition, e.observed.idle, now.UnixNano()) })
	e.look("metrics", func() {
		if o := &e.observed; o.leads {
			s.Usage, s.Folded, s.Prices = o.meter.Read(now.UnixMilli()), o.meter.Folded(), *o.meter.Prices()
		}
	})
	e.shown.State = s
	return s
}

// look reads under the lock. Events that have come are not applied: that is the next
// question's business. It goes before those that wait for their turn (lock). The lock is
// released also when f panics: the query server goes on.
func (e *Engine) look(what string, f func()) (waited, held time.Duration) {
	began := time.Now()
	unlock := e.mu.LockAhead()
	held = e.under(unlock, f)
	if !e.copied {
		metrics.LockHeld(what, held)
	}
	return time.Since(began) - held, held
}

// locked runs a function under the lock and says how long it was held.
func (e *Engine) locked(f func()) (held time.Duration) {
	e.mu.Lock()
	return e.under(e.mu.Unlock, f)
}

// under runs a function under the lock, which is held, and gives it back.
func (e *Engine) under(unlock, f func()) (held time.Duration) {
	defer unlock()
	began := time.Now()
	f()
	return time.Since(began) // before unlocking, which may let a waiter run first
}

// condition is what a node's object says about it.
func (e *Engine) condition(id model.NodeID) engine.Condition {
	node := e.facts.nodes[id]
	if node == nil {
		return engine.NodeLost
	}
	for _, c := range node.Status.Conditions {
		if c.Type == v1.NodeReady && c.Status != v1.ConditionTrue {
			return engine.NodeLost
		}
	}
	if node.Spec.Unschedulable {
		return engine.NodeCordoned
	}
	return engine.Open
}
