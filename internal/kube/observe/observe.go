package observe

import (
	"cmp"
	"time"

	v1 "k8s.io/api/core/v1"

	coreanswer "github.com/tangram-dev/tangram/core/answer"
	"github.com/tangram-dev/tangram/core/arbiter"
	"github.com/tangram-dev/tangram/core/engine"
	"github.com/tangram-dev/tangram/core/explain"
	"github.com/tangram-dev/tangram/core/measure"
	"github.com/tangram-dev/tangram/core/model"
	"github.com/tangram-dev/tangram/internal/dialect"
	"github.com/tangram-dev/tangram/internal/kube/metrics"
	"github.com/tangram-dev/tangram/internal/kube/workload"
)

// Observer remembers what happens. Not safe for concurrent use, but for Timeline; nil
// observes nothing.
type Observer struct {
	core  coreanswer.Answers
	work  *workload.Gangs
	meter *measure.Meter
	idle  *measure.Idle
	// leads: this process decides and counts; those that follow do not: sums are right.
	leads bool
	// since is when waiting pods could first be scheduled; zero while they may not.
	since map[model.HolderID]time.Time
	// planned is the step that placed a pod on its way; step is the current or last.
	planned map[model.HolderID]span
	step    span
	// reasons is what gangs were last counted for, stages how far the timeline has told.
	reasons  map[engine.ID]explain.Code
	stages   map[engine.ID]stage
	timeline Timeline
}

// span is from when to when something took place.
type span struct{ began, ended time.Time }

// idleBelow and idleAfter are when a device that is held counts as idle, unless set to
// something else: 1 percent for ten minutes.
const (
	idleBelow = 1
	idleAfter = 10 * time.Minute
)

// New returns an Observer that has seen nothing.
func New() *Observer {
	return &Observer{
		meter: measure.NewMeter(measure.DefaultLimits()), idle: measure.NewIdle(idleBelow, idleAfter.Milliseconds()),
		since: map[model.HolderID]time.Time{}, planned: map[model.HolderID]span{}, reasons: map[engine.ID]explain.Code{}, stages: map[engine.ID]stage{},
	}
}

// Read says where gangs and their members are read. It is called once, by the engine.
func (o *Observer) Read(core coreanswer.Answers, work *workload.Gangs) {
	if o != nil {
		o.core, o.work = core, work
	}
}

// SetIdle sets when a device that is held counts as idle: when its utilization, in percent,
// has not been above a bound for so long.
func (o *Observer) SetIdle(below int, after time.Duration) {
	o.idle = measure.NewIdle(below, after.Milliseconds())
}

// SetPrices sets what GPU hours cost from now on.
func (o *Observer) SetPrices(p measure.Prices, now time.Time) { o.meter.SetPrices(p, now.UnixMilli()) }

// Idle says which devices that are held are idle.
func (o *Observer) Idle() *measure.Idle {
	if o == nil {
		return measure.NewIdle(idleBelow, idleAfter.Milliseconds())
	}
	return o.idle
}

// Meter counts GPU hours; nil where this process does not lead.
func (o *Observer) Meter() *measure.Meter {
	if o == nil || !o.leads {
		return nil
	}
	return o.meter
}

// Timeline has the last decisions.
func (o *Observer) Timeline() *Timeline {
	if o == nil {
		return &Timeline{}
	}
	return &o.timeline
}

// LockHeld tells for how long the engine's lock was held, and what for.
func (o *Observer) LockHeld(what string, held time.Duration) {
	if o != nil {
		metrics.LockHeld(what, held)
	}
}

// Queues tells the names of all queues: those that metrics may show.
func (o *Observer) Queues(names []string) {
	if o != nil {
		metrics.SetQueues(names)
	}
}

// Contested counts records that contradict others.
func (o *Observer) Contested(records int) {
	for range records {
		if o != nil {
			metrics.Conflict(metrics.ConflictRecord)
		}
	}
}

// sinceSlack is how exact creation times are: the API server cuts them to seconds.
const sinceSlack = 2 * time.Second

// Waits notes when a pod that waits could first be scheduled: when it was created, or when
// its last scheduling gate went.
func (o *Observer) Waits(pod *v1.Pod, now time.Time) {
	if o == nil {
		return
	}
	h := model.HolderID(pod.UID)
	at, seen := o.since[h]
	switch {
	case len(pod.Spec.SchedulingGates) > 0:
		o.since[h] = time.Time{}
	case seen && at.IsZero():
		o.since[h] = now
	case seen:
	case now.Sub(pod.CreationTimestamp.Time) < sinceSlack:
		o.since[h] = now // it was seen at once, which is more exact
	default:
		o.since[h] = pod.CreationTimestamp.Time
	}
}

// Released notes that the step under way, or the last, placed a pod.
func (o *Observer) Released(h model.HolderID) {
	if o != nil {
		o.planned[h] = o.step
	}
}

// Retried counts releases that were taken back.
func (o *Observer) Retried(pods int) {
	if o != nil {
		metrics.Retried(pods)
	}
}

// Begun is what is known of a pod when its scheduling cycle begins.
func (o *Observer) Begun(h model.HolderID) metrics.Timeline {
	if o == nil {
		return metrics.Timeline{}
	}
	at := o.planned[h]
	return metrics.Timeline{Since: o.since[h], PlanBegan: at.began, Planned: at.ended}
}

// Bound notes that a pod is bound.
func (o *Observer) Bound(h model.HolderID, now time.Time) {
	if o != nil {
		o.noLongerWaits(h)
		o.recordBound(h, now)
	}
}

// Ended ends the count of what a pod held.
func (o *Observer) Ended(pod *v1.Pod, now time.Time) {
	if o == nil {
		return
	}
	o.noLongerWaits(model.HolderID(pod.UID))
	for _, h := range dialect.Holders(pod) {
		o.meter.End(h, now.UnixMilli())
	}
}

func (o *Observer) noLongerWaits(h model.HolderID) {
	delete(o.since, h)
	delete(o.planned, h)
}

// WaitsFor counts the pods of a gang that wait for a reason, once for each reason.
func (o *Observer) WaitsFor(id engine.ID, reason explain.Code, pods int) {
	if o != nil && o.reasons[id] != reason {
		o.reasons[id] = reason
		metrics.Unschedulable(reason.String(), pods)
	}
}

// Settled forgets what a gang waited for: it is gone, or has its place.
func (o *Observer) Settled(id engine.ID) {
	if o != nil {
		delete(o.reasons, id)
	}
}

// Lead notes that this process decides from now on.
func (o *Observer) Lead(now time.Time) {
	if o != nil {
		o.leads = true
		o.meter.Restart(now.UnixMilli())
	}
}

// StepBegins notes when a step began.
func (o *Observer) StepBegins() {
	if o != nil {
		o.step.began = time.Now()
	}
}

// Stepped notes what a step decided.
func (o *Observer) Stepped(plan *engine.Plan, now time.Time) {
	if o == nil {
		return
	}
	o.step.ended = time.Now()
	for _, s := range plan.Starts {
		if s.Promised > 0 {
			metrics.Started(now, time.Unix(0, s.Promised))
		}
	}
	o.recordStep(plan, now)
}

// Submitted begins to count what bound members of a gang hold, and notes a gang that runs
// without having been placed by this process.
func (o *Observer) Submitted(g *engine.Gang, now time.Time) {
	if o == nil {
		return
	}
	for _, r := range g.Roles {
		for _, h := range r.Members {
			if m := o.work.Member(h); m != nil && m.Pod.Spec.NodeName != "" && !o.meter.Has(h) {
				o.count(h, g, now)
			}
		}
	}
	if o.stages[g.ID] == waits && o.core.Gangs.Placed(g.ID) > 0 {
		o.stages[g.ID] = runs
	}
}

// count counts what a holder holds from now on.
func (o *Observer) count(h model.HolderID, g *engine.Gang, now time.Time) {
	if holds := o.core.Figures.Holding(h); len(holds) > 0 || o.meter.Has(h) {
		owner := measure.Owner{Queue: cmp.Or(g.Queue, arbiter.Default), Namespace: g.Namespace, User: g.User}
		o.meter.Set(h, owner, holds, now.UnixMilli())
	}
}

// NodeChanged counts anew what is held on a node whose devices changed.
func (o *Observer) NodeChanged(node model.NodeID, now time.Time) {
	if o == nil {
		return
	}
	for _, h := range o.core.Nodes.HoldersOn(node) {
		if id, ok := o.core.Gangs.Of(h); ok && o.meter.Has(h) {
			if g, ok := o.core.Gangs.Gang(id); ok {
				o.count(h, &g, now)
			}
		}
	}
}

// GPUHours is what a holder has used so far.
func (o *Observer) GPUHours(h model.HolderID, now time.Time) float64 {
	if o == nil {
		return 0
	}
	return float64(o.meter.Used(h, now.UnixMilli())) / (1000 * 3_600_000)
}

// Size is how much is remembered of pods and gangs: nothing when all of them are gone.
func (o *Observer) Size() int {
	if o == nil {
		return 0
	}
	return len(o.since) + len(o.planned) + len(o.reasons) + len(o.stages) + o.idle.Size()
}
