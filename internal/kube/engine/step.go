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
	"github.com/tangram-dev/tangram/core/model"
	"github.com/tangram-dev/tangram/internal/kube/claims"
	"github.com/tangram-dev/tangram/internal/kube/metrics"
	"github.com/tangram-dev/tangram/internal/kube/report"
	"github.com/tangram-dev/tangram/internal/kube/workload"
)

// Turn is what a step asks the adapter to do. It must be carried out without the
// engine's lock: kube-scheduler's queue asks the gate under its own.
type Turn struct {
	Stop []model.HolderID // pods that must stop waiting at Permit: a member planned with them failed
	// Activate are pods to be put into kube-scheduler's queue: released ones, and those to be
	// looked at again. Requeue are released pods which that queue seems to have lost.
	Activate, Requeue []*v1.Pod
	Evict             []Victim          // victims, those with a disruption budget first: if one may not go, all stay
	Heal              []Victim          // pods bound to devices which older pods hold: budgets do not protect them
	GiveBack          []claims.GiveBack // allocated claims that failed starts left behind: tell GaveBack
	Notices           []report.Notice   // what waiting pods are told
	Refusals          []Refusal         // gangs that do not start for a new reason, after WatchRefusals
	Demand            *demand.Document  // what autoscalers are asked for; nil when that is what it was
	Lookups           []workload.Lookup // gangs whose missing members may have succeeded: tell Succeeded
	Next              time.Duration     // when to step again though nothing happens
}

// Victim is a pod to be evicted, and why.
type Victim struct {
	Pod *v1.Pod
	Why string
	// Gang and Queue are the pod's, For is the gang that it has to make room for.
	Gang, Queue, For string
	// Guarded: a disruption budget may refuse it. Then evicting the others would not help.
	Guarded bool
	// Cause is metrics.CausePriority or CauseReclaim, GPUHours what the pod has used.
	Cause    string
	GPUHours float64
}

// Step decides what starts now. It is called first when everything has been seen that
// existed when this process started (WaitForSync), and by the leader only.
func (e *Engine) Step() (t Turn) {
	e.do("step", func(d *driver, now time.Time) {
		first := !e.gate.leads.Swap(true)
		if first {
			d.observer.Lead(now)
		}
		d.observer.StepBegins()
		d.describeChanged(now)
		d.countFleet()
		plan := d.core.Step(now.UnixNano())
		d.effects.add(&plan.Effects)
		d.observer.Stepped(&plan, now)
		for _, s := range plan.Starts {
			d.demands.Drop(s.Gang)
		}
		t.Evict = d.victims(plan.Evicts, now)
		t.Heal = d.heal(now)
		t.GiveBack = d.claims.GiveBack(now, first)
		d.queues.report(now, &d.complaints)
		if !plan.More && e.report != nil {
			d.tellWhy(&t, now)
		}
		t.Demand = d.demands.Document(now)
		t.Next = d.next(now, plan.More)
		d.mirror()
		out := take(&d.outbox)
		t.Stop, t.Activate, t.Requeue = out.stop, out.activate, out.requeue
	})
	return t
}

// describeChanged tells core what is new about gangs. A pod may have gone from one gang
// to another, so gangs are tried again after the others.
func (d *driver) describeChanged(now time.Time) {
	var gangs []engine.Gang
	for _, id := range d.work.Changed() {
		if gang, there := d.work.Describe(id, now, d.gate.releases.has); there {
			gangs = append(gangs, gang)
			continue
		}
		d.observer.Withdrawn(id, now)
		d.tell(engine.Withdrawn{Gang: id})
		d.forget(id)
	}
	for before := len(gangs) + 1; 0 < len(gangs) && len(gangs) < before; {
		before = len(gangs)
		gangs = slices.DeleteFunc(gangs, func(g engine.Gang) bool { return d.submit(g, now) == nil })
	}
	for _, g := range gangs { // they have exchanged pods
		d.tell(engine.Withdrawn{Gang: g.ID})
	}
	for _, g := range gangs {
		if err := d.submit(g, now); err != nil {
			d.logger.Error(err, "Gang ignored", "gang", g.Name)
		}
	}
}

// submit tells core what a gang is now.
func (d *driver) submit(g engine.Gang, now time.Time) error {
	if err := d.tell(engine.Submitted{Gang: g}).Err; err != nil {
		return err
	}
	for _, m := range d.work.Pods(g.ID) {
		h := model.HolderID(m.Pod.UID)
		d.gate.free.remove(h) // it may have been kube-scheduler's before
		if m.Leaving() {
			d.tell(engine.Leaving{Holder: h, Until: m.Pod.DeletionTimestamp.Add(d.timing.Terminating).UnixNano()})
		}
	}
	d.notices.Touched(g.ID, now)
	d.observer.Submitted(&g, now)
	return nil
}

// victims are the pods of evictions.
func (d *driver) victims(evicts []engine.Evict, now time.Time) (out []Victim) {
	for _, x := range evicts {
		by, queue := string(x.For), ""
		if g, ok := d.core.Gangs.Gang(x.For); ok {
			by, queue = g.Name, cmp.Or(g.Queue, arbiter.Default)
		}
		var pods []Victim
		add := func(p *v1.Pod, why string) {
			h := model.HolderID(p.UID)
			v := Victim{Pod: p, Why: why, Guarded: len(d.facts.budgets.protecting(p)) > 0, Gang: d.nameOf(h), Queue: d.core.Gangs.QueueOf(h), For: by, Cause: metrics.CauseReclaim, GPUHours: d.observer.GPUHours(h, now)}
			if v.Queue == queue {
				v.Cause = metrics.CausePriority
			}
			pods = append(pods, v)
		}
		var members []*workload.Member
		for _, h := range x.Members {
			if m := d.work.Member(h); m != nil {
				members = append(members, m)
				add(m.Pod, "evicted for "+toldTo(m.Pod, by))
			}
		}
		if company := d.work.Company(members); len(company) > 0 {
			for _, p := range company {
				add(p, "evicted for "+toldTo(p, by)+", with a pod that shares its ResourceClaim")
			}
			for _, v := range pods {
				d.claims.Vacate(v.Pod, now)
			}
		}
		slices.SortStableFunc(pods, func(a, b Victim) int {
			return len(d.facts.budgets.protecting(b.Pod)) - len(d.facts.budgets.protecting(a.Pod))
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

// heal are pods of this scheduler that are on devices which this process gave to others.
func (d *driver) heal(now time.Time) (out []Victim) {
	d.reportContests(d.contests.Due(now))
	may := func(p *v1.Pod) bool { return d.reader.Owns(p.Spec.SchedulerName) && !d.reader.Protected(p) }
	for _, x := range d.contests.Evictions(now, may) {
		h := model.HolderID(x.Pod.UID)
		out = append(out, Victim{Pod: x.Pod, Why: x.Why, Gang: d.nameOf(h), Queue: d.core.Gangs.QueueOf(h)})
	}
	return out
}

// next is when to step again.
func (d *driver) next(now time.Time, more bool) time.Duration {
	if more {
		return 0
	}
	next := now.Add(d.timing.Step)
	if wake := d.core.Figures.Wake(); wake > 0 {
		next = sooner(next, time.Unix(0, wake))
	}
	for _, at := range []time.Time{d.notices.Next(), d.work.Next(), d.queues.reportAt, d.claims.Next(), d.contests.Next()} {
		next = sooner(next, at)
	}
	return max(time.Millisecond, next.Sub(now))
}

// Succeeded tells which pods of a lookup have succeeded; not ok when that could not be
// found out.
func (e *Engine) Succeeded(l workload.Lookup, pods []v1.Pod, ok bool) {
	e.do("succeeded", func(d *driver, now time.Time) {
		d.work.Succeeded(l, pods, ok)
		d.notices.Ask(l.Gang, now)
	})
	e.feed.kick()
}

// EvictionRefused tells that a victim may not be evicted now.
func (e *Engine) EvictionRefused(v Victim) {
	e.do("evicted", func(d *driver, _ time.Time) {
		d.tell(engine.EvictionRefused{Holder: model.HolderID(v.Pod.UID)})
		d.lookAtClaims(d.claims.Stays(v.Pod))
	})
	e.feed.kick()
}

// HealFailed tells that a pod that Heal named could not be deleted: it is named again.
func (e *Engine) HealFailed(v Victim) {
	e.do("heal", func(d *driver, _ time.Time) { d.contests.EvictionFailed(string(v.Pod.UID)) })
}
