package dialect

import (
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

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
