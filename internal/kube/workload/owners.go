package workload

import (
	"cmp"
	"container/heap"
	"fmt"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/tangram-dev/tangram/api/names"
	"github.com/tangram-dev/tangram/core/engine"
	"github.com/tangram-dev/tangram/core/model"
	"github.com/tangram-dev/tangram/internal/dialect"
)

// OwnerPatience is how long after a pod's creation its owner may be unknown here: it
// existed before the pod, but the two are watched apart. An owner that is still unknown
// is gone.
const OwnerPatience = 5 * time.Second

// OwnerChanged looks again at the pods of a PodGroup or controller that
// changed: it says how many of them belong together.
func (w *Gangs) OwnerChanged(kind schema.GroupVersionResource, key string, now time.Time) {
	for _, p := range w.owned[ownerKey(kind, key)] { // each on its own
		w.again(p, now)
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

// own keeps the index of pods by owner: the PodGroup, and the controller that creates them.
func (w *Gangs) own(id model.HolderID, pod *v1.Pod, m *dialect.Membership) {
	var keys []string
	if m.Object.Key != "" {
		keys = append(keys, ownerKey(m.Object.Resource, m.Object.Key))
	}
	if m.PodGroup != "" {
		if c, ok := dialect.ControllerOf(pod); ok {
			keys = append(keys, ownerKey(c.Resource, c.Key))
		}
	}
	if !slices.Equal(w.owners[id], keys) {
		w.disown(id)
	}
	for _, key := range keys {
		if w.owned[key] == nil {
			w.owned[key] = map[model.HolderID]*v1.Pod{}
		}
		w.owned[key][id] = pod
	}
	if len(keys) > 0 {
		w.owners[id] = keys
	}
}

func (w *Gangs) disown(id model.HolderID) {
	for _, key := range w.owners[id] {
		if delete(w.owned[key], id); len(w.owned[key]) == 0 {
			delete(w.owned, key)
		}
	}
	delete(w.owners, id)
}

// ownerKey finds the pods of an owner.
func ownerKey(kind schema.GroupVersionResource, name string) string {
	return kind.GroupResource().String() + "/" + name
}

// resolve reads what the PodGroup or the controller of a pod says of its gang. Not known:
// it has not been seen yet, or, with a problem, will not be.
func (w *Gangs) resolve(pod *v1.Pod, m *dialect.Membership, now time.Time) (known bool, problem string) {
	seen, problem := w.groupOf(pod, m, now)
	if !seen {
		if problem == "" {
			w.lookAgain(pod, now)
		}
		return false, problem
	}
	if m.Owner.Kind == "" {
		return true, ""
	}
	seen, problem = w.ownerSays(pod, m, now)
	if !seen && problem == "" {
		w.lookAgain(pod, now)
	}
	return seen, problem
}

// lookAgain looks at a pod once more when its owner must have been seen.
func (w *Gangs) lookAgain(pod *v1.Pod, now time.Time) {
	if at := pod.CreationTimestamp.Add(w.timing.Owner + time.Millisecond); at.After(now) {
		heap.Push(&w.alarms, alarm{at: at, pod: pod})
	}
}

// groupOf says whether what the PodGroup a pod names says is known, if it names one;
// what is wrong, if that will not come by itself. Where PodGroups are not served they
// are not waited for.
func (w *Gangs) groupOf(pod *v1.Pod, m *dialect.Membership, now time.Time) (known bool, problem string) {
	kind := w.objects[m.Groups]
	if m.PodGroup == "" || kind.Absent() {
		return true, ""
	}
	if object := kind.Get(m.PodGroup); object != nil {
		said, err := dialect.GroupOf(object, w.reader.Levels())
		if err != nil {
			return false, fmt.Sprintf("PodGroup %s: %v", m.PodGroup, err)
		}
		if said.Min == 0 { // each of its pods on its own
			m.Key, m.PodGroup = "", ""
		}
		return true, ""
	}
	if now.Sub(pod.CreationTimestamp.Time) <= w.timing.Owner || !kind.Listed() {
		return false, ""
	}
	field := "metadata.annotations[" + names.AnnotationKubeGroup + "]"
	if m.Groups == dialect.KubeGroups {
		field = "spec.schedulingGroup.podGroupName"
	}
	return false, fmt.Sprintf("%s: PodGroup %q does not exist", field, m.PodGroup)
}

// ownerSays reads how many pods a pod's controller runs together, and its queue where the
// controller names one; not known while the controller has not been seen.
func (w *Gangs) ownerSays(pod *v1.Pod, m *dialect.Membership, now time.Time) (known bool, problem string) {
	kind := w.objects[m.Object.Resource]
	object := kind.Get(m.Object.Key)
	switch {
	case object == nil && !kind.Absent() && now.Sub(pod.CreationTimestamp.Time) <= w.timing.Owner:
		return false, ""
	case object == nil:
		m.Size = 0
	case dialect.States(m.Object.Resource):
		said, err := dialect.GroupOf(object, w.reader.Levels())
		if err != nil {
			return false, fmt.Sprintf("%s %s: %v", m.Owner.Kind, m.Object.Key, err)
		}
		m.Size, m.Queue = said.Min, cmp.Or(said.Queue, m.Queue)
		return true, "" // also a single pod, for its priority
	default:
		m.Size = dialect.SizeOf(object)
	}
	if m.Size <= 1 {
		m.Key = ""
	}
	return true, ""
}

// said is what the PodGroup of a member says, or its controller of a kind that says as
// much; nil when there is none.
func (w *Gangs) said(m *Member) *dialect.Group {
	if m.PodGroup == "" && m.Owner.Kind == "" || !dialect.States(m.Object.Resource) {
		return nil
	}
	object := w.objects[m.Object.Resource].Get(m.Object.Key)
	if object == nil {
		return nil
	}
	said, _ := dialect.GroupOf(object, w.reader.Levels()) // reported to members that wait; those that run go on
	return &said
}

// createdTogether is how many pods can exist together now of the controller that creates a
// member's pods, if the member's PodGroup was made for that controller; 0 when nothing is
// known. Who makes a PodGroup of all pods of a JobSet (Kubeflow's Trainer) counts those,
// too, that JobSet creates only when others have ended.
func (w *Gangs) createdTogether(m *Member) int {
	c, ok := dialect.ControllerOf(m.Pod)
	if m.PodGroup == "" || !ok {
		return 0
	}
	group, object := w.objects[m.Groups].Get(m.PodGroup), w.objects[c.Resource].Get(c.Key)
	if group == nil || object == nil {
		return 0
	}
	made := metav1.GetControllerOf(group)
	if above := metav1.GetControllerOf(object); made == nil || made.UID != object.GetUID() && (above == nil || made.UID != above.UID) {
		return 0 // a PodGroup that somebody made may be of several controllers
	}
	return dialect.SizeOf(object)
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
// not be found out.
func (w *Gangs) Succeeded(l Lookup, pods []v1.Pod, ok bool) {
	g := w.groups[l.Gang]
	if g == nil {
		return
	}
	if g.unsure = !ok; ok {
		g.done = map[model.HolderID]string{}
		for i := range pods {
			p := &pods[i]
			m, err := dialect.MembershipOf(p)
			if err == nil && engine.ID(m.Key) == l.Gang && p.Status.Phase == v1.PodSucceeded {
				g.done[model.HolderID(p.UID)] = m.Task
			}
		}
	}
	w.touch(l.Gang)
}
