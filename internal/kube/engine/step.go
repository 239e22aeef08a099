package engine

import (
	"cmp"
	"slices"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/tangram-dev/tangram/api/demand"
	"github.com/tangram-dev/tangram/core/arbiter"
	"github.com/tangram-dev/tangram/core/engine"
	"github.com/tangram-dev/tangram/core/explain"
	"github.com/tangram-dev/tangram/core/model"
	"github.com/tangram-dev/tangram/internal/kube/metrics"
	"github.com/tangram-dev/tangram/internal/kube/report"
	"github.com/tangram-dev/tangram/internal/kube/workload"
)

// Turn is what a step asks the adapter to do. It must be carried out without the
// engine's lock: kube-scheduler's queue asks the gate under its own.
type Turn struct {
	// Stop are pods that must stop waiting at Permit: a member planned with them failed.
	Stop []model.HolderID
	// Activate are pods to be put into kube-scheduler's queue: released ones, and those
	// that have to be looked at again. Requeue are released pods which that queue seems
	// to have lost.
	Activate, Requeue []*v1.Pod
	// Evict are pods that must go, those first that a disruption budget protects: if
	// one may not go, the others stay.
	Evict []Victim
	// Heal are pods that were bound to devices which older pods hold: they have to go,
	// whatever budgets say.
	Heal []Victim
	// GiveBack are allocated claims that failed starts left behind: tell GaveBack.
	GiveBack []GiveBack
	// Notices are what waiting pods are told.
	Notices []report.Notice
	// Refusals are gangs that do not start for another reason than before; none unless
	// WatchRefusals was called.
	Refusals []Refusal
	// Demand is what autoscalers are asked for; nil when that is what it was.
	Demand *demand.Document
	// Lookups are gangs that wait for members that may have succeeded: tell Succeeded
	// which did.
	Lookups []workload.Lookup
	// Next is when to step again though nothing happens.
	Next time.Duration
}

// Victim is a pod to be evicted, and why.
type Victim struct {
	Pod *v1.Pod
	Why string
	// Gang and Queue are the pod's, For is the gang that it has to make room for.
	Gang, Queue, For string
	// Guarded: a disruption budget may refuse it. Then evicting the others would not help.
	Guarded bool
	// Cause is why it has to go (metrics.CausePriority or CauseReclaim), GPUHours what it
	// has used until now.
	Cause    string
	GPUHours float64
}

// stepEvery is how long decisions are left alone when nothing happens: time itself
// changes things (ages, reservations whose time came).
const stepEvery = 5 * time.Second

// Step decides what starts now. It is called first when everything has been seen that
// existed when this process started (WaitForSync), and by the leader only.
func (e *Engine) Step() (t Turn) {
	e.do("step", func(now time.Time) {
		e.lead(now)
		e.observed.step.began = time.Now()
		e.describeChanged(now)
		if e.fleetChanged {
			e.fleetChanged = false
			e.core.CountFleet()
		}
		plan := e.core.Step(now.UnixNano())
		e.observed.step.ended = time.Now()
		e.stepped(&plan, now)
		e.recordStep(&plan, now)
		for _, s := range plan.Starts {
			e.demands.drop(s.Gang)
		}
		t.Evict = e.victims(plan.Evicts, now)
		t.Heal = e.heal(now)
		t.GiveBack = e.giveBack(now)
		e.reportQueues(now)
		if !plan.More && !e.copied { // a copy is asked for reasons, and tells nobody
			e.tellWhy(&t, now)
		}
		t.Demand = e.demand(now)
		t.Next = e.next(now, plan.More)
		e.mirror()
		t.Stop, t.Activate, t.Requeue = e.outbox.stop, e.outbox.activate, e.outbox.requeue
		e.outbox = outbox{}
	})
	return t
}

// describeChanged tells core what is new about gangs. A pod may have gone from one gang
// to another, so gangs are tried again after the others.
func (e *Engine) describeChanged(now time.Time) {
	var gangs []engine.Gang
	for _, id := range e.work.Changed() {
		if gang, there := e.work.Describe(id, now, e.gate.releases.has); there {
			gangs = append(gangs, gang)
			continue
		}
		e.recordEnd(id, now)
		e.core.Withdraw(id)
		e.forget(id)
	}
	for len(gangs) > 0 {
		left := slices.DeleteFunc(slices.Clone(gangs), func(g engine.Gang) bool { return e.submit(g, now) == nil })
		if len(left) == len(gangs) { // they have exchanged pods
			for _, g := range gangs {
				e.core.Withdraw(g.ID)
			}
			for _, g := range gangs {
				if err := e.submit(g, now); err != nil {
					e.logger.Error(err, "Gang ignored", "gang", g.Name)
				}
			}
			return
		}
		gangs = left
	}
}

// submit tells core what a gang is now.
func (e *Engine) submit(g engine.Gang, now time.Time) error {
	if err := e.core.Submit(g); err != nil {
		return err
	}
	for _, m := range e.work.Pods(g.ID) {
		e.gate.free.remove(model.HolderID(m.Pod.UID)) // it may have been kube-scheduler's before
		if m.Leaving() {
			e.core.Leaves(model.HolderID(m.Pod.UID), m.Pod.DeletionTimestamp.Add(e.timing.Terminating).UnixNano())
		}
	}
	e.desk.Touched(g.ID, now)
	e.meterGang(&g, now)
	e.recordKnown(g.ID)
	return nil
}

// goneBy is how long after its grace period a pod is still expected to go.
const goneBy = 10 * time.Minute

// victims are the pods of evictions.
func (e *Engine) victims(evicts []engine.Evict, now time.Time) (out []Victim) {
	for _, x := range evicts {
		by, queue := string(x.For), ""
		if g, ok := e.core.Gang(x.For); ok {
			by, queue = g.Name, cmp.Or(g.Queue, arbiter.Default)
		}
		var pods []Victim
		add := func(p *v1.Pod, why string) {
			h := model.HolderID(p.UID)
			v := Victim{Pod: p, Why: why, Guarded: len(e.facts.budgets.of(p)) > 0, Gang: e.nameOf(h), Queue: e.core.QueueOf(h), For: by, Cause: metrics.CauseReclaim, GPUHours: e.gpuHours(h, now)}
			if v.Queue == queue {
				v.Cause = metrics.CausePriority
			}
			pods = append(pods, v)
		}
		var members []*workload.Member
		for _, h := range x.Members {
			if m := e.work.Member(h); m != nil {
				members = append(members, m)
				add(m.Pod, "evicted for "+toldTo(m.Pod, by))
			}
		}
		if company := e.work.Company(members); len(company) > 0 {
			for _, p := range company {
				add(p, "evicted for "+toldTo(p, by)+", with a pod that shares its ResourceClaim")
			}
			e.vacate(pods, now)
		}
		slices.SortStableFunc(pods, func(a, b Victim) int {
			return len(e.facts.budgets.of(b.Pod)) - len(e.facts.budgets.of(a.Pod))
		})
		out = append(out, pods...)
	}
	return out
}

// toldTo is the name of a gang, NAMESPACE/NAME, for an event of a pod: a tenant who may read
// the pod's events may not be allowed to see other namespaces.
func toldTo(p *v1.Pod, gang string) string {
	if namespace, _, _ := strings.Cut(gang, "/"); namespace != p.Namespace {
		return "work of another namespace"
	}
	return gang
}

// nameOf is the name of a holder's gang; empty when it has none.
func (e *Engine) nameOf(h model.HolderID) string {
	id, _ := e.core.Of(h)
	g, _ := e.core.Gang(id)
	return g.Name
}

// A step looks for few reasons: finding one costs a plan and a look at every node.
const (
	tellPerStep = 32
	// nodesPerStep bounds how many nodes are looked at for that: about a millisecond, for
	// which scheduling cycles and questions wait.
	nodesPerStep = 4_000
)

// tellWhy finds what is new about gangs that wait.
func (e *Engine) tellWhy(t *Turn, now time.Time) {
	looked := 0
	for range tellPerStep {
		if looked += 1 + len(e.facts.nodes); looked > nodesPerStep && looked > 1+len(e.facts.nodes) {
			return
		}
		id, ok := e.desk.Due(now)
		if !ok {
			return
		}
		if !e.work.Waits(id, e.gate.releases.has) {
			if e.work.Waits(id, func(model.HolderID) bool { return false }) {
				e.desk.AskSoon(id, now) // it is on its way, and may come back
			} else {
				e.forget(id)
			}
			continue
		}
		reason := e.core.Why(id)
		if !reason.Is() {
			e.demands.drop(id)
			e.desk.AskAgain(id, now)
			continue
		}
		if reason.Code == explain.Members {
			e.demands.drop(id)
			if l, unsure := e.work.Unsure(id); unsure {
				t.Lookups = append(t.Lookups, l) // told when that is known
				continue
			}
		}
		var waiting []*v1.Pod
		for _, m := range e.work.Pods(id) {
			if m.Pod.Spec.NodeName == "" && !e.gate.releases.has(model.HolderID(m.Pod.UID)) {
				waiting = append(waiting, m.Pod)
			}
		}
		if !e.copied {
			e.observed.waitsFor(id, reason.Code, len(waiting))
		}
		e.refused(t, id, &reason, waiting)
		kind := e.showAs(id, &reason, now)
		t.Notices = append(t.Notices, e.desk.Tell(id, &reason, kind, waiting, e.shows, now)...)
		e.desk.AskAgain(id, now)
	}
}

// shows is what a pod's condition says of why it waits, in one word and in a sentence;
// empty when it says nothing.
func (e *Engine) shows(pod *v1.Pod) (kind, text string) {
	latest, err := e.pods.Pods(pod.Namespace).Get(pod.Name)
	if err != nil || latest.UID != pod.UID {
		return "", ""
	}
	for _, c := range latest.Status.Conditions {
		if c.Type == v1.PodScheduled && c.Status == v1.ConditionFalse {
			return c.Reason, c.Message
		}
	}
	return "", ""
}

// next is when to step again.
func (e *Engine) next(now time.Time, more bool) time.Duration {
	if more {
		return 0
	}
	next := now.Add(e.timing.Step)
	sooner := func(at time.Time) {
		if !at.IsZero() && at.Before(next) {
			next = at
		}
	}
	if wake := e.core.Wake(); wake > 0 {
		sooner(time.Unix(0, wake))
	}
	sooner(e.desk.Next())
	sooner(e.work.Next())
	sooner(e.queues.reportAt)
	sooner(e.nextRecheck())
	sooner(e.nextContest())
	sooner(e.nextGiveBack())
	return max(time.Millisecond, next.Sub(now))
}

// Succeeded tells which pods of a lookup have succeeded; not ok when that could not be
// found out.
func (e *Engine) Succeeded(l workload.Lookup, pods []v1.Pod, ok bool) {
	e.do("succeeded", func(now time.Time) {
		e.work.Succeeded(l, pods, ok)
		e.desk.Ask(l.Gang, now)
	})
	e.feed.kick()
}

// EvictionRefused tells that a victim may not be evicted now.
func (e *Engine) EvictionRefused(v Victim) {
	e.do("evicted", func(time.Time) {
		e.core.EvictionRefused(model.HolderID(v.Pod.UID))
		e.stay(v.Pod)
	})
	e.feed.kick()
}
