package dialect

import (
	"fmt"
	"strings"

	v1 "k8s.io/api/core/v1"
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
