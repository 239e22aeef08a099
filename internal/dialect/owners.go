package dialect

import (
	"fmt"
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

// OwnerKind is a kind of object with pods that run together. All kinds are in one
// table: to support another kind, add a row.
type OwnerKind struct {
	Kind     string
	Resource schema.GroupVersionResource
	// Label is one that all pods of such an object have; empty when there is none.
	Label string
	// find is the object a pod belongs to; false when it belongs to none of the kind.
	find func(pod *v1.Pod) (Owned, bool)
	// size is how many pods can exist together now; 0 when each may start alone.
	size func(o *unstructured.Unstructured) int
	// group: a PodGroup, which goes before controllers.
	group bool
}

// Owned is the object that a pod belongs to, as the pod names it.
type Owned struct {
	// Name is the object's, in the pod's namespace.
	Name string
	// Gang names the gang in the cluster.
	Gang string
	// Task is the pod's role there.
	Task string
	// Reference is the controller's; of a PodGroup it is empty.
	Reference metav1.OwnerReference
}

// Object names an object of a kind by its resource and namespace/name.
type Object struct {
	Resource schema.GroupVersionResource
	Key      string
}

// Owners are the kinds in order of precedence: PodGroups first.
func Owners() []OwnerKind { return slices.Concat(podGroupKinds, controllerKinds) }

// Find is the object of this kind that a pod belongs to.
func (k *OwnerKind) Find(pod *v1.Pod) (Owned, bool) { return k.find(pod) }

// SizeOf is how many pods of an object of a kind in the table start together now; 0 for
// other kinds, and when each may start alone. It counts what the object's own controller can
// create now: pods that are created only when others run do not count, or both would wait
// for each other.
func SizeOf(o *unstructured.Unstructured) int {
	group, _, _ := strings.Cut(o.GetAPIVersion(), "/")
	for _, k := range Owners() {
		if k.Kind == o.GetKind() && (o.GetAPIVersion() == "" || k.Resource.Group == group) {
			if n, ok := kaiSize(o, k.Resource); ok {
				return n
			}
			return k.size(o)
		}
	}
	return 0
}

// kindOf is the row of a resource, or nil.
func kindOf(r schema.GroupVersionResource) *OwnerKind {
	for _, k := range Owners() {
		if k.Resource == r {
			return &k
		}
	}
	return nil
}

// Labels of JobSet's, KubeRay's and Volcano's pods.
const (
	labelJobSet        = "jobset.sigs.k8s.io/jobset-name"
	labelReplicatedJob = "jobset.sigs.k8s.io/replicatedjob-name"
	labelRayGroup      = "ray.io/group"
	labelRayCluster    = "ray.io/cluster"
	labelVolcanoJob    = "volcano.sh/job-name"
)

// podGroupKinds are named by the pod itself.
var podGroupKinds = []OwnerKind{
	{
		Kind: "PodGroup", Resource: KubeGroups, group: true, size: groupSize,
		find: func(pod *v1.Pod) (Owned, bool) {
			if g := pod.Spec.SchedulingGroup; g != nil && g.PodGroupName != nil {
				return Owned{Name: *g.PodGroupName, Gang: "group/" + pod.Namespace + "/" + *g.PodGroupName}, true
			}
			return Owned{}, false
		},
	},
	{
		Kind: "PodGroup", Resource: PodGroups, group: true, size: groupSize,
		find: func(pod *v1.Pod) (Owned, bool) {
			for _, key := range []string{names.AnnotationKubeGroup, names.AnnotationVolcanoGroup} {
				if name := pod.Annotations[key]; name != "" {
					return Owned{Name: name, Gang: "podgroup/" + pod.Namespace + "/" + name}, true
				}
			}
			return Owned{}, false
		},
	},
	kaiGroups,
	koordGroups,
}

// controllerKinds are found by labels or by the pod's controller. A JobSet's pods are
// controlled by its Jobs, so it precedes them.
var controllerKinds = []OwnerKind{
	{
		Kind: "JobSet", Resource: JobSets, Label: labelJobSet, size: jobSetSize,
		find: func(pod *v1.Pod) (Owned, bool) {
			name := pod.Labels[labelJobSet]
			return Owned{
				Name: name, Gang: "jobset/" + pod.Namespace + "/" + name, Task: pod.Labels[labelReplicatedJob],
				Reference: metav1.OwnerReference{Kind: "JobSet", Name: name},
			}, name != ""
		},
	},
	{
		Kind: "RayCluster", Resource: RayClusters, Label: labelRayCluster, size: raySize,
		find: func(pod *v1.Pod) (Owned, bool) {
			o, ok := controlledBy(pod, "RayCluster", RayClusters.Group)
			o.Task = pod.Labels[labelRayGroup]
			return o, ok
		},
	},
	{
		Kind: "Job", Resource: Jobs, size: jobSize,
		find: func(pod *v1.Pod) (Owned, bool) { return controlledBy(pod, "Job", Jobs.Group) },
	},
}

// controlledBy is the pod's controller, if it is of a kind.
func controlledBy(pod *v1.Pod, kind, group string) (Owned, bool) {
	owner := metav1.GetControllerOf(pod)
	if owner == nil || owner.Kind != kind || !strings.HasPrefix(owner.APIVersion, group+"/") {
		return Owned{}, false
	}
	return Owned{Name: owner.Name, Gang: ownerGang(pod, owner), Reference: *owner}, true
}

// ownerGang names the gang of a controller's pods. The namespace is part of it: anyone who
// may create pods may write the UID of an object of another namespace into one.
func ownerGang(pod *v1.Pod, owner *metav1.OwnerReference) string {
	return "owner/" + pod.Namespace + "/" + string(owner.UID)
}

// groupSize: the group's minimum. Invalid values are reported by GroupOf.
func groupSize(o *unstructured.Unstructured) int {
	g, _ := GroupOf(o, topology.DefaultLevels())
	return g.Min
}

// jobSize: a Job without indexes, or with more indexes than run at a time, is a set of
// single pods. Completed indexes are not run again.
func jobSize(o *unstructured.Unstructured) int {
	var err error
	job := reader{o.Object, &err}
	n := job.parallelism("spec")
	if c, ok := job.number("spec", "completions"); ok && c > int64(n) || job.text("spec", "completionMode") != "Indexed" {
		return 0
	}
	return max(0, n-job.indexes("status", "completedIndexes")-job.indexes("status", "failedIndexes"))
}

// jobSetSize: the pods of all replicated jobs, but those of jobs that JobSet has not
// created yet because they wait for others (dependsOn, or startupPolicy InOrder).
func jobSetSize(o *unstructured.Unstructured) int {
	var err error
	set := reader{o.Object, &err}
	inOrder := set.text("spec", "startupPolicy", "startupPolicyOrder") == "InOrder"
	total := 0
	jobs, _, _ := unstructured.NestedSlice(o.Object, "spec", "replicatedJobs")
	replicas := map[string]int64{}
	for _, j := range jobs {
		job, ok := j.(map[string]any)
		if !ok {
			continue
		}
		r := reader{job, &err}
		name, n := r.text("name"), int64(1)
		if given, ok := r.number("replicas"); ok {
			n = max(0, min(given, maxGang))
		}
		replicas[name] = n
		if !set.dependenciesMet(job, replicas) {
			continue
		}
		total += int(n) * max(1, r.parallelism("template", "spec"))
		if inOrder && !set.jobIs(name, "Ready", n) {
			break // those after it are created when it is ready
		}
	}
	return min(total, maxGang)
}

// dependenciesMet says whether a JobSet has created a replicated job: all jobs that it
// depends on have the required status.
func (r reader) dependenciesMet(job map[string]any, replicas map[string]int64) bool {
	list, _, _ := unstructured.NestedSlice(job, "dependsOn")
	for _, d := range list {
		if on, ok := d.(map[string]any); ok {
			dependency := reader{on, r.err}
			if name := dependency.text("name"); !r.jobIs(name, dependency.text("status"), replicas[name]) {
				return false
			}
		}
	}
	return true
}

// jobIs says whether all replicas of a JobSet's replicated job are Ready, or Complete.
func (r reader) jobIs(name, status string, replicas int64) bool {
	list, _, _ := unstructured.NestedSlice(r.object, "status", "replicatedJobsStatus")
	for _, s := range list {
		if state, ok := s.(map[string]any); ok {
			of := reader{state, r.err}
			if of.text("name") != name {
				continue
			}
			done, _ := of.number("succeeded")
			if status != "Complete" {
				ready, _ := of.number("ready")
				done += ready
			}
			return done >= replicas
		}
	}
	return replicas == 0
}

// raySize: the head and the workers; of autoscaled worker groups the minimum.
func raySize(o *unstructured.Unstructured) int {
	var err error
	total := 1
	scales, _, _ := unstructured.NestedBool(o.Object, "spec", "enableInTreeAutoscaling")
	groups, _, _ := unstructured.NestedSlice(o.Object, "spec", "workerGroupSpecs")
	for _, g := range groups {
		if group, ok := g.(map[string]any); ok {
			r := reader{group, &err}
			n, ok := r.number("replicas")
			if least, has := r.number("minReplicas"); has && (scales || !ok) {
				n = least // the rest comes when there is room
			}
			hosts, ok := r.number("numOfHosts")
			if !ok {
				hosts = 1
			}
			total += int(max(0, min(n, maxGang)) * max(1, min(hosts, maxGang)))
		}
	}
	return min(total, maxGang)
}

// indexes counts a Job's indexes, written like 1,3-5,7.
func (r reader) indexes(path ...string) (n int) {
	text := r.text(path...)
	if text == "" {
		return 0
	}
	for _, part := range strings.Split(text, ",") {
		first, last, isRange := strings.Cut(part, "-")
		a, err := strconv.Atoi(first)
		b := a
		if isRange && err == nil {
			b, err = strconv.Atoi(last)
		}
		if err != nil || b < a {
			r.note(fmt.Errorf("%q are no indexes", text), path)
			return 0
		}
		n += b - a + 1
	}
	return n
}

func (r reader) parallelism(path ...string) int {
	n, ok := r.number(append(slices.Clone(path), "parallelism")...)
	if !ok {
		n = 1
	}
	if c, ok := r.number(append(slices.Clone(path), "completions")...); ok {
		n = min(n, c)
	}
	return int(max(0, min(n, maxGang)))
}
