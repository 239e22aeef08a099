package workload

import (
	"cmp"
	"container/heap"
	"fmt"
	"maps"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/tangram-dev/tangram/core/engine"
	"github.com/tangram-dev/tangram/core/model"
	"github.com/tangram-dev/tangram/internal/dialect"
)

// OwnerPatience is how long after a pod's creation its owner may be unknown here: it
// existed before the pod, but the two are watched apart. An owner that is still unknown
// is gone.
const OwnerPatience = 5 * time.Second

// OwnerChanged looks again at the pods of an object of dialect.Owners that changed: it says
// how many of them belong together.
func (w *Gangs) OwnerChanged(kind schema.GroupVersionResource, key string, now time.Time) {
	delete(w.readings, ownerKey(kind, key))
	for _, p := range w.owned[ownerKey(kind, key)] { // each on its own
		w.again(p, now)
	}
}

// LevelsChanged looks again at all pods: what they ask for names levels of domains.
func (w *Gangs) LevelsChanged(now time.Time) {
	for _, m := range maps.Clone(w.members) {
		w.again(m.Pod, now)
	}
}

// PrioritiesChanged looks again at gangs: PodGroups may name a PriorityClass that is new
// or gone.
func (w *Gangs) PrioritiesChanged() {
	for id, g := range w.groups {
		if g.real {
			w.touch(id)
		}
	}
}

// again looks at the latest of a pod.
func (w *Gangs) again(pod *v1.Pod, now time.Time) {
	latest, err := w.pods.Pods(pod.Namespace).Get(pod.Name)
	if err == nil && latest.UID == pod.UID { // else its deletion is heard of separately
		w.Set(latest, now)
	}
}

// own keeps the index of pods by owner.
func (w *Gangs) own(id model.HolderID, pod *v1.Pod, m *dialect.Membership) {
	var keys [2]string
	for i, o := range []dialect.Object{m.Object, m.Also} {
		if o.Key != "" {
			keys[i] = ownerKey(o.Resource, o.Key)
		}
	}
	if w.owner[id] != keys {
		w.disown(id)
	}
	for _, key := range keys {
		if key == "" {
			continue
		}
		if w.owned[key] == nil {
			w.owned[key] = map[model.HolderID]*v1.Pod{}
		}
		w.owned[key][id] = pod
		w.owner[id] = keys
	}
}

func (w *Gangs) disown(id model.HolderID) {
	keys, ok := w.owner[id]
	if !ok {
		return
	}
	delete(w.owner, id)
	for _, key := range keys {
		if delete(w.owned[key], id); len(w.owned[key]) == 0 {
			delete(w.owned, key)
			delete(w.readings, key)
		}
	}
}

// ownerKey finds the pods of an owner.
func ownerKey(kind schema.GroupVersionResource, name string) string {
	return kind.GroupResource().String() + "/" + name
}

// resolve reads what the PodGroup and the controller of a pod say of its gang. Not known:
// they have not been seen yet, or, with a problem, will not be.
func (w *Gangs) resolve(pod *v1.Pod, m *dialect.Membership, now time.Time) (needs dialect.Needs, known bool, problem string) {
	needs.Whole = m.Size
	seen, problem := w.groupOf(pod, m, now)
	if !seen {
		if problem == "" {
			w.lookAgain(pod, now)
		}
		return needs, false, problem
	}
	switch {
	case m.Also.Key != "":
		also, seen := w.needsOf(pod, m.Also, m.Size, now)
		if !seen {
			w.lookAgain(pod, now)
			return needs, false, ""
		}
		needs.Later = also.Later
		if m.PodGroup != "" && (!dialect.Bounds(m.Also.Resource) || w.bounded(m, also.Whole)) {
			needs = also
		}
	case m.PodGroup == "" && m.Object.Key != "":
		if needs, seen = w.needsOf(pod, m.Object, m.Size, now); !seen {
			w.lookAgain(pod, now)
			return needs, false, ""
		}
		m.Size = needs.Whole
		if said, problem := w.stated(m); problem != "" {
			return needs, false, problem
		} else if said != nil { // a single pod stays in its gang, for its priority
			m.Queue = cmp.Or(said.Queue, m.Queue)
		} else if m.Size <= 1 {
			m.Key = ""
		}
	}
	if problem := w.adopt(pod, m); problem != "" {
		return needs, false, problem
	}
	return needs, true, ""
}

// lookAgain looks at a pod once more when its owner must have been seen.
func (w *Gangs) lookAgain(pod *v1.Pod, now time.Time) {
	if at := pod.CreationTimestamp.Add(w.timing.Owner + time.Millisecond); at.After(now) {
		heap.Push(&w.alarms, alarm{at: at, pod: pod})
	}
}

// groupOf says whether what the PodGroup a pod names says is known, if it names one;
// what is wrong, if that will not come by itself. Where PodGroups are not served they
// are not waited for; that is not believed at once: the pod is a sign that their definition
// was installed a moment ago.
func (w *Gangs) groupOf(pod *v1.Pod, m *dialect.Membership, now time.Time) (known bool, problem string) {
	kind := w.objects[m.Groups]
	if m.PodGroup == "" {
		return true, ""
	}
	if kind.Absent() {
		kind.LookAgain()
		return now.Sub(pod.CreationTimestamp.Time) > w.timing.Owner, ""
	}
	if object := kind.Get(m.PodGroup); object != nil {
		said, err := w.readGroup(dialect.Object{Resource: m.Groups, Key: m.PodGroup}, object)
		if err != nil {
			return false, fmt.Sprintf("PodGroup %s: %v", m.PodGroup, err)
		}
		if said.Min == 0 { // each of its pods on its own
			m.Key, m.PodGroup, m.Object, m.Also = "", "", dialect.Object{}, dialect.Object{}
		}
		return true, ""
	}
	if now.Sub(pod.CreationTimestamp.Time) <= w.timing.Owner || !kind.Listed() {
		return false, ""
	}
	return false, fmt.Sprintf("%s: PodGroup %q does not exist", dialect.GroupField(m.Groups), m.PodGroup)
}

// needsOf is what a pod's controller says of its gang; not known while the controller has
// not been seen. One that is gone says nothing. That a kind is not served is not believed at
// once: the pod is a sign that its operator was installed a moment ago.
func (w *Gangs) needsOf(pod *v1.Pod, owner dialect.Object, size int, now time.Time) (needs dialect.Needs, known bool) {
	kind := w.objects[owner.Resource]
	if kind == nil {
		return dialect.Needs{Whole: size}, true
	}
	if object := kind.Get(owner.Key); object != nil {
		return dialect.NeedsOf(owner.Resource, object, size, pod), true
	}
	if kind.Absent() {
		kind.LookAgain()
	}
	return dialect.Needs{Whole: size}, now.Sub(pod.CreationTimestamp.Time) > w.timing.Owner
}

// bounded says whether the controller beside a PodGroup lets fewer pods exist now than the
// PodGroup asks for, which was made for it: Kubeflow's Trainer makes a PodGroup of all pods
// of a JobSet, of which JobSet creates some when others have ended. A PodGroup that somebody
// made may be of several controllers.
func (w *Gangs) bounded(m *dialect.Membership, now int) bool {
	group, object := w.objects[m.Groups].Get(m.PodGroup), w.objects[m.Also.Resource].Get(m.Also.Key)
	if group == nil || object == nil {
		return false
	}
	made, above := metav1.GetControllerOf(group), metav1.GetControllerOf(object)
	if made == nil || made.UID != object.GetUID() && (above == nil || made.UID != above.UID) {
		return false
	}
	return now < dialect.SizeOf(group)
}

// stated is what the controller of a gang states besides its size, of kinds that do; nil
// otherwise. The problem names the field.
func (w *Gangs) stated(m *dialect.Membership) (said *dialect.Group, problem string) {
	object := w.objects[m.Object.Resource].Get(m.Object.Key)
	if object == nil || !dialect.States(m.Object.Resource) {
		return nil, ""
	}
	g, err := w.readGroup(m.Object, object)
	if err != nil {
		return nil, fmt.Sprintf("%s %s: %v", m.Owner.Kind, m.Object.Key, err)
	}
	return &g, ""
}

// said is what the PodGroup of a member says, or its controller of a kind that says as
// much; nil when there is none.
func (w *Gangs) said(m *Member) *dialect.Group {
	object := w.objects[m.Object.Resource].Get(m.Object.Key)
	if object == nil || !dialect.States(m.Object.Resource) {
		return nil
	}
	said, _ := w.readGroup(m.Object, object) // reported to members that wait; those that run go on
	return &said
}

// classPriority is the value of a PriorityClass.
func (w *Gangs) classPriority(name string) (int32, bool) {
	class := w.objects[dialect.Priorities].Get(name)
	if name == "" || class == nil {
		return 0, false
	}
	value, _, _ := unstructured.NestedInt64(class.Object, "value")
	return int32(value), true
}

// Lookup is a gang of which it is not known which members have succeeded, and where its
// pods are: kube-scheduler's informer knows nothing of pods that ended.
type Lookup struct {
	Gang      engine.ID
	Namespace string
	// Labels are on all its pods; may be empty.
	Labels labels.Set
}

// Unsure says whether it must be looked up which members of a gang have succeeded, and
// where. Asked again it says no, until members went or Succeeded says that nothing could
// be found out.
func (w *Gangs) Unsure(id engine.ID) (Lookup, bool) {
	g := w.groups[id]
	if g == nil || !g.unsure {
		return Lookup{}, false
	}
	g.unsure = false
	l := Lookup{Gang: id}
	for _, m := range g.pods { // in all the same
		l.Namespace = m.Pod.Namespace
		if key, value := dialect.SharedLabel(m.Pod); key != "" {
			l.Labels = labels.Set{key: value}
		}
		break
	}
	return l, true
}

// Succeeded tells which pods that were looked up have succeeded; not ok when that could
// not be found out. Those that are being deleted belong to an earlier run.
func (w *Gangs) Succeeded(l Lookup, pods []v1.Pod, ok bool) {
	g := w.groups[l.Gang]
	if g == nil {
		return
	}
	if g.unsure = !ok; ok {
		g.done = map[model.HolderID]finished{}
		for i := range pods {
			p := &pods[i]
			m, err := dialect.MembershipOf(p)
			if err == nil && engine.ID(m.Key) == l.Gang && p.Status.Phase == v1.PodSucceeded && p.DeletionTimestamp == nil {
				g.done[model.HolderID(p.UID)] = finished{m, p.Labels}
			}
		}
	}
	w.touch(l.Gang)
}
