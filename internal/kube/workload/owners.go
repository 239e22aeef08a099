package workload

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/tangram-dev/tangram/core/model"
	"github.com/tangram-dev/tangram/core/topology"
	"github.com/tangram-dev/tangram/internal/dialect"
)

// OwnerPatience is how long after a pod's creation its owner may be unknown here: it
// existed before the pod, but the two are watched apart. An owner that is still unknown
// is gone.
const OwnerPatience = 5 * time.Second

// owners reads what PodGroups and controllers, the objects of dialect.Owners, say of the gangs
// of their pods.
type owners struct {
	objects  Objects
	levels   func() topology.Levels
	patience time.Duration
	// pods are those of an object, names the reverse: a PodGroup and a controller.
	pods  map[string]map[model.HolderID]*v1.Pod
	names map[model.HolderID][2]string
	// readings are what unchanged objects with pods were read as; parsed counts them.
	readings map[string]*reading
	parsed   int
}

func newOwners(objects Objects, levels func() topology.Levels) *owners {
	return &owners{
		objects: objects, levels: levels, patience: OwnerPatience,
		pods: map[string]map[model.HolderID]*v1.Pod{}, names: map[model.HolderID][2]string{}, readings: map[string]*reading{},
	}
}

// own keeps the index of pods by owner.
func (o *owners) own(id model.HolderID, pod *v1.Pod, m *dialect.Membership) {
	var keys [2]string
	for i, x := range []dialect.Object{m.Object, m.Also} {
		if x.Key != "" {
			keys[i] = ownerKey(x.Resource, x.Key)
		}
	}
	if o.names[id] != keys {
		o.disown(id)
	}
	for _, key := range keys {
		if key == "" {
			continue
		}
		if o.pods[key] == nil {
			o.pods[key] = map[model.HolderID]*v1.Pod{}
		}
		o.pods[key][id] = pod
		o.names[id] = keys
	}
}

// has says whether a pod has an owner here.
func (o *owners) has(id model.HolderID) bool { return o.names[id] != [2]string{} }

// changed forgets what an object was read as, and returns its pods.
func (o *owners) changed(kind schema.GroupVersionResource, key string) map[model.HolderID]*v1.Pod {
	delete(o.readings, ownerKey(kind, key))
	return o.pods[ownerKey(kind, key)]
}

func (o *owners) disown(id model.HolderID) {
	keys, ok := o.names[id]
	if !ok {
		return
	}
	delete(o.names, id)
	for _, key := range keys {
		if delete(o.pods[key], id); len(o.pods[key]) == 0 {
			delete(o.pods, key)
			delete(o.readings, key)
		}
	}
}

// ownerKey finds the pods of an owner.
func ownerKey(kind schema.GroupVersionResource, name string) string {
	return kind.GroupResource().String() + "/" + name
}

// resolve reads what the PodGroup and the controller of a pod say of its gang. Not known:
// they have not been seen yet, or, with a problem, will not be.
func (o *owners) resolve(pod *v1.Pod, m *dialect.Membership, now time.Time) (needs dialect.Needs, known bool, problem string) {
	needs.Whole = m.Size
	seen, problem := o.groupOf(pod, m, now)
	if !seen {
		return needs, false, problem
	}
	switch {
	case m.Also.Key != "":
		also, seen := o.needsOf(pod, m.Also, m.Size, now)
		if !seen {
			return needs, false, ""
		}
		needs.Later = also.Later
		if m.PodGroup != "" && (!dialect.Bounds(m.Also.Resource) || o.bounded(m, also.Whole)) {
			needs = also
		}
	case m.PodGroup == "" && m.Object.Key != "":
		if needs, seen = o.needsOf(pod, m.Object, m.Size, now); !seen {
			return needs, false, ""
		}
		m.Size = needs.Whole
		if said, problem := o.stated(m); problem != "" {
			return needs, false, problem
		} else if said != nil { // a single pod stays in its gang, for its priority
			m.Queue = cmp.Or(said.Queue, m.Queue)
		} else if m.Size <= 1 {
			m.Key = ""
		}
	}
	if problem := o.adopt(pod, m); problem != "" {
		return needs, false, problem
	}
	return needs, true, ""
}

// groupOf says whether what the PodGroup a pod names says is known, if it names one;
// what is wrong, if that will not come by itself. Where PodGroups are not served they
// are not waited for; that is not believed at once: the pod is a sign that their definition
// was installed a moment ago.
func (o *owners) groupOf(pod *v1.Pod, m *dialect.Membership, now time.Time) (known bool, problem string) {
	kind := o.objects[m.Groups]
	if m.PodGroup == "" {
		return true, ""
	}
	if kind.Absent() {
		kind.LookAgain()
		return now.Sub(pod.CreationTimestamp.Time) > o.patience, ""
	}
	if object := kind.Get(m.PodGroup); object != nil {
		said, err := o.readGroup(dialect.Object{Resource: m.Groups, Key: m.PodGroup}, object)
		if err != nil {
			return false, fmt.Sprintf("PodGroup %s: %v", m.PodGroup, err)
		}
		if said.Min == 0 { // each of its pods on its own
			m.Key, m.PodGroup, m.Object, m.Also = "", "", dialect.Object{}, dialect.Object{}
		}
		return true, ""
	}
	if now.Sub(pod.CreationTimestamp.Time) <= o.patience || !kind.Listed() {
		return false, ""
	}
	return false, fmt.Sprintf("%s: PodGroup %q does not exist", dialect.GroupField(m.Groups), m.PodGroup)
}

// needsOf is what a pod's controller says of its gang; not known while the controller has
// not been seen. One that is gone says nothing. That a kind is not served is not believed at
// once: the pod is a sign that its operator was installed a moment ago.
func (o *owners) needsOf(pod *v1.Pod, owner dialect.Object, size int, now time.Time) (needs dialect.Needs, known bool) {
	kind := o.objects[owner.Resource]
	if kind == nil {
		return dialect.Needs{Whole: size}, true
	}
	if object := kind.Get(owner.Key); object != nil {
		return dialect.NeedsOf(owner.Resource, object, size, pod), true
	}
	if kind.Absent() {
		kind.LookAgain()
	}
	return dialect.Needs{Whole: size}, now.Sub(pod.CreationTimestamp.Time) > o.patience
}

// bounded says whether the controller beside a PodGroup lets fewer pods exist now than the
// PodGroup asks for, which was made for it: Kubeflow's Trainer makes a PodGroup of all pods
// of a JobSet, of which JobSet creates some when others have ended. A PodGroup that a user
// made may be of several controllers.
func (o *owners) bounded(m *dialect.Membership, now int) bool {
	group, object := o.objects[m.Groups].Get(m.PodGroup), o.objects[m.Also.Resource].Get(m.Also.Key)
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
func (o *owners) stated(m *dialect.Membership) (said *dialect.Group, problem string) {
	said, err := o.says(m)
	if err != nil {
		return nil, fmt.Sprintf("%s %s: %v", m.Owner.Kind, m.Object.Key, err)
	}
	return said, ""
}

// says is what the object of a membership states, of kinds that do; nil otherwise.
func (o *owners) says(m *dialect.Membership) (*dialect.Group, error) {
	object := o.objects[m.Object.Resource].Get(m.Object.Key)
	if object == nil || !dialect.States(m.Object.Resource) {
		return nil, nil
	}
	g, err := o.readGroup(m.Object, object)
	return &g, err
}

// said is what the PodGroup of a member says, or its controller of a kind that says as
// much; nil when there is none.
func (o *owners) said(m *Member) *dialect.Group {
	said, _ := o.says(&m.Membership) // errors are reported to members that wait; those that run go on
	return said
}

// classPriority is the value of a PriorityClass.
func (o *owners) classPriority(name string) (int32, bool) {
	class := o.objects[dialect.Priorities].Get(name)
	if name == "" || class == nil {
		return 0, false
	}
	value, _, _ := unstructured.NestedInt64(class.Object, "value")
	return int32(value), true
}

// adopt adds what a pod's controller says in the words of other schedulers; empty, or what
// is wrong with them.
func (o *owners) adopt(pod *v1.Pod, m *dialect.Membership) (problem string) {
	owner := m.Object
	if m.PodGroup != "" || owner.Key == "" {
		owner = m.Also
	}
	object := o.objects[owner.Resource].Get(owner.Key)
	if object == nil {
		return ""
	}
	if err := m.Adopt(object, pod.Spec.SchedulerName, o.levels()); err != nil {
		return fmt.Sprintf("%s %s: %v", object.GetKind(), owner.Key, err)
	}
	return ""
}

// kaiPriorities are the PriorityClasses that KAI installs. They count where the cluster has
// no object of the name, so that its manifests mean the same without KAI.
var kaiPriorities = map[string]int32{"train": 50, "build-preemptible": 75, "build": 100, "inference": 125}

// priorityNamed is the value of a PriorityClass that a label names.
func (o *owners) priorityNamed(class string) (int32, bool) {
	if value, ok := o.classPriority(class); ok {
		return value, true
	}
	value, ok := kaiPriorities[class]
	return value, ok
}

// reading is what a PodGroup, or a controller, was read as. It is kept because each pod of a
// gang asks for it several times, and an object may have a thousand subgroups.
type reading struct {
	uid     types.UID
	version string
	levels  topology.Levels
	group   dialect.Group
	err     error
}

// readGroup is what an object of dialect.Owners says of its gang. What the result refers to is not
// to be changed.
func (o *owners) readGroup(from dialect.Object, object *unstructured.Unstructured) (dialect.Group, error) {
	levels, version := o.levels(), object.GetResourceVersion()
	key := ownerKey(from.Resource, from.Key)
	if r := o.readings[key]; r != nil && version != "" && r.version == version && r.uid == object.GetUID() && slices.Equal(r.levels, levels) {
		return r.group, r.err
	}
	r := &reading{uid: object.GetUID(), version: version, levels: slices.Clone(levels)}
	r.group, r.err = dialect.GroupOf(object, levels)
	o.parsed++
	r.group.Subgroups = slices.Clip(r.group.Subgroups)
	o.readings[key] = r
	return r.group, r.err
}
