package workload

import (
	"cmp"
	"maps"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	corelisters "k8s.io/client-go/listers/core/v1"

	"github.com/tangram-dev/tangram/core/arbiter"
	"github.com/tangram-dev/tangram/core/engine"
	"github.com/tangram-dev/tangram/core/model"
	"github.com/tangram-dev/tangram/core/topology"
	"github.com/tangram-dev/tangram/internal/dialect"
	"github.com/tangram-dev/tangram/internal/kube/dra"
	"github.com/tangram-dev/tangram/internal/kube/watch"
)

// Objects are the kinds that say something about gangs, by kind.
type Objects map[schema.GroupVersionResource]*watch.Optional[*unstructured.Unstructured]

// Gangs knows which pods belong together. Not safe for concurrent use.
type Gangs struct {
	reader  *Reader
	pods    corelisters.PodLister
	objects Objects

	groups map[engine.ID]*group
	// arrivals counts gangs that came, arrived are their numbers in another process.
	arrivals int64
	arrived  map[engine.ID]int64
	members  map[model.HolderID]*Member
	changed  map[engine.ID]bool // gangs whose description is new
	owners   *owners
	// freed are pods that turned out not to be the engine's to place.
	freed []*v1.Pod

	shapes   shapes
	runtimes arbiter.Runtimes
	// foretold are runtimes that another process expected of gangs (Foretell).
	foretold map[engine.ID]time.Duration
	alarms   alarms
	timing   Timing
}

// Member is a pod that the engine places, or that holds something.
type Member struct {
	Pod     *v1.Pod
	Request *model.Request // what it asks for; without devices for members of gangs that need none
	dialect.Membership
	needs   dialect.Needs // what the pod and its controller say of the gang's size
	Shape   engine.Shape
	rules   *Rules
	group   *group
	Ask     *dra.Ask // what its ResourceClaims mean; nil when it has none that matter
	invalid string   // invalid says what is wrong with the pod's specification
}

// finished is a member that succeeded.
type finished struct {
	dialect.Membership
	labels map[string]string
}

// group is the pods of one gang.
type group struct {
	id      engine.ID
	real    bool  // it is more than a pod that comes alone
	arrival int64 // arrival numbers gangs in the order in which they were first seen
	pods    map[model.HolderID]*Member
	// done are members known to have succeeded; unsure: members went since that lookup.
	done   map[model.HolderID]finished
	unsure bool
	// counts: its owner says itself how many are left to run, so that it is not looked up.
	counts   bool
	recalled bool // it will be described again when time has passed
	delayed  bool // it will be described again when it may have others evicted
	// charged is the queue charged for it since it was first bound: labels cannot change it.
	charged string
	bound   bool
	run     run
}

// New returns a Gangs without pods.
func New(reader *Reader, pods corelisters.PodLister, objects Objects) *Gangs {
	return &Gangs{
		reader: reader, pods: pods, objects: objects,
		groups: map[engine.ID]*group{}, members: map[model.HolderID]*Member{}, changed: map[engine.ID]bool{},
		owners: newOwners(objects, func() topology.Levels { return reader.Levels() }), shapes: shapes{}, timing: DefaultTiming(),
	}
}

// Member is a pod that is known; nil when it is not.
func (w *Gangs) Member(h model.HolderID) *Member { return w.members[h] }

// Size is how many pods and gangs are known.
func (w *Gangs) Size() (pods, gangs int) { return len(w.members), len(w.groups) }

// Rules are those of a shape; nil when no known pod has it.
func (w *Gangs) Rules(s engine.Shape) *Rules { return w.shapes[s] }

// Changed returns the gangs whose description is new since the last call, sorted.
func (w *Gangs) Changed() []engine.ID {
	if len(w.changed) == 0 {
		return nil
	}
	out := slices.Sorted(maps.Keys(w.changed))
	clear(w.changed)
	return out
}

// Freed returns pods that turned out not to be the engine's to place, since the last
// call: kube-scheduler places them as it always did.
func (w *Gangs) Freed() []*v1.Pod {
	out := w.freed
	w.freed = nil
	return out
}

// touch says that a gang's description is new.
func (w *Gangs) touch(id engine.ID) { w.changed[id] = true }

// Set takes note of a pod as the API has it now. A pod of another scheduler counts as
// soon as it is bound: it uses what queues share.
func (w *Gangs) Set(pod *v1.Pod, now time.Time) {
	id := model.HolderID(pod.UID)
	if len(w.reader.all()) == 0 {
		return // nothing is placed here
	}
	m, free := w.read(pod, now)
	old := w.members[id]
	if m == nil {
		if free && (old != nil || w.owners.has(id)) {
			w.freed = append(w.freed, pod)
		}
		w.Remove(pod, now)
		return
	}
	key, real := engine.ID(m.Key), m.Key != ""
	if !real {
		key = engine.ID("pod/" + string(pod.UID))
	}
	if old != nil && old.group.id != key {
		w.Remove(pod, now)
		old = nil
	}
	g := w.groups[key]
	if g == nil {
		arrival, before := w.arrived[key]
		if !before {
			w.arrivals++
			arrival = w.arrivals
		}
		delete(w.arrived, key) // one that comes again is new
		g = &group{id: key, real: real, arrival: arrival, pods: map[model.HolderID]*Member{}, counts: m.Object.Resource == dialect.Jobs}
		g.unsure = real && !g.counts
		w.groups[key] = g
	}
	m.rules = w.shapes.enter(m)
	if old != nil {
		w.shapes.leave(old.Shape)
	}
	m.group = g
	g.pods[id], w.members[id] = m, m
	if pod.Spec.NodeName != "" {
		g.run.began(pod, now)
		w.charge(g, m)
	}
	w.touch(key)
}

// charge fixes the queue that is charged for a gang when its first member is bound: the
// one that the scheduler wrote with the Binding, else the one that is named now.
func (w *Gangs) charge(g *group, m *Member) {
	if g.bound {
		return
	}
	g.bound = true
	if queue, ok := dialect.ChargedQueue(m.Pod); ok {
		g.charged = queue
		return
	}
	g.charged = m.Queue
	if said := w.owners.said(m); said != nil {
		g.charged = cmp.Or(said.Queue, m.Queue)
	}
}

// read reads a pod's gang and what it asks for; nil when the engine has nothing to decide
// about it, which is free then, or not yet.
func (w *Gangs) read(pod *v1.Pod, now time.Time) (m *Member, free bool) {
	id := model.HolderID(pod.UID)
	waits := pod.Spec.NodeName == ""
	if waits && (!w.reader.Owns(pod.Spec.SchedulerName) || len(pod.Spec.SchedulingGates) > 0 || pod.DeletionTimestamp != nil) {
		return nil, false // not this scheduler's to place, or not ready to be
	}
	member := &Member{Pod: pod}
	by := w.reader.Read(pod)
	said, err := by.Membership, by.MembershipErr
	if err != nil {
		member.invalid, said.Key = err.Error(), ""
	} else {
		w.owners.own(id, pod, &said)
		needs, seen, problem := w.owners.resolve(pod, &said, now)
		member.needs = needs
		if !seen && problem == "" {
			w.lookAgain(pod, now)
		}
		if !seen && waits {
			if problem == "" {
				return nil, false // until its PodGroup or owner is seen
			}
			member.invalid, said.Key = problem, ""
		}
	}
	if member.Leaving() {
		said.Key = "" // a pod that terminates holds devices, and is no part of its gang
	}
	r, ask, err := w.reader.read(pod, w.reader.Profile(pod.Spec.SchedulerName))
	switch {
	case dra.IsWait(err) && waits && now.Sub(pod.CreationTimestamp.Time) < ClaimsFor:
		return nil, false // controllers make claims within moments
	case err != nil:
		if waits { // its gang misses it; it is told what is wrong on its own
			member.invalid, said.Key = err.Error(), ""
		}
		r = dialect.HostRequest(pod) // what a bound pod holds is counted by its claims
	case r == nil && ask == nil && said.Key == "" && said.Queue == "" && member.invalid == "":
		return nil, waits // neither a GPU, a gang nor a queue
	case r == nil:
		r = dialect.HostRequest(pod)
	}
	if said.Require.Name != "" && r.Require.Level.Name == "" {
		r.Require.Level = said.Require
	}
	if said.Prefer.Name != "" && r.Prefer.Level.Name == "" {
		r.Prefer.Level = said.Prefer
	}
	member.Request, member.Membership, member.Ask = r, said, ask
	member.Shape = shapeOf(pod, said.Task, r, apartOf(pod), ask)
	return member, false
}

// ClaimsFor is how long after a pod's creation its ResourceClaims may be missing before the
// pod is told.
const ClaimsFor = 5 * time.Second

// asMember is what the members of a gang must agree on.
func (m *Member) asMember() dialect.Member {
	return dialect.Member{
		Pod: m.Pod.Namespace + "/" + m.Pod.Name, Membership: m.Membership, Require: m.Request.Require.Level, Priority: priorityOf(m.Pod),
	}
}

// Leaving says whether the pod has a place and is going away.
func (m *Member) Leaving() bool { return m.Pod.DeletionTimestamp != nil && m.Pod.Spec.NodeName != "" }

// Remove forgets a pod that ended, is gone or is not the engine's any more.
func (w *Gangs) Remove(pod *v1.Pod, now time.Time) {
	id := model.HolderID(pod.UID)
	m := w.members[id]
	if m == nil {
		return
	}
	g := m.group
	delete(w.members, id)
	delete(g.pods, id)
	w.shapes.leave(m.Shape)
	g.run.lost(pod)
	g.unsure = g.real && !g.counts
	w.touch(g.id)
	if len(g.pods) == 0 {
		w.learn(g, m, now)
		delete(w.groups, g.id)
	}
}

// Forget forgets all about a pod that does not exist any more.
func (w *Gangs) Forget(pod *v1.Pod, now time.Time) {
	w.Remove(pod, now)
	w.owners.disown(model.HolderID(pod.UID))
}

// Waits says whether a gang is known and has a member for which the predicate says that
// it has no place.
func (w *Gangs) Waits(id engine.ID, hasPlace func(model.HolderID) bool) bool {
	g := w.groups[id]
	if g == nil {
		return false
	}
	for h, m := range g.pods {
		if m.Pod.Spec.NodeName == "" && !hasPlace(h) {
			return true
		}
	}
	return false
}

// Pods are the pods of a gang, in the order in which they start.
func (w *Gangs) Pods(id engine.ID) []*Member {
	if g := w.groups[id]; g != nil {
		return g.sorted()
	}
	return nil
}

func (g *group) sorted() []*Member {
	return slices.SortedFunc(maps.Values(g.pods), func(a, b *Member) int { return compareMembers(a.Pod, b.Pod) })
}
