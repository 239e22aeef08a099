package agent

import (
	"cmp"
	"maps"
	"slices"
	"strconv"

	v1 "k8s.io/api/core/v1"

	"github.com/tangram-dev/tangram/api/names"
	"github.com/tangram-dev/tangram/api/record"
	"github.com/tangram-dev/tangram/api/v1alpha1"
	"github.com/tangram-dev/tangram/internal/agent/device"
)

// overSlackMiB is how much a pod may use beyond its share: what the driver takes for each
// process counts too.
const overSlackMiB = 512

// overMemory are the pods that use more of a device's memory than their record gives them
// of it, by the device's UUID. Pods that were given a device, a turn or a slice as a whole
// cannot.
func (a *Agent) overMemory(samples []device.Sample) map[string][]v1alpha1.MemoryUse {
	given := map[string]map[string]*v1alpha1.MemoryUse{} // by device, by namespace/name
	a.eachRecorded(func(pod *v1.Pod, _ string, d record.Device) {
		if d.MemoryMiB == 0 || d.UUID == "" {
			return
		}
		if given[d.UUID] == nil {
			given[d.UUID] = map[string]*v1alpha1.MemoryUse{}
		}
		use := given[d.UUID][pod.Namespace+"/"+pod.Name]
		if use == nil {
			use = &v1alpha1.MemoryUse{PodUID: string(pod.UID), UsedMiB: a.simulatedMemory(pod)}
			given[d.UUID][pod.Namespace+"/"+pod.Name] = use
		}
		use.GivenMiB += d.MemoryMiB
	})
	for _, s := range samples {
		if len(given[s.UUID]) == 0 || s.Err != nil {
			continue
		}
		for _, p := range s.Processes {
			if h, ok := a.containerOf(p.PID); ok && given[s.UUID][h.Namespace+"/"+h.Pod] != nil {
				given[s.UUID][h.Namespace+"/"+h.Pod].UsedMiB += p.MemoryMiB
			}
		}
	}
	out := map[string][]v1alpha1.MemoryUse{}
	for uuid, pods := range given {
		for _, name := range slices.Sorted(maps.Keys(pods)) {
			if use := pods[name]; use.UsedMiB > use.GivenMiB+overSlackMiB {
				out[uuid] = append(out[uuid], *use)
			}
		}
		slices.SortFunc(out[uuid], func(a, b v1alpha1.MemoryUse) int { return cmp.Compare(a.PodUID, b.PodUID) })
	}
	return out
}

// simulatedMemory is what a pod on a node that is only played says it uses.
func (a *Agent) simulatedMemory(pod *v1.Pod) int64 {
	if a.o.Kubelet {
		return 0
	}
	mib, err := strconv.ParseInt(pod.Annotations[names.AnnotationSimulatedMemory], 10, 64)
	if err != nil {
		return 0
	}
	return max(0, mib)
}
