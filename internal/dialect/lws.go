package dialect

import (
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

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
