package engine

import (
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
	"github.com/tangram-dev/tangram/internal/dialect"
	"github.com/tangram-dev/tangram/internal/kube/workload"
)

// Snapshot is what a replica of the engine is made of: the objects as the informers have
// them, which are shared and must not be changed, and what the engine knows that no object
// says.
type Snapshot struct {
	At       time.Time
	Held     time.Duration // how long the engine's lock was held to copy what is in memory
	Settings Settings
	// Learned and Estimates are what was learned: balances, turns, requests, runtimes; and
	// the runtimes that were expected of gangs when they came.
	Learned   *state.State
	Estimates map[engine.ID]time.Duration
	Passing   engine.Passing
	Arrivals  map[engine.ID]int64 // Arrivals number gangs in the order in which they were first seen
	// Pods are in the order in which they are to be read: bound ones first, oldest first,
	// then those that wait. A pod that has its place is there as if it were bound.
	Pods       []*v1.Pod
	Nodes      []*v1.Node
	Namespaces []*v1.Namespace
	Budgets    []*policyv1.PodDisruptionBudget
	Fixed
	// Slices, Claims and Classes are there where ResourceClaims are followed.
	Dynamic   bool
	Recording []byte // what core was told and has decided, of a snapshot for a dump
	Slices    []*resourceapi.ResourceSlice
	Claims    []*resourceapi.ResourceClaim
	Classes   []*resourceapi.DeviceClass
}

// Snapshot takes one. The engine's lock is held while what is in memory is copied; objects
// are listed without it, so they may be a little newer. Cost: docs/guides/whatif.md.
func (e *Engine) Snapshot() (*Snapshot, error) {
	s := &Snapshot{Learned: &state.State{}}
	var runtimes *arbiter.Runtimes
	placed := map[model.HolderID]*Cycle{}
	e.do("snapshot", func(d *driver, now time.Time) {
		began := time.Now()
		defer func() { s.Held = time.Since(began) }()
		s.At, s.Learned.At, s.Learned.Learned = now, now.UnixNano(), d.core.Save()
		runtimes, s.Estimates, s.Passing, s.Arrivals = d.work.Runtimes(), d.work.Estimates(), d.core.Passing(), d.work.Arrivals()
		s.Settings = d.settings()
		for _, c := range d.placed() {
			if c.Claims == nil {
				placed[c.Holder] = &c
			}
		}
	})
	s.Learned.Runtimes = runtimes.Save()
	s.Objects, s.Groups = e.inventory.Objects(), map[schema.GroupVersionResource][]*unstructured.Unstructured{}
	for kind, w := range e.objects {
		if !w.Absent() {
			s.Groups[kind] = w.All()
		}
	}
	d := e.driver // stores are read without the lock, and know no errors
	s.Pods, _ = d.pods.List(labels.Everything())
	s.Nodes, _ = e.inventory.Nodes().List(labels.Everything())
	s.Namespaces, _ = e.reader.Namespaces.List(labels.Everything())
	s.Budgets, _ = d.facts.budgets.lister.List(labels.Everything())
	if e.book != nil {
		s.Dynamic = true
		s.Slices, s.Claims, s.Classes = e.book.Objects()
	}
	for i, p := range s.Pods {
		if c := placed[model.HolderID(p.UID)]; c != nil && p.Spec.NodeName == "" {
			bound, err := c.Bind(p, s.At)
			if err != nil {
				return nil, err
			}
			s.Pods[i] = bound
		}
	}
	slices.SortFunc(s.Pods, func(p, q *v1.Pod) int { return compareAge(p, q, e.reader) })
	return s, nil
}

// placed are the pods that have a release, sorted by UID, as their cycles know them.
func (d *driver) placed() (out []Cycle) {
	for r := range d.core.Releases.Each() {
		if m := d.work.Member(r.Holder); m != nil {
			out = append(out, *d.cycle(m, r))
		}
	}
	return out
}

// Starting begins the cycles of all pods that have a place and are not bound, and tells that
// each of them waits for the others only: for an owner that binds them all (Bind).
func (e *Engine) Starting() (out []Cycle) {
	e.do("step", func(d *driver, _ time.Time) {
		out = d.placed()
		for i := range out {
			c := &out[i]
			c.engine = e
			d.tell(engine.CycleBegan{Holder: c.Holder, Ticket: c.Ticket}, engine.MemberReserved{Holder: c.Holder, Ticket: c.Ticket})
		}
	})
	return out
}

// Bind is a pod as if it had been bound to its place at a time, with its record and the queue
// that is charged. Nothing is written.
func (c *Cycle) Bind(p *v1.Pod, at time.Time) (*v1.Pod, error) {
	out := p.DeepCopy()
	out.Spec.NodeName = string(c.Node.ID)
	if c.Request.Vendor != "" {
		text, err := record.Encode(dialect.Record(c.Request, c.Node, c.Grant))
		if err != nil {
			return nil, err
		}
		metav1.SetMetaDataAnnotation(&out.ObjectMeta, names.AnnotationDevices, text)
	}
	if c.Queue != "" {
		metav1.SetMetaDataAnnotation(&out.ObjectMeta, names.AnnotationCharged, c.Queue)
	}
	out.Status.Conditions = slices.DeleteFunc(slices.Clone(out.Status.Conditions), func(c v1.PodCondition) bool { return c.Type == v1.PodScheduled })
	out.Status.Conditions = append(out.Status.Conditions, v1.PodCondition{Type: v1.PodScheduled, Status: v1.ConditionTrue, LastTransitionTime: metav1.NewTime(at)})
	return out, nil
}

// Inherit gives gangs that come from now on the numbers and the expected runtimes that they
// had where a snapshot was taken. It is called before pods are read.
func (e *Engine) Inherit(s *Snapshot) {
	e.Configure(func(now *Settings) { *now = s.Settings })
	e.do("replica", func(d *driver, _ time.Time) {
		d.work.RestoreRuntimes(s.Learned.Runtimes)
		d.work.Foretell(s.Estimates)
		d.work.Arrived(s.Arrivals)
	})
}

// Resume replaces what was learned, and what decisions led to, by what a snapshot says. It is
// called before the first step, when all its objects have been read.
func (e *Engine) Resume(s *Snapshot) {
	e.do("replica", func(d *driver, now time.Time) {
		d.restore(s.Learned, now)
		d.tell(engine.PassingRestored{Passing: s.Passing})
	})
}

// NewSnapshot is a cluster without nodes and pods, with the default configuration: of a
// scheduler that places pods of the given scheduler names.
func NewSnapshot(at time.Time, schedulerNames ...string) *Snapshot {
	s := &Snapshot{At: at, Learned: &state.State{At: at.UnixNano()}, Settings: DefaultSettings()}
	s.Groups = map[schema.GroupVersionResource][]*unstructured.Unstructured{}
	for _, name := range schedulerNames {
		s.Settings.Profiles[name] = workload.Profile{Weights: score.DefaultWeights()}
	}
	return s
}
