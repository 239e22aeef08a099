package binding

import (
	"strconv"

	v1 "k8s.io/api/core/v1"

	"github.com/tangram-dev/tangram/api/names"
)

// Mark adds to the annotations of a pod's Binding what autoscalers read when they look for
// nodes to remove. A member of a gang is not to be moved: the others would stop with it. Of
// other pods the cost of moving them is the devices they hold, so that a node with few in
// use is emptied before one with many. What the pod says itself stays.
func Mark(pod *v1.Pod, annotations map[string]string, gang bool, milli int64) {
	set := func(key, value string) {
		if _, said := pod.Annotations[key]; !said {
			annotations[key] = value
		}
	}
	switch {
	case gang:
		set(names.AnnotationDoNotDisrupt, "true")
		set(names.AnnotationSafeToEvict, "false")
	case milli > 0:
		set(v1.PodDeletionCost, strconv.FormatInt(deletionCost(milli), 10))
	}
}

// perDevice is what Karpenter counts as one pod more: a pod's cost of disruption is 1 plus
// its deletion cost divided by 2^27, at most 10. So the sum over a node's pods is the
// number of devices in use there.
const perDevice = 1 << 27

// deletionCost is a pod's deletion cost, of 32 bits, for what it holds of devices.
func deletionCost(milli int64) int64 {
	const most = 16_000 // 15 more than one: just below what 32 bits hold
	return (min(milli, most) - 1000) * perDevice / 1000
}
