package replica

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/tools/cache"

	"github.com/tangram-dev/tangram/api/names"
	coreanswer "github.com/tangram-dev/tangram/core/answer"
	"github.com/tangram-dev/tangram/core/engine"
	"github.com/tangram-dev/tangram/core/model"
	"github.com/tangram-dev/tangram/internal/kube/answer"
	kubeengine "github.com/tangram-dev/tangram/internal/kube/engine"
)

// Replica is an engine that no API server feeds: its owner adds pods, moves the clock and
// carries out what is decided. It runs the scheduler's code on the state of a snapshot, so it
// decides as the engine would of which the snapshot was taken. Not safe for concurrent use,
// but for different replicas of one snapshot: they share objects only, which nothing changes.
//
// What differs: kube-scheduler's own filters are asked nothing beyond what the engine knows
// of them (cordons, taints, selectors, host ports, required anti-affinity between members,
// CPUs and memory), and scores of other plugins do not move a pod that prefers nodes.
type Replica struct {
	engine *kubeengine.Engine
	// answers are never older than the replica's clock.
	*answer.Answers
	factory informers.SharedInformerFactory
	now     time.Time
	pods    cache.Store
}

// NewReplica makes one of a snapshot. Cost: every object of it is read once.
func NewReplica(s *kubeengine.Snapshot) (*Replica, error) {
	r := &Replica{factory: informers.NewSharedInformerFactory(nil, 0), now: s.At} // never started: no API server is asked
	var err error
	if r.engine, err = kubeengine.New(kubeengine.Config{Factory: r.factory, Fixed: &s.Fixed, Claims: s.Dynamic, Clock: r.Now}); err != nil {
		return nil, err
	}
	r.Answers = r.engine.Answers(answer.Ages{})
	r.pods = r.factory.Core().V1().Pods().Informer().GetStore()
	r.engine.Inherit(s)
	if err := r.fill(s); err != nil {
		return nil, err
	}
	r.engine.Resume(s)
	return r, nil
}

// fill reads all objects, in the order in which the engine would: nodes first, since claims
// name their devices, and pods last.
func (r *Replica) fill(s *kubeengine.Snapshot) error {
	core, resource := r.factory.Core().V1(), r.factory.Resource().V1()
	push := r.engine.Push
	problems := []error{
		add(core.Nodes().Informer(), s.Nodes, func(n *v1.Node) { push(kubeengine.NodeEvent(n.Name)) }),
		add(core.Namespaces().Informer(), s.Namespaces, func(n *v1.Namespace) {
			if _, has := n.Annotations[names.AnnotationQuota]; has {
				push(kubeengine.QuotaEvent(n.Name))
			}
		}),
		add(r.factory.Policy().V1().PodDisruptionBudgets().Informer(), s.Budgets, func(b *policyv1.PodDisruptionBudget) { push(kubeengine.BudgetEvent(b.Namespace)) }),
	}
	for kind, list := range s.Groups {
		for _, o := range list {
			push(kubeengine.ObjectEvent(kind, keyOf(o)))
		}
	}
	if len(s.Networks) > 0 {
		push(kubeengine.LevelsEvent())
	}
	if s.Dynamic {
		problems = append(problems,
			add(resource.ResourceSlices().Informer(), s.Slices, func(*resourceapi.ResourceSlice) {}),
			add(resource.DeviceClasses().Informer(), s.Classes, func(*resourceapi.DeviceClass) {}),
			add(resource.ResourceClaims().Informer(), s.Claims, func(c *resourceapi.ResourceClaim) { push(kubeengine.ClaimEvent(keyOf(c))) }))
	}
	r.sync()
	problems = append(problems, add(core.Pods().Informer(), s.Pods, func(p *v1.Pod) { push(kubeengine.PodEvent(p)) }))
	r.sync()
	return errors.Join(problems...)
}

// add writes objects to an informer's store and tells of them.
func add[T any](informer cache.SharedIndexInformer, list []T, tell func(T)) error {
	for _, o := range list {
		if err := informer.GetStore().Add(o); err != nil {
			return err
		}
	}
	for _, o := range list {
		tell(o)
	}
	return nil
}

// keyOf is an object's name, or namespace/name.
func keyOf(o metav1.Object) string { return cache.MetaObjectToName(o).String() }

// sync reads what is new, until selectors of claims have nothing more to say.
func (r *Replica) sync() {
	r.engine.Drain()
	if r.engine.Claims() == nil {
		return
	}
	for n := 0; n < maxSelectorTurns && r.engine.Claims().Work(context.Background()); n++ {
	}
	r.engine.Drain()
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

// Snapshot is the replica's state.
func (r *Replica) Snapshot() (*kubeengine.Snapshot, error) { return r.engine.Snapshot() }

// SetPod creates a pod or changes it.
func (r *Replica) SetPod(p *v1.Pod) error {
	if err := r.pods.Add(p); err != nil {
		return err
	}
	r.engine.Push(kubeengine.PodEvent(p))
	return nil
}

// RemovePod takes a pod away: it has ended, or is gone.
func (r *Replica) RemovePod(p *v1.Pod) {
	_ = r.pods.Delete(p) // it knows the key
	r.engine.Push(kubeengine.PodEvent(p))
}

// Pod is a pod as it is now, or nil.
func (r *Replica) Pod(namespace, name string) *v1.Pod {
	p, err := r.factory.Core().V1().Pods().Lister().Pods(namespace).Get(name)
	if err != nil {
		return nil
	}
	return p
}

// Serves says whether the cluster has objects of a kind.
func (r *Replica) Serves(kind schema.GroupVersionResource) bool {
	return !r.engine.Objects()[kind].Absent()
}

// Started is a pod that was given a place.
type Started struct {
	Pod *v1.Pod
	kubeengine.Release
}

// Moves are what one step decided, and what was carried out of it.
type Moves struct {
	Started []Started
	// Evict are pods that are told to go: the owner says when they are gone (Evict).
	Evict []kubeengine.Victim
	// More: the step ended before all waiting gangs were looked at.
	More bool
}

// Step decides once, and binds what starts.
func (r *Replica) Step() (Moves, error) {
	r.sync()
	turn := r.engine.Step()
	m := Moves{Evict: turn.Evict, More: turn.Next == 0}
	for _, c := range r.engine.Starting() {
		bound, err := c.Bind(c.Pod, r.now)
		if err != nil {
			return m, err
		}
		m.Started = append(m.Started, Started{Pod: bound, Release: c.Release})
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

// look reads the engine's state.
func (r *Replica) look(f func(*answer.View)) { r.engine.Look("replica", f) }

// Wake is when time alone changes what may start; zero when it does not.
func (r *Replica) Wake() (at time.Time) {
	r.engine.Drain()
	r.look(func(v *answer.View) {
		if wake := v.Core.Figures.Wake(); wake > 0 {
			at = time.Unix(0, wake)
		}
		if next := v.Work.Next(); !next.IsZero() && (at.IsZero() || next.Before(at)) {
			at = next
		}
	})
	return at
}

// Endings are the gangs that run, with their expected ends.
func (r *Replica) Endings() (out []coreanswer.Ending) {
	r.engine.Drain()
	r.look(func(v *answer.View) { out = v.Core.Gangs.Endings(r.now.UnixNano()) })
	return out
}

// GangPods are the pods of a gang when pods were last read, in the order in which they start.
func (r *Replica) GangPods(id engine.ID) (out []*v1.Pod) {
	r.look(func(v *answer.View) {
		for _, m := range v.Work.Pods(id) {
			out = append(out, m.Pod)
		}
	})
	return out
}

// GangOf is the gang that a pod was in when it was last read; empty when the engine has
// nothing to decide about it.
func (r *Replica) GangOf(p *v1.Pod) (id engine.ID) {
	r.look(func(v *answer.View) { id = v.Work.GangOf(model.HolderID(p.UID)) })
	return id
}

// Gang is what core knows of a gang.
func (r *Replica) Gang(id engine.ID) (g engine.Gang, ok bool) {
	r.engine.Sync()
	r.look(func(v *answer.View) { g, ok = v.Core.Gangs.Gang(id) })
	return g, ok
}

// Waiting are the gangs of which no member has a place, in the order in which they came.
func (r *Replica) Waiting() (out []engine.ID) {
	r.engine.Sync()
	r.look(func(v *answer.View) { out = v.Core.Gangs.Unplaced() })
	return out
}

// Leaving are the bound pods that were told to go, sorted by when they will be gone.
func (r *Replica) Leaving() (out []*v1.Pod) {
	for _, o := range r.pods.List() {
		if p := o.(*v1.Pod); p.DeletionTimestamp != nil {
			out = append(out, p)
		}
	}
	slices.SortFunc(out, func(a, b *v1.Pod) int {
		return cmp.Or(a.DeletionTimestamp.Time.Compare(b.DeletionTimestamp.Time), cmp.Compare(a.UID, b.UID))
	})
	return out
}
