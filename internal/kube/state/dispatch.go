package state

import (
	"maps"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/labels"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tangram-dev/tangram/core/arbiter"
	"github.com/tangram-dev/tangram/core/engine"
	"github.com/tangram-dev/tangram/core/model"
)

// Turn is what a decision asks the adapter to do. Whoever carries it out must not
// hold the cluster's lock: kube-scheduler's queue asks the cluster under its own.
type Turn struct {
	// Reject are pods that must stop waiting at Permit: a member planned with them is
	// gone.
	Reject []model.HolderID
	// Wake are pods to be put into kube-scheduler's queue: released ones, and those
	// that have to be looked at again.
	Wake []*v1.Pod
	// Evict are pods that must go, those first whom a disruption budget protects: if
	// one may not go, the others stay.
	Evict []Victim
	// News are pods that wait for their queue or for other members: their owners are
	// told by an event, since nobody could help by adding a node.
	News []Wait
	// Conditions are pods whose condition must say why they wait: for capacity, which
	// autoscalers look at; or, of those who did, for something else by now.
	Conditions []Wait
	// Look are gangs that wait for members who may have succeeded: tell Succeeded which
	// did. kube-scheduler's informer knows nothing of pods that ended.
	Look []Look
	// Next is when to decide again though nothing happens.
	Next time.Duration
}

// Victim is a pod to be evicted.
type Victim struct {
	Pod *v1.Pod
	For engine.ID
}

// Look is a gang and where its pods are.
type Look struct {
	Gang      engine.ID
	Namespace string
	// Labels are on all its pods; may be empty.
	Labels labels.Set
}

// Kicked tells that something changed that may let somebody start.
func (c *Cluster) Kicked() <-chan struct{} { return c.kicked }

// kick makes the dispatcher look again.
func (c *Cluster) kick() {
	select {
	case c.kicked <- struct{}{}:
	default:
	}
}

// Dispatch decides who starts now. It is asked first when the cluster has seen all
// that existed when this process started (WaitForSync).
func (c *Cluster) Dispatch(now time.Time) Turn {
	c.mu.Lock()
	defer c.mu.Unlock()
	t := Turn{Next: dispatchEvery}
	c.expire(now)
	for _, h := range slices.Sorted(maps.Keys(c.gangs.awake)) {
		t.Wake = append(t.Wake, c.gangs.awake[h])
	}
	clear(c.gangs.awake)
	c.stopIdle()
	if c.gangs.engine != nil {
		c.decide(&t, now)
		c.tellWhy(&t, now)
	}
	t.Reject, c.gangs.rejects = c.gangs.rejects, nil
	return t
}

func (c *Cluster) decide(t *Turn, now time.Time) {
	e := c.gangs.engine
	if c.gangs.stale {
		c.gangs.stale = false
		_ = e.Tree().SetTotal(c.total()) // what nodes offer is never negative
	}
	if c.forgive(now) || c.gangs.rulesChanged {
		c.gangs.rulesChanged = false
		e.Changed()
	}
	c.tellAll()
	d := e.Decide(now.UnixNano())
	for _, s := range d.Starts {
		c.release(t, &s, now)
	}
	for _, x := range d.Evicts {
		var victims []Victim
		for _, h := range x.Members {
			if g := c.gangs.groups[c.gangs.member[h]]; g != nil && g.pods[h] != nil {
				victims = append(victims, Victim{g.pods[h].pod, x.For})
			}
		}
		slices.SortStableFunc(victims, func(a, b Victim) int { return len(c.budgetsOf(b.Pod)) - len(c.budgetsOf(a.Pod)) })
		t.Evict = append(t.Evict, victims...)
	}
}

// release lets members go to the places planned for them.
func (c *Cluster) release(t *Turn, s *engine.Start, now time.Time) {
	b := &Batch{Gang: s.Gang, reserved: map[model.HolderID]bool{}, since: now}
	g := c.gangs.groups[s.Gang]
	for _, p := range s.Plan.Placements {
		v, _ := c.ledger.View(p.Node) // it was planned on just now
		b.Members = append(b.Members, p.Holder)
		c.rank(p.Holder)
		c.standings.releases.put(p.Holder, &Release{Assignment{v.Node, p.Grant}, b})
		t.Wake = append(t.Wake, g.pods[p.Holder].pod)
	}
	c.gangs.batches[b] = true
	delete(c.gangs.told, s.Gang)
}

// total is what the nodes offer.
func (c *Cluster) total() map[arbiter.Resource]int64 {
	out := map[arbiter.Resource]int64{}
	for id := range c.ledger.Nodes() {
		v, _ := c.ledger.View(id)
		out[engine.CPU] += v.Node.Host.CPU
		out[engine.Memory] += int64(v.Node.Host.Memory.MiB())
		for _, vendor := range model.Vendors {
			for slot := range v.Healthy(vendor).Slots() {
				out[engine.GPU(vendor)] += model.FullMilli
				if name := v.Node.Devices[slot].Model.Name(); name != "" {
					out[engine.Model(name)] += model.FullMilli
				}
			}
		}
	}
	return out
}

// Spared takes note that a victim may not be evicted: it stays, and for a while it is
// not asked again.
func (c *Cluster) Spared(v Victim) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.gangs.spared[model.HolderID(v.Pod.UID)] = time.Now().Add(spareFor)
	if c.gangs.engine != nil {
		c.gangs.engine.Spared(model.HolderID(v.Pod.UID))
	}
	time.AfterFunc(spareFor, c.kick)
	c.kick()
}

// spareFor is how long a pod is left alone that could not be evicted.
const spareFor = 30 * time.Second

// evictable says whether a pod may be asked to go.
func (c *Cluster) evictable(h model.HolderID) bool {
	if until, ok := c.gangs.spared[h]; ok {
		if time.Now().Before(until) {
			return false
		}
		delete(c.gangs.spared, h)
	}
	g := c.gangs.groups[c.gangs.member[h]]
	if g == nil || g.pods[h] == nil {
		return true
	}
	// One that was asked before cannot be made to go; one that is being bound now would
	// be gone before it ran, and its gang is not whole yet.
	pod := g.pods[h].pod
	return !leaving(pod) && pod.Spec.NodeName != ""
}

// budgetsFor are a pod's disruption budgets, for core.
func (c *Cluster) budgetsFor(h model.HolderID) (out []engine.Budget) {
	g := c.gangs.groups[c.gangs.member[h]]
	if g == nil || g.pods[h] == nil {
		return nil
	}
	for _, b := range c.budgetsOf(g.pods[h].pod) {
		out = append(out, engine.Budget{Name: b.Namespace + "/" + b.Name, Allowed: int(b.Status.DisruptionsAllowed)})
	}
	return out
}

// budgetsOf are the disruption budgets that protect a pod.
func (c *Cluster) budgetsOf(pod *v1.Pod) (out []*policyv1.PodDisruptionBudget) {
	budgets, _ := c.budgets.PodDisruptionBudgets(pod.Namespace).List(labels.Everything()) // the store knows no error
	for _, b := range budgets {
		selector, err := metav1.LabelSelectorAsSelector(b.Spec.Selector)
		if err == nil && b.DeletionTimestamp == nil && selector.Matches(labels.Set(pod.Labels)) {
			out = append(out, b)
		}
	}
	return out
}
