package engine

import (
	"cmp"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/tangram-dev/tangram/api/names"
	"github.com/tangram-dev/tangram/api/record"
	"github.com/tangram-dev/tangram/core/arbiter"
	"github.com/tangram-dev/tangram/core/engine"
	"github.com/tangram-dev/tangram/core/model"
	"github.com/tangram-dev/tangram/core/score"
	"github.com/tangram-dev/tangram/core/state"
	"github.com/tangram-dev/tangram/core/topology"
	"github.com/tangram-dev/tangram/internal/dialect"
	"github.com/tangram-dev/tangram/internal/kube/inventory"
	"github.com/tangram-dev/tangram/internal/kube/workload"
)

// Snapshot is what a copy of the engine is made of: the objects as the informers have them,
// which are shared and must not be changed, and what the engine knows that no object says.
type Snapshot struct {
	At time.Time
	// Held is how long the engine's lock was held to copy what is in memory.
	Held     time.Duration
	Settings Settings
	// Learned and Estimates are what was learned: balances, turns, requests, runtimes; and
	// the runtimes that were expected of gangs when they came.
	Learned   *state.State
	Estimates map[engine.ID]time.Duration
	Passing   engine.Passing
	// Arrivals number gangs in the order in which they were first seen.
	Arrivals map[engine.ID]int64
	// Pods are in the order in which they are to be read: those that are bound first, the
	// oldest of them at the front, then those that wait. A pod that has its place and is not
	// bound yet is there as if it were.
	Pods       []*v1.Pod
	Nodes      []*v1.Node
	Namespaces []*v1.Namespace
	Budgets    []*policyv1.PodDisruptionBudget
	inventory.Objects
	// Groups are the objects that describe gangs, queues and priorities; a kind that the
	// API server does not serve has no entry.
	Groups map[schema.GroupVersionResource][]*unstructured.Unstructured
	// Slices, Claims and Classes are there where ResourceClaims are followed.
	Dynamic bool
	Slices  []*resourceapi.ResourceSlice
	Claims  []*resourceapi.ResourceClaim
	Classes []*resourceapi.DeviceClass
}

// Settings are how the engine was configured.
type Settings struct {
	// Options has no Facts.
	Options  engine.Options
	Timing   Timing
	Levels   topology.Levels
	Profiles map[string]workload.Profile
	// Protected are the namespaces whose pods are never victims; nil: the default.
	Protected       []string
	TelemetryMaxAge time.Duration
}

// Snapshot takes one. The engine's lock is held while what is in memory is copied; objects
// are listed without it, so they may be a little newer. Cost: docs/guides/whatif.md.
func (e *Engine) Snapshot() (*Snapshot, error) {
	s := &Snapshot{Learned: &state.State{}, Groups: map[schema.GroupVersionResource][]*unstructured.Unstructured{}}
	var runtimes *arbiter.Runtimes
	promised := map[model.HolderID]promise{}
	e.do("snapshot", func(now time.Time) {
		began := time.Now()
		defer func() { s.Held = time.Since(began) }()
		s.At, s.Learned.At, s.Learned.Learned = now, now.UnixNano(), e.core.Save()
		runtimes, s.Estimates, s.Passing, s.Arrivals = e.work.Runtimes(), e.work.Estimates(), e.core.Passing(), e.work.Arrivals()
		s.Settings = e.settings()
		e.core.EachRelease(func(r engine.Release) {
			if m := e.work.Member(r.Holder); m != nil && m.Ask() == nil {
				promised[r.Holder] = promise{r, m.Request, e.core.QueueOf(r.Holder)}
			}
		})
	})
	s.Learned.Runtimes = runtimes.Save()
	s.Objects = e.inventory.Objects()
	for kind, w := range e.objects {
		if !w.Absent() {
			s.Groups[kind] = w.All()
		}
	}
	s.Pods, _ = e.pods.List(labels.Everything()) // stores know no errors
	s.Nodes, _ = e.inventory.Nodes().List(labels.Everything())
	s.Namespaces, _ = e.namespaces.List(labels.Everything())
	s.Budgets, _ = e.facts.budgets.lister.List(labels.Everything())
	if e.book != nil {
		s.Dynamic = true
		s.Slices, s.Claims, s.Classes = e.book.Objects()
	}
	for i, p := range s.Pods {
		if x, ok := promised[model.HolderID(p.UID)]; ok && p.Spec.NodeName == "" {
			bound, err := x.bind(p, s.At)
			if err != nil {
				return nil, err
			}
			s.Pods[i] = bound
		}
	}
	e.sortPods(s.Pods)
	return s, nil
}

// promise is a place that a pod was given and is not bound to yet.
type promise struct {
	engine.Release
	request *model.Request
	queue   string
}

// bind is the pod as if it had been bound at a time, with its record and the queue that is
// charged.
func (x *promise) bind(p *v1.Pod, at time.Time) (*v1.Pod, error) {
	out := p.DeepCopy()
	out.Spec.NodeName = string(x.Node.ID)
	if x.request.Vendor != "" {
		text, err := record.Encode(dialect.Record(x.request, x.Node, x.Grant))
		if err != nil {
			return nil, err
		}
		metav1.SetMetaDataAnnotation(&out.ObjectMeta, names.AnnotationDevices, text)
	}
	if x.queue != "" {
		metav1.SetMetaDataAnnotation(&out.ObjectMeta, names.AnnotationCharged, x.queue)
	}
	out.Status.Conditions = slices.DeleteFunc(slices.Clone(out.Status.Conditions), func(c v1.PodCondition) bool { return c.Type == v1.PodScheduled })
	out.Status.Conditions = append(out.Status.Conditions, v1.PodCondition{Type: v1.PodScheduled, Status: v1.ConditionTrue, LastTransitionTime: metav1.NewTime(at)})
	return out, nil
}

// sortPods orders pods as Snapshot.Pods says.
func (e *Engine) sortPods(pods []*v1.Pod) {
	waits := func(p *v1.Pod) int {
		if p.Spec.NodeName == "" {
			return 1
		}
		return 0
	}
	slices.SortFunc(pods, func(p, q *v1.Pod) int {
		return cmp.Or(
			cmp.Compare(waits(p), waits(q)), cmp.Compare(dialect.BoundSince(p), dialect.BoundSince(q)), cmp.Compare(e.foreign(p), e.foreign(q)),
			p.CreationTimestamp.Time.Compare(q.CreationTimestamp.Time), cmp.Compare(waitingName(p), waitingName(q)), cmp.Compare(p.UID, q.UID))
	})
}

// settings are the engine's as they are now. The caller holds the lock.
func (e *Engine) settings() Settings {
	s := Settings{
		Options: e.core.Options(), Timing: e.timing, Levels: e.inventory.Configured(), Profiles: e.reader.Profiles(),
		Protected: e.reader.ProtectedNamespaces(), TelemetryMaxAge: e.telemetry.maxAge,
	}
	s.Options.Facts = nil
	return s
}

// NewSnapshot is a cluster without nodes and pods, with the default configuration: of a
// scheduler that places pods of the given scheduler names.
func NewSnapshot(at time.Time, schedulerNames ...string) *Snapshot {
	options := engine.DefaultOptions()
	options.BatchTimeout, options.Facts = BatchTimeout, nil
	s := &Snapshot{
		At: at, Learned: &state.State{At: at.UnixNano()}, Groups: map[schema.GroupVersionResource][]*unstructured.Unstructured{},
		Settings: Settings{Options: options, Timing: DefaultTiming(), Levels: topology.DefaultLevels(), Profiles: map[string]workload.Profile{}, TelemetryMaxAge: TelemetryMaxAge},
	}
	for _, name := range schedulerNames {
		s.Settings.Profiles[name] = workload.Profile{Weights: score.DefaultWeights()}
	}
	return s
}
