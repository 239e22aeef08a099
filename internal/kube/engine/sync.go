package engine

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/tangram-dev/tangram/core/model"
	"github.com/tangram-dev/tangram/internal/dialect"
	"github.com/tangram-dev/tangram/internal/kube/report"
)

// drain applies all events that have come. The stores are read here, under the lock, so
// an old reading never overwrites a newer one. The caller holds the lock.
func (e *Engine) drain(now time.Time) {
	events, pods := e.feed.drain()
	if !e.started && len(events) > 0 {
		e.started = true
		e.sortByAge(events, pods)
	}
	queues := false
	for _, ev := range events {
		switch ev.kind {
		case aboutNode:
			e.syncNode(ev.key, now)
		case aboutRules:
			e.core.NodeRulesChanged(model.NodeID(ev.key))
		case aboutPod:
			e.syncPod(pods[ev.key], now)
			e.syncClaimsOf(pods[ev.key], now)
		case aboutOwner:
			e.work.OwnerChanged(ev.owner, ev.key, now)
		case aboutQueue:
			queues = e.readQueue(ev.key) || queues
		case aboutPriorities:
			e.work.PrioritiesChanged()
		case aboutQuota:
			e.syncQuota(ev.key)
		case aboutBudget:
			e.facts.budgets.sync(ev.key)
		case aboutLevels:
			e.levelsStale = true
		case aboutClaim:
			e.syncClaim(ev.key, now)
		case aboutMatches:
			e.matchesChanged(ev.key, now)
		case aboutSelectors:
			e.selectorsKnown(ev.key, now)
		case aboutClasses:
			e.classesChanged(now)
		}
	}
	if e.levelsStale {
		e.syncLevels(now)
	}
	if queues {
		e.setQueues(now)
	}
	for _, id := range e.telemetry.stale(now) {
		e.syncNode(string(id), now)
	}
	e.recheckClaims(now)
	e.work.Due(now)
}

// sortByAge orders events about pods that were all there when this process started: a
// list has no order that means something. Who comes first keeps a device that two records
// name, so the order is of what the API server and kubelet write and users do not: when
// pods were bound, then this scheduler's before others', then when they were created. A
// record may be younger than its pod, so nothing is certain after this (ledger.Standing).
// Waiting pods of one second go by name.
func (e *Engine) sortByAge(events []event, pods map[string]*v1.Pod) {
	slices.SortStableFunc(events, func(a, b event) int {
		if a.kind != aboutPod || b.kind != aboutPod {
			return cmp.Compare(a.kind, b.kind)
		}
		p, q := pods[a.key], pods[b.key]
		return cmp.Or(
			cmp.Compare(dialect.BoundSince(p), dialect.BoundSince(q)), cmp.Compare(e.foreign(p), e.foreign(q)),
			p.CreationTimestamp.Time.Compare(q.CreationTimestamp.Time), cmp.Compare(waitingName(p), waitingName(q)), cmp.Compare(p.UID, q.UID))
	})
}

// waitingName is a pod's name if it waits.
func waitingName(p *v1.Pod) string {
	if p.Spec.NodeName != "" {
		return "" // whoever creates a pod chooses its name
	}
	return p.Namespace + "/" + p.Name
}

// foreign is 1 for a pod of another scheduler.
func (e *Engine) foreign(p *v1.Pod) int {
	if e.reader.Owns(p.Spec.SchedulerName) {
		return 0
	}
	return 1
}

// syncNode makes the ledger's node equal to what the stores say.
func (e *Engine) syncNode(name string, now time.Time) {
	id := model.NodeID(name)
	d, there := e.inventory.Describe(name)
	if !there {
		delete(e.facts.nodes, id)
		delete(e.facts.claimsOnly, id)
		delete(e.agents, id)
		delete(e.telemetry.until, id)
		delete(e.paths, id)
		e.fleetChanged = e.core.RemoveNode(id) || e.fleetChanged
		e.complain("node/"+name, nil, nil, "")
		return
	}
	e.facts.nodes[id] = d.Object
	if e.facts.claimsOnly[id] = d.ClaimsOnly; !d.ClaimsOnly {
		delete(e.facts.claimsOnly, id)
	}
	if e.agents[id] = d.Agent; !d.Agent {
		delete(e.agents, id)
	}
	e.followDomains(id, d.Node.Domains)
	changed, err := e.core.SetNode(d.Node, e.telemetry.fresh(id, &d, now))
	if err != nil {
		d.Problem = err
	}
	e.fleetChanged = e.fleetChanged || changed
	if changed {
		e.remeter(id, now)
	}
	e.placeClaims(id, now) // what it publishes may be known to it already
	e.complain("node/"+name, d.About, d.Problem, "InvalidInventory")
	e.findContested(id, now)
}

// wordsFor is how old a bound pod may be to be told that words of it have no effect: a pod
// that asks for nothing is bound before it is seen here, and a scheduler that starts must not
// tell all pods again.
const wordsFor = time.Minute

// syncPod makes what core knows of a pod equal to what the store says. The argument only
// says which pod; it may be out of date.
func (e *Engine) syncPod(pod *v1.Pod, now time.Time) {
	id := model.HolderID(pod.UID)
	latest, err := e.pods.Pods(pod.Namespace).Get(pod.Name)
	if err != nil || latest.UID != pod.UID || latest.Status.Phase == v1.PodSucceeded || latest.Status.Phase == v1.PodFailed {
		e.ended(pod, now)
		e.core.Ended(dialect.Holders(pod)...)
		e.fall(unwrittenKey(pod.UID))
		e.work.Forget(pod, now)
		delete(e.arrived, id)
		delete(e.contested, string(pod.UID))
		e.gate.ranks.remove(id)
		e.gate.free.remove(id)
		e.complain("pod/"+string(pod.UID), nil, nil, "")
		e.complain("words/"+string(pod.UID), nil, nil, "")
		return
	}
	e.arrive(latest)
	if e.reader.Owns(latest.Spec.SchedulerName) && (latest.Spec.NodeName == "" || now.Sub(latest.CreationTimestamp.Time) < wordsFor) {
		e.complain("words/"+string(pod.UID), podRef(latest), dialect.Unheeded(latest), "FieldIgnored")
	}
	if latest.Spec.NodeName == "" {
		e.observed.waitsSince(latest, now)
		e.work.Set(latest, now)
		e.awaitClaims(latest, now)
		return // what was assumed for it stays
	}
	if e.claimsLag(latest) {
		return // what was assumed for it stays until its claims are seen
	}
	e.observed.forget(id)
	node := model.NodeID(latest.Spec.NodeName)
	claims, all, problem := e.claimsOf(latest, func() *model.Node { return e.core.Inventory(node) })
	if !all {
		e.await(node, string(latest.UID), latest)
	}
	before := e.core.Overbooked(node)
	e.work.Set(latest, now)
	e.takeOver(latest)
	e.core.Bound(node, dialect.Holders(latest), claims)
	e.recordBound(id, now)
	if over := e.core.Overbooked(node); problem == nil && over > before {
		problem = fmt.Errorf("node %s is overbooked: the pods bound to it ask for %d more GPUs than it has", node, over)
		e.complain("pod/"+string(pod.UID), podRef(latest), problem, "OverbookedNode")
	} else {
		e.complain("pod/"+string(pod.UID), podRef(latest), problem, "InvalidRecord")
	}
	e.findContested(node, now)
}

// arrive tells the planner of a pod it has not heard of, so that it learns what this
// cluster is asked for.
func (e *Engine) arrive(pod *v1.Pod) {
	if id := model.HolderID(pod.UID); !e.arrived[id] {
		e.arrived[id] = true
		if r, err := dialect.RequestOn(pod, e.Levels()); err == nil && r != nil {
			e.core.Arrive(r)
		}
	}
}

// podOf finds a pod by its UID. Of one that is in no gang that costs a walk over all
// pods, for something that should never happen.
func (e *Engine) podOf(uid string) *v1.Pod {
	if m := e.work.Member(model.HolderID(uid)); m != nil {
		return m.Pod
	}
	pods, _ := e.pods.List(labels.Everything()) // the store knows no error
	for _, p := range pods {
		if string(p.UID) == uid {
			return p
		}
	}
	return nil
}

// complain reports a problem with an object, once; nil takes it back.
func (e *Engine) complain(key string, about *v1.ObjectReference, problem error, reason string) {
	if e.desk.New(key, problem) {
		e.complaints = append(e.complaints, report.Complaint{About: about, Reason: reason, Message: problem.Error()})
	}
}

func podRef(p *v1.Pod) *v1.ObjectReference {
	return &v1.ObjectReference{APIVersion: "v1", Kind: "Pod", Namespace: p.Namespace, Name: p.Name, UID: p.UID}
}
