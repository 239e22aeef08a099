package engine

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/tangram-dev/tangram/api/demand"
	"github.com/tangram-dev/tangram/core/arbiter"
	"github.com/tangram-dev/tangram/core/engine"
	"github.com/tangram-dev/tangram/core/explain"
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

// describeChanged tells core what is new about gangs. Pods may have changed their gang.
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

// toldTo is a gang's name for an event of a pod, if both are of one namespace.
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

// Succeeded tells which pods of a lookup have succeeded; not ok: that is not known.
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

// A step looks for few reasons: finding one costs a plan and a look at every node.
const (
	tellPerStep = 32
	// nodesPerStep bounds the nodes that are looked at: about a millisecond under the lock.
	nodesPerStep = 4_000
)

// tellWhy finds what is new about gangs that wait.
func (d *driver) tellWhy(t *Turn, now time.Time) {
	looked := 0
	for range tellPerStep {
		if looked += 1 + len(d.facts.nodes); looked > nodesPerStep && looked > 1+len(d.facts.nodes) {
			return
		}
		id, ok := d.notices.Due(now)
		if !ok {
			return
		}
		if !d.work.Waits(id, d.gate.releases.has) {
			if d.work.Waits(id, func(model.HolderID) bool { return false }) {
				d.notices.AskSoon(id, now) // it is on its way, and may come back
			} else {
				d.forget(id)
			}
			continue
		}
		reason := d.core.Reasons.Why(id)
		if !reason.Is() {
			d.demands.Drop(id)
			d.notices.AskAgain(id, now)
			continue
		}
		if reason.Code == explain.Members {
			d.demands.Drop(id)
			if l, unsure := d.work.Unsure(id); unsure {
				t.Lookups = append(t.Lookups, l) // told when that is known
				continue
			}
		}
		var waiting []*v1.Pod
		for _, m := range d.work.Pods(id) {
			if m.Pod.Spec.NodeName == "" && !d.gate.releases.has(model.HolderID(m.Pod.UID)) {
				waiting = append(waiting, m.Pod)
			}
		}
		d.observer.WaitsFor(id, reason.Code, len(waiting))
		d.refused(t, id, &reason, waiting)
		kind := d.demands.Kind(id, &reason, now)
		t.Notices = append(t.Notices, d.notices.Tell(id, &reason, kind, waiting, d.shows, now)...)
		d.notices.AskAgain(id, now)
	}
}

// shows is what a pod's condition says of why it waits: reason and message; empty: nothing.
func (d *driver) shows(pod *v1.Pod) (kind, text string) {
	latest, err := d.pods.Pods(pod.Namespace).Get(pod.Name)
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

// Refusal is that a gang does not start now, for another reason than before.
type Refusal struct {
	// Gang is its name, Queue where it waits, Pod its first waiting member, of Members.
	Gang, Queue string
	Pod         *v1.Pod
	Members     int
	Reason      explain.Reason
}

// refusals has the causes for which each gang was last refused, for the audit log; nil where
// there is none. Numbers in reasons change with every pod, so they do not count.
type refusals map[engine.ID]string

// WatchRefusals makes steps return refusals.
func (e *Engine) WatchRefusals() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.driver.refusals = refusals{}
}

// changed says whether the causes are others than the last time.
func (r refusals) changed(id engine.ID, why *explain.Reason) bool {
	causes := []string{fmt.Sprint(why.Code, why.Never, why.Queue, why.Namespace, why.Resource)}
	for _, l := range why.Nodes.Lines() {
		causes = append(causes, l.Code.String())
	}
	key := strings.Join(causes, " ")
	if r[id] == key {
		return false
	}
	r[id] = key
	return true
}

// refused adds a gang's refusal to a turn, if it is new.
func (d *driver) refused(t *Turn, id engine.ID, why *explain.Reason, waiting []*v1.Pod) {
	if d.refusals == nil || len(waiting) == 0 || !d.refusals.changed(id, why) {
		return
	}
	out := Refusal{Pod: waiting[0], Members: len(waiting), Reason: *why}
	if g, there := d.core.Gangs.Gang(id); there {
		out.Gang, out.Queue = g.Name, cmp.Or(g.Queue, arbiter.Default)
	}
	t.Refusals = append(t.Refusals, out)
}

// forget forgets what a gang was told: it is gone, or has its place.
func (d *driver) forget(id engine.ID) {
	d.notices.Forget(id)
	delete(d.refusals, id)
	d.observer.Settled(id)
	d.demands.Drop(id)
}
