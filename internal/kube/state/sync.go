package state

import (
	"maps"
	"slices"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/tools/cache"

	"github.com/tangram-dev/tangram/api/names"
	"github.com/tangram-dev/tangram/api/v1alpha1"
	"github.com/tangram-dev/tangram/core/ledger"
	"github.com/tangram-dev/tangram/core/model"
	"github.com/tangram-dev/tangram/internal/dialect"
)

// SyncNode makes the ledger's node equal to what the stores say, and tells whether
// that changed anything. The stores are read under the lock: whoever reads later
// also writes later, so that an old reading never overwrites a newer one.
func (c *Cluster) SyncNode(name string) (changed bool) {
	c.mu.Lock()
	before := c.ledger.Version()
	node, err := c.nodes.Get(name)
	if err != nil { // the store knows no other error than "not found"
		c.ledger.RemoveNode(model.NodeID(name))
		delete(c.complained, "node/"+name)
		c.gangs.stale = true
		changed = c.ledger.Version() != before
		c.mu.Unlock()
		return changed
	}
	facts := c.facts(name)
	inv, problem := dialect.Describe(node, facts)
	if err := c.ledger.SetNode(inv); err != nil {
		problem = err
	} else {
		c.ledger.SetTelemetry(inv.ID, dialect.Telemetry(inv, facts.GPUNode))
	}
	if changed = c.ledger.Version() != before; changed {
		c.gangs.stale = true
		c.kick()
	}
	complain := c.complainOnce("node/"+name, problem)
	contested := c.newlyContested(model.NodeID(name))
	c.mu.Unlock()
	if complain {
		ref := &v1.ObjectReference{APIVersion: "v1", Kind: "Node", Name: node.Name, UID: node.UID}
		if gn := facts.GPUNode; gn != nil {
			ref = &v1.ObjectReference{APIVersion: v1alpha1.GroupVersion.String(), Kind: "GPUNode", Name: gn.Name, UID: gn.UID}
		}
		c.report(ref, "InvalidInventory", problem.Error())
	}
	c.tell(contested)
	return changed
}

// SyncPod makes the ledger's claims of a pod equal to what the store says. The
// argument only says which pod; it may be out of date.
func (c *Cluster) SyncPod(pod *v1.Pod) {
	c.mu.Lock()
	now, err := c.pods.Pods(pod.Namespace).Get(pod.Name)
	if err != nil || now.UID != pod.UID || now.Status.Phase == v1.PodSucceeded || now.Status.Phase == v1.PodFailed {
		for _, h := range dialect.Holders(pod) {
			c.ledger.Drop(h)
		}
		c.unwait(pod)
		delete(c.known, model.HolderID(pod.UID))
		c.forgetPod(pod)
		c.kick()
		delete(c.complained, "pod/"+string(pod.UID))
		delete(c.contested, string(pod.UID))
		c.mu.Unlock()
		return
	}
	c.arrive(now)
	if now.Spec.NodeName == "" {
		if now.DeletionTimestamp == nil {
			c.trackPod(now)
		} else {
			c.untrackPod(now)
		}
		c.mu.Unlock()
		return // not placed; what Reserve assumed stays
	}
	claims, problem := dialect.Claims(now)
	node := model.NodeID(now.Spec.NodeName)
	for _, h := range dialect.Holders(now) {
		if !slices.ContainsFunc(claims, func(c ledger.Claim) bool { return c.Holder == h }) {
			c.ledger.Drop(h)
		}
	}
	company := false // somebody may wait for it
	for _, claim := range claims {
		_, old, known := c.ledger.Claim(claim.Holder)
		relabelled := known && !old.Assumed && !(slices.Equal(old.Labels, claim.Labels) && slices.EqualFunc(old.Apart, claim.Apart, model.AffinityRule.Equal))
		company = company || relabelled || (!known || old.Assumed) && c.sought(&claim)
		c.ledger.Put(node, claim)
	}
	c.unwait(pod)
	c.lose(model.HolderID(pod.UID))
	c.trackPod(now)
	complain := c.complainOnce("pod/"+string(pod.UID), problem)
	contested := c.newlyContested(node)
	c.mu.Unlock()
	if complain {
		ref := &v1.ObjectReference{APIVersion: "v1", Kind: "Pod", Namespace: now.Namespace, Name: now.Name, UID: now.UID}
		c.report(ref, "InvalidRecord", problem.Error())
	}
	c.tell(contested)
	if company {
		c.changed(c, node)
	}
}

// arrive tells the planner of a pod it has not heard of, so that it learns what
// this cluster is asked for. The caller holds the lock.
func (c *Cluster) arrive(pod *v1.Pod) {
	if id := model.HolderID(pod.UID); !c.known[id] {
		c.known[id] = true
		if r, err := dialect.RequestOn(pod, c.Levels()); err == nil && r != nil {
			c.planner.Arrive(r)
		}
	}
}

// newlyContested returns the pods on a node whose records cannot be honoured and of
// whom nobody has said so: once for each pod, since who holds a device may change
// with every pod that ends. The caller holds the lock.
func (c *Cluster) newlyContested(id model.NodeID) []ledger.Contested {
	var out []ledger.Contested
	for _, contest := range c.ledger.Contested(id) {
		if uid := dialect.UIDOf(contest.Holder); !c.contested[uid] {
			c.contested[uid] = true
			out = append(out, contest)
		}
	}
	return out
}

// tell reports contested records on their pods. Finding those by UID costs a walk
// over all pods, for something that should never happen.
func (c *Cluster) tell(contested []ledger.Contested) {
	if len(contested) == 0 {
		return
	}
	pods, _ := c.pods.List(labels.Everything()) // the store knows no error
	for _, contest := range contested {
		for _, p := range pods {
			if string(p.UID) == dialect.UIDOf(contest.Holder) {
				ref := &v1.ObjectReference{APIVersion: "v1", Kind: "Pod", Namespace: p.Namespace, Name: p.Name, UID: p.UID}
				c.report(ref, dialect.ContestedRecord, dialect.Contested(contest))
			}
		}
	}
}

// complainOnce says whether a problem is news about its object. The caller
// holds the lock.
func (c *Cluster) complainOnce(key string, problem error) bool {
	if problem == nil {
		delete(c.complained, key)
		return false
	}
	if c.complained[key] == problem.Error() {
		return false
	}
	c.complained[key] = problem.Error()
	return true
}

func (c *Cluster) nodeHandler() cache.ResourceEventHandler {
	sync := func(obj any) {
		if n, ok := object[*v1.Node](obj); ok {
			c.SyncNode(n.Name)
			c.rulesChanged()
		}
	}
	update := func(before, after any) {
		o, n := before.(*v1.Node), after.(*v1.Node)
		c.SyncNode(n.Name)
		if o.Spec.Unschedulable != n.Spec.Unschedulable || !maps.Equal(o.Labels, n.Labels) ||
			!slices.EqualFunc(o.Spec.Taints, n.Spec.Taints, func(a, b v1.Taint) bool { return a.MatchTaint(&b) && a.Value == b.Value }) {
			c.rulesChanged()
		}
	}
	return cache.ResourceEventHandlerFuncs{AddFunc: sync, UpdateFunc: update, DeleteFunc: sync}
}

// rulesChanged: a node may take now whom it refused for reasons that core does not
// know.
func (c *Cluster) rulesChanged() {
	c.mu.Lock()
	c.gangs.rulesChanged = true
	c.mu.Unlock()
	c.kick()
}

func (c *Cluster) podHandler() cache.ResourceEventHandler {
	sync := func(obj any) {
		if p, ok := object[*v1.Pod](obj); ok {
			c.SyncPod(p)
		}
	}
	update := func(before, after any) {
		o, n := before.(*v1.Pod), after.(*v1.Pod)
		// Most updates are kubelet's reports; they change no claim.
		if o.UID == n.UID && o.Spec.NodeName == n.Spec.NodeName && o.Status.Phase == n.Status.Phase &&
			o.Annotations[names.AnnotationDevices] == n.Annotations[names.AnnotationDevices] && dialect.BoundSince(o) == dialect.BoundSince(n) && dialect.SameCompany(o, n) && sameWait(o, n) {
			return
		}
		if o.UID != n.UID { // deleted and created anew between two lists
			c.SyncPod(o)
		}
		c.SyncPod(n)
	}
	return cache.ResourceEventHandlerFuncs{AddFunc: sync, UpdateFunc: update, DeleteFunc: sync}
}

// sameWait says whether nothing about a pod changed that decides whether it may start,
// or whether others may in its place.
func sameWait(a, b *v1.Pod) bool {
	if (a.DeletionTimestamp == nil) != (b.DeletionTimestamp == nil) {
		return false
	}
	return b.Spec.NodeName != "" || maps.Equal(a.Annotations, b.Annotations) &&
		len(a.Spec.SchedulingGates) == len(b.Spec.SchedulingGates) && len(a.Spec.Tolerations) == len(b.Spec.Tolerations)
}

// object unwraps an informer's object, also one whose deletion was missed.
func object[T any](obj any) (T, bool) {
	if gone, ok := obj.(cache.DeletedFinalStateUnknown); ok {
		obj = gone.Obj
	}
	t, ok := obj.(T)
	return t, ok
}
