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
func raySize(o *unstructured.Unstructured) int {
	total, _ := rayCount(o, false)
	return total
}

// rayRunning: a cluster that has been whole goes on with its head and the groups'
// minimums, and takes every worker that fits beyond these. Replicas of several hosts are
// of no use in part, so clusters with such are always whole.
func rayRunning(o *unstructured.Unstructured) int {
	total, severalHosts := rayCount(o, true)
	if severalHosts || !hasCondition(o, "RayClusterProvisioned") {
		return 0
	}
	return total
}

// rayCount is the head and the workers, as KubeRay counts them; leastOnly: the groups'
// minimums.
func rayCount(o *unstructured.Unstructured, leastOnly bool) (total int, severalHosts bool) {
	var err error
	total = 1
	scales, _, _ := unstructured.NestedBool(o.Object, "spec", "enableInTreeAutoscaling")
	groups, _, _ := unstructured.NestedSlice(o.Object, "spec", "workerGroupSpecs")
	for _, g := range groups {
		group, ok := g.(map[string]any)
		if !ok {
			continue
		}
		if suspended, _, _ := unstructured.NestedBool(group, "suspend"); suspended {
			continue
		}
		r := reader{group, &err}
		n, given := r.number("replicas")
		least, hasLeast := r.number("minReplicas")
		if most, ok := r.number("maxReplicas"); ok {
			n = min(n, most)
		}
		switch n = max(n, least); {
		case leastOnly, hasLeast && (scales || !given):
			n = least // the rest comes when there is room
		}
		hosts, ok := r.number("numOfHosts")
		if !ok {
			hosts = 1
		}
		hosts = max(1, min(hosts, maxGang))
		severalHosts = severalHosts || hosts > 1
		total += int(max(0, min(n, maxGang)) * hosts)
	}
	return min(total, maxGang), severalHosts
}

// hasCondition says whether a condition of an object's status is True.
func hasCondition(o *unstructured.Unstructured, name string) bool {
	conditions, _, _ := unstructured.NestedSlice(o.Object, "status", "conditions")
	for _, c := range conditions {
		if condition, ok := c.(map[string]any); ok && condition["type"] == name {
			return condition["status"] == "True"
		}
	}
	return false
}
