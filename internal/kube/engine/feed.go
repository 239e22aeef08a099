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
	"github.com/tangram-dev/tangram/core/engine"
	"github.com/tangram-dev/tangram/internal/dialect"
	"github.com/tangram-dev/tangram/internal/kube/claims"
	"github.com/tangram-dev/tangram/internal/kube/dra"
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

// Event says what to look at. It has no content: the latest is read from the stores.
type Event struct {
	about
	pod *v1.Pod // the pod in question: one that is gone is in no store
}

// about is what makes two events the same.
type about struct {
	kind kind
	// key is the object's name, or a pod's UID; owner is the kind of an owner.
	key   string
	owner schema.GroupVersionResource
}

// PodEvent is about a pod.
func PodEvent(p *v1.Pod) Event { return Event{about{kind: aboutPod, key: string(p.UID)}, p} }

// NodeEvent is about a Node, or what describes its devices.
func NodeEvent(name string) Event { return Event{about: about{kind: aboutNode, key: name}} }

// LevelsEvent is about objects that define levels of domains.
func LevelsEvent() Event { return Event{about: about{kind: aboutLevels}} }

// BudgetEvent is about the PodDisruptionBudgets of a namespace.
func BudgetEvent(namespace string) Event {
	return Event{about: about{kind: aboutBudget, key: namespace}}
}

// QuotaEvent is about a Namespace that has a quota, or had one.
func QuotaEvent(namespace string) Event { return Event{about: about{kind: aboutQuota, key: namespace}} }

// ClaimEvent is about a ResourceClaim, by namespace/name.
func ClaimEvent(key string) Event { return Event{about: about{kind: aboutClaim, key: key}} }

// ObjectEvent is about an object that describes gangs, queues or priorities, by name or
// namespace/name.
func ObjectEvent(kind schema.GroupVersionResource, key string) Event {
	switch kind {
	case dialect.Queues, dialect.KAIQueues:
		return Event{about: about{kind: aboutQueue, key: key}}
	case dialect.Priorities:
		return Event{about: about{kind: aboutPriorities}}
	}
	return Event{about: about{kind: aboutOwner, key: key, owner: kind}}
}

// feed is the queue of events, each once, in the order in which they came, and of what
// scheduling cycles tell core without waiting for an answer.
type feed struct {
	mu     sync.Mutex
	events []Event
	told   []engine.Event
	queued map[about]int // where in events
	kicked chan struct{} // kicked wakes the loop that steps the engine
}

func newFeed() *feed { return &feed{queued: map[about]int{}, kicked: make(chan struct{}, 1)} }

// push queues an event. It does not wait for the engine.
func (f *feed) push(e Event) {
	f.mu.Lock()
	if at, queued := f.queued[e.about]; queued {
		f.events[at].pod = e.pod
	} else {
		f.queued[e.about] = len(f.events)
		f.events = append(f.events, e)
	}
	f.mu.Unlock()
	f.kick()
}

// tell queues what a cycle tells core. It wakes nothing: that alone lets no gang start.
func (f *feed) tell(events ...engine.Event) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.told = append(f.told, events...)
}

// kick makes the loop look again.
func (f *feed) kick() {
	select {
	case f.kicked <- struct{}{}:
	default:
	}
}

// drain takes all queued events, and what cycles told.
func (f *feed) drain() ([]Event, []engine.Event) {
	f.mu.Lock()
	defer f.mu.Unlock()
	events, told := f.events, f.told
	f.told = nil
	if len(events) > 0 {
		f.events, f.queued = nil, map[about]int{}
	}
	return events, told
}

// claimChanges are the feed's handlers of what ResourceSlices, ResourceClaims and
// DeviceClasses say.
func (f *feed) claimChanges() dra.Changes {
	push := func(k kind) func(string) {
		return func(key string) { f.push(Event{about: about{kind: k, key: key}}) }
	}
	return dra.Changes{
		Node: push(aboutNode), Matched: push(aboutMatches), Evaluated: push(aboutSelectors), Claim: push(aboutClaim),
		Classes: func() { push(aboutClasses)("") },
	}
}

func (f *feed) podHandler() cache.ResourceEventHandler {
	push := func(p *v1.Pod) { f.push(PodEvent(p)) }
	return watch.Handler(push, func(o, n *v1.Pod) {
		if o.UID != n.UID { // deleted and created anew between two lists
			push(o)
		} else if sameToUs(o, n) {
			return // most updates are kubelet's reports
		}
		push(n)
	})
}

// sameToUs says whether nothing changed about a pod that counts here: what it holds, and
// what decides whether it may start.
func sameToUs(o, n *v1.Pod) bool {
	if o.Spec.NodeName != n.Spec.NodeName || o.Status.Phase != n.Status.Phase || (o.DeletionTimestamp == nil) != (n.DeletionTimestamp == nil) ||
		o.Annotations[names.AnnotationDevices] != n.Annotations[names.AnnotationDevices] || dialect.BoundSince(o) != dialect.BoundSince(n) ||
		!dialect.SameCompany(o, n) || !claims.Same(o, n) {
		return false
	}
	return n.Spec.NodeName != "" || maps.Equal(o.Annotations, n.Annotations) && maps.Equal(o.Labels, n.Labels) &&
		len(o.Spec.SchedulingGates) == len(n.Spec.SchedulingGates) && len(o.Spec.Tolerations) == len(n.Spec.Tolerations)
}

func (f *feed) nodeHandler() cache.ResourceEventHandler {
	push := func(n *v1.Node, rules bool) {
		f.push(NodeEvent(n.Name))
		if rules {
			f.push(Event{about: about{kind: aboutRules, key: n.Name}})
		}
	}
	return watch.Handler(func(n *v1.Node) { push(n, true) }, func(o, n *v1.Node) {
		push(n, o.Spec.Unschedulable != n.Spec.Unschedulable || !maps.Equal(o.Labels, n.Labels) ||
			!slices.EqualFunc(o.Spec.Taints, n.Spec.Taints, func(a, b v1.Taint) bool { return a.MatchTaint(&b) && a.Value == b.Value }))
	})
}

// namespaceHandler follows quotas; namespaces that never had one cost nothing.
func (f *feed) namespaceHandler() cache.ResourceEventHandler {
	has := func(ns *v1.Namespace) bool { _, ok := ns.Annotations[names.AnnotationQuota]; return ok }
	look := func(o, n *v1.Namespace) {
		if has(o) || has(n) {
			f.push(QuotaEvent(n.Name))
		}
	}
	return watch.Handler(func(ns *v1.Namespace) { look(ns, ns) }, look)
}

func (f *feed) budgetHandler() cache.ResourceEventHandler {
	return watch.Handler(func(b *policyv1.PodDisruptionBudget) { f.push(BudgetEvent(b.Namespace)) }, nil)
}
