package engine

import (
	"maps"
	"slices"
	"sync"

	v1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/cache"

	"github.com/tangram-dev/tangram/api/names"
	"github.com/tangram-dev/tangram/internal/dialect"
	"github.com/tangram-dev/tangram/internal/kube/watch"
)

// kind is what an event is about.
type kind uint8

const (
	aboutNode kind = iota
	// aboutRules: a node's labels, taints or cordon changed.
	aboutRules
	aboutPod
	aboutOwner
	aboutQueue
	aboutPriorities
	aboutQuota
	aboutBudget
	// aboutLevels: HyperNodes or Topologies changed.
	aboutLevels
	// aboutClaim: a ResourceClaim; aboutMatches: what selectors match on a node;
	// aboutSelectors: selectors that were evaluated; aboutClasses: DeviceClasses.
	aboutClaim
	aboutMatches
	aboutSelectors
	aboutClasses
)

// event says what to look at. It has no content: the latest is read from the stores.
type event struct {
	kind kind
	// key is the object's name, or a pod's UID; owner is the kind of an owner.
	key   string
	owner schema.GroupVersionResource
}

// feed is the queue of events, each once, in the order in which they came.
type feed struct {
	mu     sync.Mutex
	events []event
	queued map[event]bool
	// pods are the pods in question, by UID: one that is gone is in no store.
	pods map[string]*v1.Pod
	// kicked wakes the loop that steps the engine.
	kicked chan struct{}
}

func newFeed() *feed {
	return &feed{queued: map[event]bool{}, pods: map[string]*v1.Pod{}, kicked: make(chan struct{}, 1)}
}

// push queues an event. It does not wait for the engine.
func (f *feed) push(e event, pod *v1.Pod) {
	f.mu.Lock()
	if pod != nil {
		f.pods[e.key] = pod
	}
	if !f.queued[e] {
		f.queued[e] = true
		f.events = append(f.events, e)
	}
	f.mu.Unlock()
	f.kick()
}

// kick makes the loop look again.
func (f *feed) kick() {
	select {
	case f.kicked <- struct{}{}:
	default:
	}
}

// drain takes all queued events.
func (f *feed) drain() ([]event, map[string]*v1.Pod) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.events) == 0 {
		return nil, nil
	}
	events, pods := f.events, f.pods
	f.events, f.queued, f.pods = nil, map[event]bool{}, map[string]*v1.Pod{}
	return events, pods
}

func (f *feed) podHandler() cache.ResourceEventHandler {
	push := func(p *v1.Pod) { f.push(event{kind: aboutPod, key: string(p.UID)}, p) }
	some := func(obj any) {
		if p, ok := watch.Object[*v1.Pod](obj); ok {
			push(p)
		}
	}
	update := func(before, after any) {
		o, n := before.(*v1.Pod), after.(*v1.Pod)
		if o.UID != n.UID { // deleted and created anew between two lists
			push(o)
		} else if sameToUs(o, n) {
			return // most updates are kubelet's reports
		}
		push(n)
	}
	return cache.ResourceEventHandlerFuncs{AddFunc: some, UpdateFunc: update, DeleteFunc: some}
}

// sameToUs says whether nothing changed about a pod that counts here: what it holds, and
// what decides whether it may start.
func sameToUs(o, n *v1.Pod) bool {
	if o.Spec.NodeName != n.Spec.NodeName || o.Status.Phase != n.Status.Phase || (o.DeletionTimestamp == nil) != (n.DeletionTimestamp == nil) {
		return false
	}
	if o.Annotations[names.AnnotationDevices] != n.Annotations[names.AnnotationDevices] || dialect.BoundSince(o) != dialect.BoundSince(n) || !dialect.SameCompany(o, n) {
		return false
	}
	if !sameClaims(o, n) {
		return false
	}
	return n.Spec.NodeName != "" || maps.Equal(o.Annotations, n.Annotations) && maps.Equal(o.Labels, n.Labels) &&
		len(o.Spec.SchedulingGates) == len(n.Spec.SchedulingGates) && len(o.Spec.Tolerations) == len(n.Spec.Tolerations)
}

func (f *feed) nodeHandler() cache.ResourceEventHandler {
	push := func(n *v1.Node, rules bool) {
		f.push(event{kind: aboutNode, key: n.Name}, nil)
		if rules {
			f.push(event{kind: aboutRules, key: n.Name}, nil)
		}
	}
	some := func(obj any) {
		if n, ok := watch.Object[*v1.Node](obj); ok {
			push(n, true)
		}
	}
	update := func(before, after any) {
		o, n := before.(*v1.Node), after.(*v1.Node)
		push(n, o.Spec.Unschedulable != n.Spec.Unschedulable || !maps.Equal(o.Labels, n.Labels) ||
			!slices.EqualFunc(o.Spec.Taints, n.Spec.Taints, func(a, b v1.Taint) bool { return a.MatchTaint(&b) && a.Value == b.Value }))
	}
	return cache.ResourceEventHandlerFuncs{AddFunc: some, UpdateFunc: update, DeleteFunc: some}
}

// namespaceHandler follows quotas; namespaces that never had one cost nothing.
func (f *feed) namespaceHandler() cache.ResourceEventHandler {
	has := func(ns *v1.Namespace) bool { _, ok := ns.Annotations[names.AnnotationQuota]; return ok }
	some := func(obj any) {
		if ns, ok := watch.Object[*v1.Namespace](obj); ok && has(ns) {
			f.push(event{kind: aboutQuota, key: ns.Name}, nil)
		}
	}
	update := func(before, after any) {
		if o, n := before.(*v1.Namespace), after.(*v1.Namespace); has(o) || has(n) {
			f.push(event{kind: aboutQuota, key: n.Name}, nil)
		}
	}
	return cache.ResourceEventHandlerFuncs{AddFunc: some, UpdateFunc: update, DeleteFunc: some}
}

func (f *feed) budgetHandler() cache.ResourceEventHandler {
	some := func(obj any) {
		if b, ok := watch.Object[*policyv1.PodDisruptionBudget](obj); ok {
			f.push(event{kind: aboutBudget, key: b.Namespace}, nil)
		}
	}
	return cache.ResourceEventHandlerFuncs{AddFunc: some, UpdateFunc: func(_, obj any) { some(obj) }, DeleteFunc: some}
}
