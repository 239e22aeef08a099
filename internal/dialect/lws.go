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
	// annotationLWSExclusive gives each group a domain of its own: workers are created
	// when the leader has a place, and are sent to its domain.
	annotationLWSExclusive = "leaderworkerset.sigs.k8s.io/exclusive-topology"
)

// findLWS: each group of a set is a gang. The pods are controlled by StatefulSets, one for
// all leaders and one for the workers of each group.
func findLWS(pod *v1.Pod) (Owned, bool) {
	name, group := pod.Labels[labelLWS], pod.Labels[labelLWSGroup]
	o := Owned{Name: name, Gang: "lws/" + pod.Namespace + "/" + name + "/" + group, Task: "worker", Leader: pod.Labels[labelLWSWorker] == "0"}
	if o.Leader {
		o.Task = "leader"
	}
	return o, name != "" && group != ""
}

// lwsMembers is the size of a pod's group, which may differ from what its set says while
// that is being changed.
func lwsMembers(pod *v1.Pod) (int, error) {
	text, ok := pod.Annotations[annotationLWSSize]
	if !ok {
		return 0, nil
	}
	return wholeNumber(text, annotation(annotationLWSSize), maxGang)
}

// lwsSize: the leader and its workers.
func lwsSize(o *unstructured.Unstructured, _ string) int {
	return readerOf(o).count("spec.leaderWorkerTemplate.size", 1, 1)
}

// lwsFirst: where workers are created when the leader is ready, or has a place, the leader
// alone.
func lwsFirst(o *unstructured.Unstructured, _ string) int {
	_, exclusive := o.GetAnnotations()[annotationLWSExclusive]
	if exclusive || readerOf(o).text("spec.startupPolicy") == "LeaderReady" {
		return 1
	}
	return 0
}
