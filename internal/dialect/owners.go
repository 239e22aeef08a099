package dialect

import (
	"cmp"
	"slices"
	"strconv"
	"strings"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/tangram-dev/tangram/api/names"
	"github.com/tangram-dev/tangram/core/topology"
)

// OwnerKind is a kind of object whose pods run together: a row of the table of all kinds.
type OwnerKind struct {
	Kind     string
	Resource schema.GroupVersionResource
	// Label is one that all pods of such an object have; empty when there is none.
	Label string
	// find is the object a pod belongs to; false when it belongs to none of the kind.
	find func(pod *v1.Pod) (Owned, bool)
	// size is how many pods can exist together now; 0 when each may start alone. task is that of a pod,
	// which may exist before the object's status says so; may be empty.
	size func(o *unstructured.Unstructured, task string) int
	// says is what a controller states about its gang besides the size, as a PodGroup would; may be nil.
	says func(o *unstructured.Unstructured) (Group, error)
	// group: a PodGroup, which goes before controllers. field is where a pod names it.
	group bool
	field string

	// What follows is for kinds that create pods by and by, or change while they run; nil for others.

	// members is how many pods a pod says belong together, of objects that stand for several gangs.
	members func(pod *v1.Pod) (int, error)
	// first is how many can exist before the leaders among them have places, where the
	// others are created only then; 0 where all are created at once.
	first func(o *unstructured.Unstructured, task string) int
	// running is how many are needed by a gang that has been whole and still has members
	// with places: more may come and go one by one. 0 while it has not been whole.
	running func(o *unstructured.Unstructured) int
	// later is how many pods are created only when others are ready, of kinds whose gangs are by labels alone.
	later func(o *unstructured.Unstructured) int
	// over says whether a task is over, so that size does not count it; nil: size counts succeeded pods, too.
	over func(o *unstructured.Unstructured, task string) bool
	// ahead: it says better than a PodGroup how many are needed, since the operator that
	// writes the PodGroup does not change it with what has happened.
	ahead bool
	// bounds: a PodGroup that was made for the object, or for what controls it, needs no more
	// than this says: the program that writes the PodGroup counts pods that have ended as well.
	bounds bool
}

// Owned is the object that a pod belongs to, as the pod names it.
type Owned struct {
	// Name is the object's, in the pod's namespace.
	Name string
	// Gang names the gang in the cluster.
	Gang string
	// Task is the pod's role there, Subgroup the subgroup that it is in; may be empty.
	Task, Subgroup string
	// Leader: it exists first, of kinds that create the others when these have places.
	Leader bool
	// Reference is the controller's; of a PodGroup it is empty.
	Reference metav1.OwnerReference
}

// Needs is how many members a gang needs now: those that its controller can create. Pods that are
// created only when others run do not count, or both would wait for each other.
type Needs struct {
	// First while there are leaders only, Whole otherwise; First is 0 where it is the same.
	// Whole is 0 when each may start alone.
	First, Whole int
	// Running of a gang that has been whole, while any member has its place; 0: as to start.
	Running int
	// Later of those that are counted elsewhere are created when others of the same object are ready.
	Later int
}

// NeedsOf is what an object of a kind in the table says of the gang of one of its pods; size
// is how many members the pod itself speaks of, 0 if it does not.
func NeedsOf(kind schema.GroupVersionResource, o *unstructured.Unstructured, size int, pod *v1.Pod) Needs {
	k := kindOf(kind)
	if k.find == nil {
		return Needs{}
	}
	found, _ := k.find(pod)
	n := Needs{Whole: k.sizeNow(o, found.Task)}
	if k.members != nil && size > 0 {
		n.Whole = size
	}
	if k.first != nil {
		n.First = min(n.Whole, k.first(o, found.Task))
	}
	if k.running != nil {
		n.Running = min(n.Whole, k.running(o))
	}
	if k.later != nil {
		n.Later = k.later(o)
	}
	return n
}

// sizeNow is how many pods of an object start together: by KAI's annotation, else by the kind's own
// rule; of a JobSet not more than it can create now, before others.
func (k *OwnerKind) sizeNow(o *unstructured.Unstructured, task string) int {
	n, ok := kaiSize(o, k.Resource)
	if ok && k.Resource != JobSets {
		return n
	}
	if size := k.size(o, task); !ok || size < n {
		return size
	}
	return n
}

// Object names an object of a kind by its resource and namespace/name.
type Object struct {
	Resource schema.GroupVersionResource
	Key      string
}

// owners are the kinds in order of precedence: PodGroups first.
var owners = slices.Concat(podGroupKinds, controllerKinds, labelledKinds)

// Owners are the kinds in order of precedence. They are read only.
func Owners() []OwnerKind { return owners }

// Watched are the kinds of objects that say something about gangs.
func Watched() []schema.GroupVersionResource {
	var out []schema.GroupVersionResource
	for i := range owners {
		out = append(out, owners[i].Resource)
	}
	return out
}

// GroupField is the field in which a pod names its PodGroup of a kind.
func GroupField(kind schema.GroupVersionResource) string { return kindOf(kind).field }

// States says whether objects of a kind state more about their gang than its size, which
// GroupOf reads: PodGroups, and controllers with fields for queue and priority.
func States(kind schema.GroupVersionResource) bool {
	k := kindOf(kind)
	return k.group || k.says != nil
}

// Over says whether an object does not count the pods of a task any more: all have succeeded.
func Over(kind schema.GroupVersionResource, o *unstructured.Unstructured, task string) bool {
	k := kindOf(kind)
	return k.over != nil && o != nil && k.over(o, task)
}

// Bounds says whether objects of a kind bound the PodGroups that are made for them.
func Bounds(kind schema.GroupVersionResource) bool { return kindOf(kind).bounds }

// SizeOf is how many pods of an object of a kind in the table start together now; 0 for
// other kinds, and when each may start alone.
func SizeOf(o *unstructured.Unstructured) int {
	if k := kindOfObject(o); k.size != nil {
		return k.sizeNow(o, "")
	}
	return 0
}

// kindOfObject is the row of an object, kindOf that of a resource; an empty one of others.
func kindOfObject(o *unstructured.Unstructured) *OwnerKind {
	return row(func(k *OwnerKind) bool {
		return k.Kind == o.GetKind() && (o.GetAPIVersion() == "" || k.Resource.GroupVersion().String() == o.GetAPIVersion())
	})
}

func kindOf(r schema.GroupVersionResource) *OwnerKind {
	return row(func(k *OwnerKind) bool { return k.Resource == r })
}

func row(is func(k *OwnerKind) bool) *OwnerKind {
	for i := range owners {
		if is(&owners[i]) {
			return &owners[i]
		}
	}
	return &OwnerKind{}
}

// labelVolcanoJob is on the pods of a Volcano Job.
const labelVolcanoJob = "volcano.sh/job-name"

// podGroupKinds are named by the pod itself.
var podGroupKinds = []OwnerKind{
	{
		Kind: "PodGroup", Resource: KubeGroups, group: true, field: "spec.schedulingGroup.podGroupName", size: groupSize,
		find: func(pod *v1.Pod) (Owned, bool) {
			if g := pod.Spec.SchedulingGroup; g != nil && g.PodGroupName != nil {
				return Owned{Name: *g.PodGroupName, Gang: "group/" + pod.Namespace + "/" + *g.PodGroupName}, true
			}
			return Owned{}, false
		},
	},
	{
		Kind: "PodGroup", Resource: PodGroups, group: true, field: annotation(names.AnnotationKubeGroup), size: groupSize,
		find: func(pod *v1.Pod) (Owned, bool) {
			name := cmp.Or(pod.Annotations[names.AnnotationKubeGroup], pod.Annotations[names.AnnotationVolcanoGroup])
			return Owned{Name: name, Gang: "podgroup/" + pod.Namespace + "/" + name}, name != ""
		},
	},
	kaiGroups,
	koordGroups,
	groveGangs,
	{
		Kind: "PodGroup", Resource: PluginGroups, Label: names.LabelPluginGroup, group: true, field: label(names.LabelPluginGroup), size: groupSize,
		find: labelledWith(names.LabelPluginGroup, "plugingroup/"),
	},
}

// controllerKinds are found by labels or by the pod's controller. A JobSet's pods are
// controlled by its Jobs and a LeaderWorkerSet's by StatefulSets, so they precede them.
var controllerKinds = slices.Concat([]OwnerKind{
	{
		Kind: "JobSet", Resource: JobSets, Label: labelJobSet, find: findJobSet, size: jobSetSize, first: jobSetFirst, over: jobOver, bounds: true,
	},
	{
		Kind: "RayCluster", Resource: RayClusters, Label: labelRayCluster, find: findRay, size: raySize, running: rayRunning, ahead: true,
	},
	{
		Kind: "LeaderWorkerSet", Resource: LeaderWorkerSets, Label: labelLWS, find: findLWS, size: lwsSize, members: lwsMembers, first: lwsFirst, ahead: true,
	},
	{
		Kind: "Job", Resource: Jobs, size: jobSize,
		find: func(pod *v1.Pod) (Owned, bool) { return controlledBy(pod, "Job", Jobs.Group) },
	},
}, kubeflowKinds)

// labelledKinds are controllers of pods that belong together by Tangram's labels alone.
// Deployments create all their pods at once, so there is nothing to know about them.
var labelledKinds = []OwnerKind{
	{
		Kind: "StatefulSet", Resource: StatefulSets, later: statefulSetLater,
		size: func(*unstructured.Unstructured, string) int { return 0 },
		find: func(pod *v1.Pod) (Owned, bool) { return controlledBy(pod, "StatefulSet", StatefulSets.Group) },
	},
}

// labelledWith finds the object that a label of the pod names; prefix begins the gang's name.
func labelledWith(key, prefix string) func(pod *v1.Pod) (Owned, bool) {
	return func(pod *v1.Pod) (Owned, bool) {
		name := pod.Labels[key]
		return Owned{Name: name, Gang: prefix + pod.Namespace + "/" + name}, name != ""
	}
}

// controlledBy is the pod's controller, if it is of a kind.
func controlledBy(pod *v1.Pod, kind, group string) (Owned, bool) {
	owner := metav1.GetControllerOf(pod)
	if owner == nil || owner.Kind != kind || !strings.HasPrefix(owner.APIVersion, group+"/") {
		return Owned{}, false
	}
	return Owned{Name: owner.Name, Gang: ownerGang(pod, owner), Reference: *owner}, true
}

// ownerGang names the gang of a controller's pods, with the namespace: a pod may name a UID of another one.
func ownerGang(pod *v1.Pod, owner *metav1.OwnerReference) string {
	return "owner/" + pod.Namespace + "/" + string(owner.UID)
}

// groupSize: the group's minimum. Invalid values are reported by GroupOf.
func groupSize(o *unstructured.Unstructured, _ string) int {
	g, _ := podGroup(o, topology.DefaultLevels())
	return g.Min
}

// jobSize: a Job without indexes, or with more indexes than run at a time, is a set of
// single pods. Completed indexes are not run again.
func jobSize(o *unstructured.Unstructured, _ string) int {
	job := readerOf(o)
	n := job.in("spec").parallelism()
	if c, ok := job.number("spec.completions"); ok && c > int64(n) || job.text("spec.completionMode") != "Indexed" {
		return 0
	}
	return max(0, n-job.indexes("status.completedIndexes")-job.indexes("status.failedIndexes"))
}

// indexes counts a Job's indexes, written like 1,3-5,7.
func (r reader) indexes(path string) (n int) {
	text := r.text(path)
	if text == "" {
		return 0
	}
	for part := range strings.SplitSeq(text, ",") {
		first, last, isRange := strings.Cut(part, "-")
		a, err := strconv.Atoi(first)
		b := a
		if isRange && err == nil {
			b, err = strconv.Atoi(last)
		}
		if err != nil || b < a {
			r.fail(path, "%q are no indexes", text)
			return 0
		}
		n += b - a + 1
	}
	return n
}

// parallelism is how many pods the spec of a Job runs at once.
func (r reader) parallelism() int {
	n := r.count("parallelism", 1, 0)
	return min(n, r.count("completions", n, 0))
}

// statefulSetLater: by default a StatefulSet creates each pod when those before it are
// ready. With podManagementPolicy Parallel it creates all at once.
func statefulSetLater(o *unstructured.Unstructured) int {
	set := readerOf(o)
	if set.text("spec.podManagementPolicy") == "Parallel" {
		return 0
	}
	return max(0, set.count("spec.replicas", 1, 0)-set.count("status.readyReplicas", 0, 0)-1)
}
