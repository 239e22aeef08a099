package engine

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/tangram-dev/tangram/core/engine"
	"github.com/tangram-dev/tangram/core/model"
	"github.com/tangram-dev/tangram/internal/dialect"
	"github.com/tangram-dev/tangram/internal/kube/report"
	"github.com/tangram-dev/tangram/internal/kube/workload"
)

// drain applies all events that have come. The stores are read here, under the lock, so
// an old reading never overwrites a newer one.
func (d *driver) drain(now time.Time) {
	events, told := d.feed.drain()
	if len(told) > 0 {
		d.tell(told...)
	}
	if !d.started && len(events) > 0 {
		d.started = true
		sortByAge(events, d.reader)
	}
	queues := false
	for i := range events {
		switch ev := &events[i]; ev.kind {
		case aboutNode:
			d.readNode(ev.key, now)
		case aboutRules:
			d.tell(engine.NodeRulesChanged{Node: model.NodeID(ev.key)})
		case aboutPod:
			d.readPod(ev.pod, now)
			for _, key := range d.claims.PodRead(ev.pod, latest(d.pods, ev.pod)) {
				d.updateClaim(key, now)
				d.readPods(d.claims.Users(key, ev.pod), now)
			}
		case aboutOwner:
			d.work.OwnerChanged(ev.owner, ev.key, now)
		case aboutQueue:
			queues = d.queues.read(ev.key, &d.complaints) || queues
		case aboutPriorities:
			d.work.PrioritiesChanged()
		case aboutQuota:
			d.readQuota(ev.key)
		case aboutBudget:
			d.facts.budgets.read(ev.key)
		case aboutLevels:
			d.levelsStale = true
		default:
			d.readClaim(ev, now)
		}
	}
	if d.levelsStale {
		d.readLevels(now)
	}
	if queues {
		d.setQueues(now)
	}
	for _, id := range d.freshness.Stale(now) {
		d.readNode(string(id), now)
	}
	d.readPods(d.claims.Due(now), now)
	d.work.Due(now)
}

// sortByAge orders events about pods that were all there when this process started: a list
// has no order that means something. The first pod keeps a device that two records name, so
// the order is by what the API server and kubelet write and users do not. A record may be
// younger than its pod, so nothing is certain after this (ledger.Standing).
func sortByAge(events []Event, reader *workload.Reader) {
	slices.SortStableFunc(events, func(a, b Event) int {
		if a.kind != aboutPod || b.kind != aboutPod {
			return cmp.Compare(a.kind, b.kind)
		}
		return compareAge(a.pod, b.pod, reader)
	})
}

// compareAge orders pods: those that are bound before those that wait, by when they were
// bound, then this scheduler's before others', then by when they were created. Those that
// wait and were created in one second go by name; a user chooses the name of a pod, so it
// counts for no pod that is bound.
func compareAge(p, q *v1.Pod, reader *workload.Reader) int {
	read := func(p *v1.Pod) (waits, foreign int, waitingName string) {
		if p.Spec.NodeName == "" {
			waits, waitingName = 1, p.Namespace+"/"+p.Name
		}
		if !reader.Owns(p.Spec.SchedulerName) {
			foreign = 1
		}
		return waits, foreign, waitingName
	}
	pWaits, pForeign, pName := read(p)
	qWaits, qForeign, qName := read(q)
	return cmp.Or(
		cmp.Compare(pWaits, qWaits), cmp.Compare(dialect.BoundSince(p), dialect.BoundSince(q)), cmp.Compare(pForeign, qForeign),
		p.CreationTimestamp.Time.Compare(q.CreationTimestamp.Time), cmp.Compare(pName, qName), cmp.Compare(p.UID, q.UID))
}

// readNode makes the ledger's node equal to what the stores say.
func (d *driver) readNode(name string, now time.Time) {
	id := model.NodeID(name)
	n, there := d.inventory.Describe(name)
	if !there {
		d.facts.removeNode(id)
		d.contests.SetAgent(id, false)
		d.freshness.Forget(id)
		delete(d.domains, id)
		d.fleetChanged = d.tell(engine.NodeGone{Node: id}).Changed || d.fleetChanged
		d.complaints.Clear("node/" + name)
		return
	}
	d.facts.setNode(id, &n)
	d.contests.SetAgent(id, n.Agent)
	if !slices.Equal(d.domains[id], n.Node.Domains) {
		d.domains[id] = n.Node.Domains
		d.levelsStale = d.levelsStale || d.inventory.Derived() // their order depends on how domains are nested
	}
	set := d.tell(engine.NodeSet{Node: n.Node, Telemetry: d.freshness.Telemetry(id, &n, now)})
	n.Problem = cmp.Or(set.Err, n.Problem)
	if set.Changed {
		d.fleetChanged = true
		d.observer.NodeChanged(id, now)
	}
	pods, claims := d.claims.NodeChanged(id) // what it publishes may be there now
	d.readPods(pods, now)
	for _, key := range claims {
		d.updateClaim(key, now)
	}
	d.complaints.Set("node/"+name, n.About, n.Problem, "InvalidInventory")
	d.reportContests(d.contests.Look(id, now))
}

// reportContests counts and reports records that contradict each other.
func (d *driver) reportContests(found []report.Complaint) {
	d.observer.Contested(len(found))
	d.complaints.Add(found...)
}

// wordsFor is how old a bound pod may be to be told that words of it have no effect: a pod
// that asks for nothing is bound before it is seen here, and a scheduler that starts must not
// tell all pods again.
const wordsFor = time.Minute

// readPods reads pods again.
func (d *driver) readPods(pods []*v1.Pod, now time.Time) {
	for _, p := range pods {
		d.readPod(p, now)
	}
}

// readPod makes what core knows of a pod equal to what the store says. The argument only
// says which pod; it may be out of date.
func (d *driver) readPod(pod *v1.Pod, now time.Time) {
	id := model.HolderID(pod.UID)
	latest := latest(d.pods, pod)
	if latest == nil {
		d.observer.Ended(pod, now)
		d.tell(engine.Ended{Holders: slices.Concat(dialect.Holders(pod), d.claims.Gone(pod))})
		d.work.Forget(pod, now)
		delete(d.arrived, id)
		d.contests.Forget(string(pod.UID))
		d.reader.Forget(pod.UID)
		d.gate.forget(id)
		d.complaints.Clear("pod/" + string(pod.UID))
		d.complaints.Clear("words/" + string(pod.UID))
		return
	}
	if !d.arrived[id] {
		d.arrived[id] = true
		d.learnOf(latest)
	}
	if d.reader.Owns(latest.Spec.SchedulerName) && (latest.Spec.NodeName == "" || now.Sub(latest.CreationTimestamp.Time) < wordsFor) {
		d.complaints.Set("words/"+string(pod.UID), report.PodRef(latest), dialect.Unheeded(latest), "FieldIgnored")
	}
	if latest.Spec.NodeName == "" {
		d.observer.Waits(latest, now)
		d.work.Set(latest, now)
		if d.claims.Await(latest, d.work.Member(id), now) {
			d.outbox.activate = append(d.outbox.activate, latest)
		}
		return // what was assumed for it stays
	}
	if d.claims.Lag(latest) {
		return // what was assumed for it stays until its claims are seen
	}
	node := model.NodeID(latest.Spec.NodeName)
	held, all, problem := d.claims.HeldBy(latest, func() *model.Node { return d.core.Nodes.Inventory(node) })
	if !all {
		d.claims.Unplaced(node, string(latest.UID), latest)
	}
	before := d.core.Nodes.Overbooked(node)
	d.work.Set(latest, now)
	d.tell(engine.Ended{Holders: d.claims.TakenOver(latest)}, engine.Bound{Node: node, Holders: dialect.Holders(latest), Claims: held})
	d.reader.Forget(pod.UID)
	d.observer.Bound(id, now)
	reason := "InvalidRecord"
	if over := d.core.Nodes.Overbooked(node); problem == nil && over > before {
		problem = fmt.Errorf("node %s is overbooked: the pods bound to it ask for %d more GPUs than it has", node, over)
		reason = "OverbookedNode"
	}
	d.complaints.Set("pod/"+string(pod.UID), report.PodRef(latest), problem, reason)
	d.reportContests(d.contests.Look(node, now))
}

// learnOf tells the planner what a pod asks for.
func (d *driver) learnOf(pod *v1.Pod) {
	if x := d.reader.Read(pod); x.RequestErr == nil && x.Request != nil {
		d.tell(engine.Arrived{Request: x.Request})
	}
}

// podOf finds a pod by its UID. Of one that is in no gang that costs a walk over all
// pods, for something that should never happen.
func (d *driver) podOf(uid string) *v1.Pod {
	if m := d.work.Member(model.HolderID(uid)); m != nil {
		return m.Pod
	}
	pods, _ := d.pods.List(labels.Everything()) // the store knows no error
	for _, p := range pods {
		if string(p.UID) == uid {
			return p
		}
	}
	return nil
}
