package engine

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"

	"github.com/tangram-dev/tangram/core/engine"
	"github.com/tangram-dev/tangram/core/explain"
	"github.com/tangram-dev/tangram/core/model"
	"github.com/tangram-dev/tangram/internal/dialect"
	"github.com/tangram-dev/tangram/internal/kube/dra"
	"github.com/tangram-dev/tangram/internal/kube/inventory"
	"github.com/tangram-dev/tangram/internal/kube/report"
	"github.com/tangram-dev/tangram/internal/kube/watch"
)

// Replica is a copy of an engine that no API server knows: its owner adds pods, moves the
// clock and carries out what is decided. It runs the code of the engine it was copied
// from, so it decides as that one would. Not safe for concurrent use, but for different
// replicas of one engine: they share objects only, which nothing changes.
//
// What differs: kube-scheduler's own filters are asked nothing beyond what the engine knows
// of them (cordons, taints, selectors, host ports, required anti-affinity between members,
// CPUs and memory), and scores of other plugins do not move a pod that prefers nodes.
type Replica struct {
	*Engine
	factory informers.SharedInformerFactory
	now     time.Time
	stores  struct{ pods, nodes, namespaces, budgets, slices, claims, classes cache.Store }
}

// Started is a pod that was given a place.
type Started struct {
	Pod  *v1.Pod
	Gang engine.ID
	// Node and Devices are where.
	Node model.NodeID
	Release
}

// Release is what a started pod was given.
type Release = engine.Release

// NewReplica makes one of a snapshot. Cost: every object of it is read once.
func NewReplica(s *Snapshot) (*Replica, error) {
	factory := informers.NewSharedInformerFactory(nil, 0) // never started: nobody is asked
	r := &Replica{Engine: blank(factory), factory: factory, now: s.At}
	e := r.Engine
	e.copied, e.clock, e.logger, e.report = true, func() time.Time { return r.now }, klog.Logger{}, func(report.Complaint) {}
	var err error
	if e.inventory, err = inventory.Fixed(factory.Core().V1().Nodes().Lister(), s.Objects); err != nil {
		return nil, err
	}
	for kind, list := range s.Groups {
		if e.objects[kind], err = watch.Fixed(&unstructured.Unstructured{}, list); err != nil {
			return nil, err
		}
	}
	if err := e.compose(factory); err != nil {
		return nil, err
	}
	if s.Dynamic {
		if err := r.readClaims(); err != nil {
			return nil, err
		}
	}
	r.open()
	r.configure(&s.Settings)
	if err := r.fill(s); err != nil {
		return nil, err
	}
	e.do("replica", func(now time.Time) {
		e.describeChanged(now)
		e.fleetChanged = false
		e.core.CountFleet()
		e.core.Restore(s.Learned.Learned, now.UnixNano())
		e.core.RestorePassing(s.Passing)
	})
	return r, nil
}

// open finds the stores.
func (r *Replica) open() {
	core := r.factory.Core().V1()
	r.stores.pods, r.stores.nodes = core.Pods().Informer().GetStore(), core.Nodes().Informer().GetStore()
	r.stores.namespaces = core.Namespaces().Informer().GetStore()
	r.stores.budgets = r.factory.Policy().V1().PodDisruptionBudgets().Informer().GetStore()
	if r.book != nil {
		api := r.factory.Resource().V1()
		r.stores.slices, r.stores.claims, r.stores.classes = api.ResourceSlices().Informer().GetStore(), api.ResourceClaims().Informer().GetStore(), api.DeviceClasses().Informer().GetStore()
	}
}

// readClaims makes the replica read ResourceClaims, without a goroutine that evaluates
// selectors: Sync does.
func (r *Replica) readClaims() error {
	push := func(k kind) func(string) {
		return func(key string) { r.feed.push(event{kind: k, key: key}, nil) }
	}
	book, err := dra.New(r.factory, dra.Changes{Node: push(aboutNode), Matched: push(aboutMatches), Evaluated: push(aboutSelectors), Claim: push(aboutClaim), Classes: func() {}})
	if err != nil {
		return err
	}
	r.useBook(book)
	return nil
}

func (r *Replica) configure(s *Settings) {
	options := s.Options
	options.Facts = r.facts
	r.core.Configure(func(o *engine.Options) { *o = options })
	r.SetTiming(s.Timing)
	r.telemetry.maxAge = s.TelemetryMaxAge
	r.inventory.SetLevels(s.Levels)
	for name, p := range s.Profiles {
		r.Own(name, p)
	}
	if s.Protected != nil {
		r.Protect(s.Protected)
	}
}

// fill reads all objects, in the order in which the engine would.
func (r *Replica) fill(s *Snapshot) error {
	var problem error
	add := func(store cache.Store, o any) {
		if err := store.Add(o); err != nil && problem == nil {
			problem = err
		}
	}
	push := func(k kind, key string) { r.feed.push(event{kind: k, key: key}, nil) }
	for _, n := range s.Nodes {
		add(r.stores.nodes, n)
		push(aboutNode, n.Name)
	}
	for kind, list := range s.Groups {
		if kind == dialect.Queues || kind == dialect.KAIQueues {
			for _, o := range list {
				push(aboutQueue, o.GetName())
			}
		}
	}
	for _, n := range s.Namespaces {
		add(r.stores.namespaces, n)
		r.feed.namespaceHandler().OnAdd(n, false)
	}
	for _, b := range s.Budgets {
		add(r.stores.budgets, b)
		push(aboutBudget, b.Namespace)
	}
	if r.book != nil {
		for _, o := range s.Slices {
			add(r.stores.slices, o)
		}
		for _, o := range s.Classes {
			add(r.stores.classes, o)
		}
		for _, o := range s.Claims {
			add(r.stores.claims, o)
			push(aboutClaim, o.Namespace+"/"+o.Name)
		}
	}
	if len(s.Networks) > 0 {
		push(aboutLevels, "")
	}
	r.work.RestoreRuntimes(s.Learned.Runtimes)
	r.work.Foretell(s.Estimates)
	r.work.Arrived(s.Arrivals)
	r.started = true // the order is the snapshot's
	r.sync()         // nodes first: claims name their devices
	for _, p := range s.Pods {
		add(r.stores.pods, p)
	}
	for _, p := range s.Pods {
		r.feed.push(event{kind: aboutPod, key: string(p.UID)}, p)
	}
	r.sync()
	return problem
}

// sync reads what is new, until selectors of claims have nothing more to say.
func (r *Replica) sync() {
	r.do("sync", func(time.Time) {})
	if r.book == nil {
		return
	}
	for range maxSelectorTurns {
		if !r.book.Work(context.Background()) {
			break
		}
	}
	r.do("sync", func(time.Time) {})
}

// maxSelectorTurns bounds how long selectors of claims are evaluated: 20 ms each.
const maxSelectorTurns = 1000

// Now is the replica's time.
func (r *Replica) Now() time.Time { return r.now }

// Advance moves the clock; it does not go back.
func (r *Replica) Advance(to time.Time) {
	if to.After(r.now) {
		r.now = to
	}
}

// SetPod creates a pod or changes it.
func (r *Replica) SetPod(p *v1.Pod) error {
	if err := r.stores.pods.Add(p); err != nil {
		return err
	}
	r.feed.push(event{kind: aboutPod, key: string(p.UID)}, p)
	return nil
}

// RemovePod takes a pod away: it has ended, or is gone.
func (r *Replica) RemovePod(p *v1.Pod) {
	_ = r.stores.pods.Delete(p) // it knows the key
	r.feed.push(event{kind: aboutPod, key: string(p.UID)}, p)
}

// Pod is a pod as it is now, or nil.
func (r *Replica) Pod(namespace, name string) *v1.Pod {
	p, err := r.pods.Pods(namespace).Get(name)
	if err != nil {
		return nil
	}
	return p
}

// Serves says whether the cluster has objects of a kind.
func (r *Replica) Serves(kind schema.GroupVersionResource) bool { return !r.objects[kind].Absent() }

// Object is an object that describes gangs, or nil.
func (r *Replica) Object(kind schema.GroupVersionResource, key string) *unstructured.Unstructured {
	return r.objects[kind].Get(key)
}

// ObjectsOf are all objects of a kind, in no order.
func (r *Replica) ObjectsOf(kind schema.GroupVersionResource) []*unstructured.Unstructured {
	return r.objects[kind].All()
}

// SetObject creates an object that describes gangs, or changes it. Its kind must be served.
func (r *Replica) SetObject(kind schema.GroupVersionResource, o *unstructured.Unstructured) error {
	if r.objects[kind].Absent() {
		return fmt.Errorf("the cluster does not serve %s.%s", kind.Resource, kind.Group)
	}
	if err := r.objects[kind].Put(o); err != nil {
		return err
	}
	key := o.GetName()
	if o.GetNamespace() != "" {
		key = o.GetNamespace() + "/" + key
	}
	switch kind {
	case dialect.Queues, dialect.KAIQueues:
		r.feed.push(event{kind: aboutQueue, key: key}, nil)
	case dialect.Priorities:
		r.feed.push(event{kind: aboutPriorities}, nil)
	default:
		r.feed.push(event{kind: aboutOwner, key: key, owner: kind}, nil)
	}
	return nil
}

// HasNamespace says whether a Namespace is known.
func (r *Replica) HasNamespace(name string) bool {
	_, err := r.namespaces.Get(name)
	return err == nil
}

// Moves are what one step decided, and what was carried out of it.
type Moves struct {
	Started []Started
	// Evict are pods that are told to go: the owner says when they are gone (Evict).
	Evict []Victim
	// More: the step ended before all waiting gangs were looked at.
	More bool
}

// Step decides once, and binds what starts.
func (r *Replica) Step() (Moves, error) {
	r.sync()
	turn := r.Engine.Step()
	m := Moves{Evict: turn.Evict, More: turn.Next == 0}
	var promises []promise
	r.do("step", func(time.Time) {
		r.core.EachRelease(func(x engine.Release) {
			if w := r.work.Member(x.Holder); w != nil {
				promises = append(promises, promise{x, w.Request, r.core.QueueOf(x.Holder)})
				r.core.Seen(x.Holder, x.Ticket)
				r.core.Reserved(x.Holder, x.Ticket)
			}
		})
	})
	for i := range promises {
		x := &promises[i]
		pod := r.work.Member(x.Holder).Pod
		bound, err := x.bind(pod, r.now)
		if err != nil {
			return m, err
		}
		m.Started = append(m.Started, Started{Pod: bound, Gang: x.Gang, Node: x.Node.ID, Release: x.Release})
		if err := r.SetPod(bound); err != nil {
			return m, err
		}
	}
	slices.SortStableFunc(m.Started, func(a, b Started) int { return cmp.Compare(a.Gang, b.Gang) })
	r.sync()
	return m, nil
}

// Evict begins a pod's grace period, and returns when it ends.
func (r *Replica) Evict(p *v1.Pod) (time.Time, error) {
	latest := r.Pod(p.Namespace, p.Name)
	if latest == nil || latest.UID != p.UID {
		return r.now, nil
	}
	grace := 30 * time.Second
	if s := latest.Spec.TerminationGracePeriodSeconds; s != nil {
		grace = time.Duration(*s) * time.Second
	}
	out := latest.DeepCopy()
	at := metav1.NewTime(r.now.Add(grace))
	out.DeletionTimestamp = &at
	return at.Time, r.SetPod(out)
}

// Wake is when time alone changes what may start; zero when it does not.
func (r *Replica) Wake() (at time.Time) {
	r.do("wake", func(time.Time) {
		if wake := r.core.Wake(); wake > 0 {
			at = time.Unix(0, wake)
		}
		if next := r.work.Next(); !next.IsZero() && (at.IsZero() || next.Before(at)) {
			at = next
		}
	})
	return at
}

// Endings are the gangs that run, with their expected ends.
func (r *Replica) Endings() (out []engine.Ending) {
	r.do("ends", func(now time.Time) { out = r.core.Endings(now.UnixNano()) })
	return out
}

// GangPods are the pods of a gang, in the order in which they start.
func (r *Replica) GangPods(id engine.ID) (out []*v1.Pod) {
	for _, m := range r.work.Pods(id) {
		out = append(out, m.Pod)
	}
	return out
}

// GangOf is the gang of a pod; empty when the engine has nothing to decide about it.
func (r *Replica) GangOf(p *v1.Pod) engine.ID { return r.work.GangOf(model.HolderID(p.UID)) }

// Gang is what core knows of a gang.
func (r *Replica) Gang(id engine.ID) (g engine.Gang, ok bool) {
	r.do("gang", func(now time.Time) {
		r.describeChanged(now)
		g, ok = r.core.Gang(id)
	})
	return g, ok
}

// Placed is how many members of a gang have a place.
func (r *Replica) Placed(id engine.ID) (n int) {
	r.do("gang", func(time.Time) { n = r.core.Placed(id) })
	return n
}

// Reason is why a gang waits.
func (r *Replica) Reason(id engine.ID) (out explain.Reason) {
	r.do("why", func(now time.Time) {
		r.describeChanged(now)
		out = r.core.Why(id)
	})
	return out
}

// Waiting are the gangs of which no member has a place, in the order in which they came.
func (r *Replica) Waiting() (out []engine.ID) {
	r.do("waiting", func(now time.Time) {
		r.describeChanged(now)
		out = r.core.Unplaced()
	})
	return out
}

// Leaving are the bound pods that were told to go, sorted by when they will be gone.
func (r *Replica) Leaving() (out []*v1.Pod) {
	for _, o := range r.stores.pods.List() {
		if p := o.(*v1.Pod); p.DeletionTimestamp != nil {
			out = append(out, p)
		}
	}
	slices.SortFunc(out, func(a, b *v1.Pod) int {
		return cmp.Or(a.DeletionTimestamp.Time.Compare(b.DeletionTimestamp.Time), cmp.Compare(a.UID, b.UID))
	})
	return out
}
