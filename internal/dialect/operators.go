package dialect

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/tangram-dev/tangram/core/gang"
	"github.com/tangram-dev/tangram/core/model"
	"github.com/tangram-dev/tangram/core/topology"
)

// Kueue's words for plain pods that belong together. Kueue ungates them one after the other when there
// is quota for all: to start them together is the scheduler's part.
const (
	labelKueueGroup      = "kueue.x-k8s.io/pod-group-name"
	annotationKueueTotal = "kueue.x-k8s.io/pod-group-total-count"
	// annotationKueueParent: Kueue made the group of a LeaderWorkerSet's, StatefulSet's or Deployment's pods.
	annotationKueueParent = "kueue.x-k8s.io/pod-suspending-parent"
	// annotationKueueFast: the group is admitted with its first pod, since others may come later.
	annotationKueueFast = "kueue.x-k8s.io/pod-group-fast-admission"
)

// kueueGang begins the key of a gang that is a pod group of Kueue.
const kueueGang = "kueue/"

// kueueGroup is the gang of a pod in a pod group of Kueue, and its size; an empty key for other pods.
// Groups that Kueue made of a controller's pods are left to the controller's row: a StatefulSet makes
// its second pod when the first is ready, so a gang of all would wait for ever.
func kueueGroup(pod *v1.Pod) (key string, size int, err error) {
	name := pod.Labels[labelKueueGroup]
	if name == "" || pod.Annotations[annotationKueueParent] != "" || pod.Annotations[annotationKueueFast] != "" {
		return "", 0, nil
	}
	text, ok := pod.Annotations[annotationKueueTotal]
	if !ok {
		return "", 0, fmt.Errorf("%s: missing, how many pods group %q has", annotation(annotationKueueTotal), name)
	}
	size, err = wholeNumber(text, annotation(annotationKueueTotal), maxGang)
	return kueueGang + pod.Namespace + "/" + name, size, err
}

// ofKueue says whether a gang is a pod group of Kueue.
func (m *Membership) ofKueue() bool { return strings.HasPrefix(m.Key, kueueGang) }

// GroveGangs are the PodGangs that Grove makes for its PodCliqueSets.
var GroveGangs = schema.GroupVersionResource{Group: "scheduler.grove.io", Version: "v1alpha1", Resource: "podgangs"}

// Labels of Grove's pods: the PodGang, and the PodClique, which is a pod group of it.
const (
	groveGang   = "grove.io/podgang"
	groveClique = "grove.io/podclique"
)

var groveGangs = OwnerKind{
	Kind: "PodGang", Resource: GroveGangs, Label: groveGang, group: true, field: label(groveGang), size: groupSize,
	find: func(pod *v1.Pod) (Owned, bool) {
		o, ok := labelledWith(groveGang, "grove/")(pod)
		o.Subgroup = pod.Labels[groveClique]
		return o, ok
	},
}

// groveGroup reads a PodGang: its pod groups are leaves, of which all are needed; those that
// share a topology constraint are inside a subgroup that stands for it.
func groveGroup(o *unstructured.Unstructured, levels topology.Levels) (Group, error) {
	spec := readerOf(o).in("spec")
	g := Group{Min: 1, Priority: spec.text("priorityClassName")}
	g.Require, g.Prefer = spec.packConstraint(levels)
	parents, least := map[string]string{}, 0
	for _, r := range spec.listOf("topologyConstraintGroupConfigs", gang.MaxSubgroups) {
		s := Subgroup{Name: "topology/" + r.text("name")}
		s.Require, s.Prefer = r.packConstraint(levels)
		members, _, _ := unstructured.NestedStringSlice(r.object, "podGroupNames")
		for _, name := range members {
			if other, twice := parents[name]; twice {
				r.fail("podGroupNames", "pod group %q is also in %s", name, other)
			}
			parents[name] = s.Name
		}
		if len(members) > 0 {
			g.Subgroups = append(g.Subgroups, s)
		}
	}
	for _, r := range spec.listOf("podgroups", gang.MaxSubgroups) {
		s := Subgroup{Name: r.text("name"), Min: 1}
		s.Parent = parents[s.Name]
		if n, ok := r.number("minReplicas"); ok {
			s.Min = int(max(0, min(n, maxGang+1)))
		}
		s.Require, s.Prefer = r.packConstraint(levels)
		g.Subgroups = append(g.Subgroups, s)
		least += s.Min
	}
	g.Min = max(1, min(least, maxGang))
	if spec.err() != nil {
		return g, spec.err()
	}
	return g, g.CheckSubgroups(map[string]string{"": "spec.podgroups", "min": "minReplicas"})
}

// packConstraint reads Grove's topologyConstraint by labels of nodes. A preferred level may be unknown.
func (r reader) packConstraint(levels topology.Levels) (require, prefer model.Level) {
	return r.level(levels, "topologyConstraint.packConstraint.required", true), r.level(levels, "topologyConstraint.packConstraint.preferred", false)
}

// Labels that Kubeflow's training-operator puts on pods.
const (
	labelKubeflowJob  = "training.kubeflow.org/job-name"
	labelKubeflowType = "training.kubeflow.org/replica-type"
)

// kubeflowGroupVersion is that of training-operator's kinds; v2beta1 of MPIJob is mpi-operator's.
var kubeflowGroupVersion = schema.GroupVersion{Group: "kubeflow.org", Version: "v1"}

// kubeflowKinds are training-operator's: they differ in the field that has the replicas.
var kubeflowKinds = []OwnerKind{
	kubeflowKind("PyTorchJob", "pytorchjobs", "pytorchReplicaSpecs"),
	kubeflowKind("TFJob", "tfjobs", "tfReplicaSpecs"),
	kubeflowKind("MPIJob", "mpijobs", "mpiReplicaSpecs"),
	kubeflowKind("XGBoostJob", "xgboostjobs", "xgbReplicaSpecs"),
	kubeflowKind("PaddleJob", "paddlejobs", "paddleReplicaSpecs"),
	kubeflowKind("JAXJob", "jaxjobs", "jaxReplicaSpecs"),
}

func kubeflowKind(kind, resource, replicas string) OwnerKind {
	says := func(o *unstructured.Unstructured) (Group, error) { return kubeflowGroup(o, replicas) }
	return OwnerKind{
		Kind: kind, Resource: kubeflowGroupVersion.WithResource(resource), Label: labelKubeflowJob, says: says,
		find: func(pod *v1.Pod) (Owned, bool) {
			o, ok := controlledBy(pod, kind, kubeflowGroupVersion.Group)
			o.Task = pod.Labels[labelKubeflowType]
			return o, ok && o.Reference.APIVersion == kubeflowGroupVersion.String()
		},
		size: func(o *unstructured.Unstructured, _ string) int {
			g, _ := says(o)
			return g.Min
		},
	}
}

// kubeflowGroup reads a job of training-operator, as if the operator had made a PodGroup of its fields
// (--gang-scheduler-name=volcano): all pods start together, of elastic workers the least;
// schedulingPolicy.minAvailable replaces both.
func kubeflowGroup(o *unstructured.Unstructured, replicas string) (Group, error) {
	spec := readerOf(o).in("spec")
	total, least := 0, 0
	kinds := spec.in(replicas)
	if _, there := spec.value(replicas); there && kinds.object == nil {
		spec.fail(replicas, "not a mapping of replicas")
	}
	for _, kind := range slices.Sorted(maps.Keys(kinds.object)) {
		n := kinds.in(kind).count("replicas", 1, 0)
		total += n
		if m, ok := spec.number("elasticPolicy.minReplicas"); ok && kind == "Worker" {
			n = min(n, int(max(1, min(m, maxGang))))
		}
		least += n
	}
	policy := spec.in("runPolicy.schedulingPolicy")
	if n, ok := policy.number("minAvailable"); ok {
		if n < 1 || n > int64(total) {
			policy.fail("minAvailable", "%d is not from 1 to %d, the number of replicas", n, total)
		}
		least = int(min(n, int64(total)))
	}
	return Group{Min: max(1, min(least, maxGang)), Queue: policy.text("queue"), Priority: policy.text("priorityClass")}, spec.err()
}

// Labels and annotations of LeaderWorkerSet's pods.
const (
	labelLWS          = "leaderworkerset.sigs.k8s.io/name"
	labelLWSGroup     = "leaderworkerset.sigs.k8s.io/group-index"
	labelLWSWorker    = "leaderworkerset.sigs.k8s.io/worker-index" // 0 is the leader
	annotationLWSSize = "leaderworkerset.sigs.k8s.io/size"
	// annotationLWSExclusive gives each group a domain: workers are created there when the leader has a place.
	annotationLWSExclusive = "leaderworkerset.sigs.k8s.io/exclusive-topology"
)

// findLWS: each group is a gang. StatefulSets control the pods: one all leaders, one each group's workers.
func findLWS(pod *v1.Pod) (Owned, bool) {
	name, group := pod.Labels[labelLWS], pod.Labels[labelLWSGroup]
	o := Owned{Name: name, Gang: "lws/" + pod.Namespace + "/" + name + "/" + group, Task: "worker", Leader: pod.Labels[labelLWSWorker] == "0"}
	if o.Leader {
		o.Task = "leader"
	}
	return o, name != "" && group != ""
}

// lwsMembers is the size of a pod's group, which differs from the set's while that is being changed.
func lwsMembers(pod *v1.Pod) (int, error) {
	return numberIn(pod.Annotations, annotationLWSSize, annotation(annotationLWSSize), maxGang)
}

// lwsSize: the leader and its workers.
func lwsSize(o *unstructured.Unstructured, _ string) int {
	return readerOf(o).count("spec.leaderWorkerTemplate.size", 1, 1)
}

// lwsFirst: the leader alone, where workers are created when it is ready or has a place.
func lwsFirst(o *unstructured.Unstructured, _ string) int {
	_, exclusive := o.GetAnnotations()[annotationLWSExclusive]
	if exclusive || readerOf(o).text("spec.startupPolicy") == "LeaderReady" {
		return 1
	}
	return 0
}

// Labels of KubeRay's pods.
const (
	labelRayGroup   = "ray.io/group"
	labelRayCluster = "ray.io/cluster"
)

// findRay: RayJobs and RayServices make RayClusters, and those make the pods.
func findRay(pod *v1.Pod) (Owned, bool) {
	o, ok := controlledBy(pod, "RayCluster", RayClusters.Group)
	o.Task = pod.Labels[labelRayGroup]
	return o, ok
}

// raySize: the head and the workers; of autoscaled worker groups the minimum.
func raySize(o *unstructured.Unstructured, _ string) int {
	total, _ := rayCount(o, false)
	return total
}

// rayRunning: a cluster that has been whole goes on with its head and the groups' minimums. With
// replicas of several hosts, which are of no use in part, it is always whole.
func rayRunning(o *unstructured.Unstructured) int {
	total, severalHosts := rayCount(o, true)
	if severalHosts || !hasCondition(o, "RayClusterProvisioned") {
		return 0
	}
	return total
}

// rayCount is the head and the workers, as KubeRay counts them; leastOnly: the groups' minimums.
func rayCount(o *unstructured.Unstructured, leastOnly bool) (total int, severalHosts bool) {
	spec := readerOf(o).in("spec")
	total = 1
	scales := spec.flag("enableInTreeAutoscaling")
	for _, r := range spec.list("workerGroupSpecs") {
		if r.object == nil || r.flag("suspend") {
			continue
		}
		_, given := r.number("replicas")
		_, hasLeast := r.number("minReplicas")
		least := r.count("minReplicas", 0, 0)
		n := max(least, min(r.count("replicas", 0, 0), r.count("maxReplicas", maxGang, 0)))
		if leastOnly || hasLeast && (scales || !given) {
			n = least // the rest comes when there is room
		}
		hosts := r.count("numOfHosts", 1, 1)
		severalHosts = severalHosts || hosts > 1
		total = min(total+n*hosts, maxGang)
	}
	return total, severalHosts
}

// hasCondition says whether a condition of an object's status is True.
func hasCondition(o *unstructured.Unstructured, name string) bool {
	for _, c := range readerOf(o).list("status.conditions") {
		if c.text("type") == name {
			return c.text("status") == "True"
		}
	}
	return false
}
