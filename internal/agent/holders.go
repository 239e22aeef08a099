package agent

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/tangram-dev/tangram/api/names"
	"github.com/tangram-dev/tangram/api/record"
	"github.com/tangram-dev/tangram/api/v1alpha1"
	"github.com/tangram-dev/tangram/internal/agent/device"
	"github.com/tangram-dev/tangram/internal/agent/export"
	"github.com/tangram-dev/tangram/internal/agent/sharing/mps"
)

// holders remembers which containers hold which device, for metrics and for the judgement of
// errors: kubelet must not be asked each time.
type holders struct {
	byDevice atomic.Pointer[map[string][]export.Holder] // by UUID of device or instance; nil before the first
}

// refreshEvery is how old that may be.
const refreshEvery = 15 * time.Second

func (h *holders) of(uuid string) []export.Holder {
	if all := h.byDevice.Load(); all != nil {
		return (*all)[uuid]
	}
	return nil
}

// tenants are the namespaces of the containers that hold a device.
func (h *holders) tenants(uuid string, _ int) (out []string) {
	for _, x := range h.of(uuid) {
		out = append(out, x.Namespace)
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// followHolders keeps them fresh until the context ends.
func (a *Agent) followHolders(ctx context.Context) {
	for ok := true; ok; ok = paused(ctx, refreshEvery) {
		a.refreshHolders(ctx)
	}
}

func (a *Agent) refreshHolders(ctx context.Context) {
	out := map[string][]export.Holder{}
	add := func(d record.Device, h export.Holder) {
		for _, uuid := range []string{d.UUID, a.instanceAt(d)} {
			if uuid != "" && !slices.Contains(out[uuid], h) {
				out[uuid] = append(out[uuid], h)
			}
		}
	}
	if a.book != nil {
		ctx, cancel := context.WithTimeout(ctx, callTimeout)
		defer cancel()
		all, err := a.book.Holdings(ctx)
		if err != nil {
			return // the last ones are better than none
		}
		for _, h := range all {
			if h.Pod == nil {
				continue
			}
			for _, d := range h.Devices {
				add(d, export.Holder{Namespace: h.Pod.Namespace, Pod: h.Pod.Name, Container: h.Container})
			}
		}
		a.claimHolders(add)
	} else { // no kubelet: what was recorded is what was given
		a.eachRecorded(func(pod *v1.Pod, container string, d record.Device) {
			add(d, export.Holder{Namespace: pod.Namespace, Pod: pod.Name, Container: container})
		})
	}
	a.holders.byDevice.Store(&out)
}

// eachRecorded visits the devices that the records of running pods name.
func (a *Agent) eachRecorded(visit func(pod *v1.Pod, container string, d record.Device)) {
	for _, pod := range a.o.Pods.List() {
		if pod.Status.Phase != v1.PodRunning {
			continue
		}
		r, err := record.Decode(pod.Annotations[names.AnnotationDevices])
		if err != nil || r.Node != a.o.Node {
			continue
		}
		for _, c := range r.Containers {
			for _, d := range c.Devices {
				visit(pod, c.Name, d)
			}
		}
	}
}

// instanceAt is the UUID of the MIG instance that a recorded slice is, or "".
func (a *Agent) instanceAt(d record.Device) string {
	if i := a.Inventory().Find(d.UUID).InstanceAt(d.MIG, d.Start); i != nil && d.MIG != "" {
		return i.UUID
	}
	return ""
}

// containerOf is the container that a process of the node belongs to.
func (a *Agent) containerOf(pid int) (export.Holder, bool) {
	owner, ok, err := mps.OwnerOf("/proc", pid)
	if err != nil || !ok {
		return export.Holder{}, false
	}
	pod, name := a.containerByID(owner.PodUID, owner.ContainerID)
	if pod == nil {
		return export.Holder{}, false
	}
	return export.Holder{Namespace: pod.Namespace, Pod: pod.Name, Container: name}, true
}

// containerByID is a pod by its UID, nil for none, and the name of its container by the runtime's ID,
// empty for none.
func (a *Agent) containerByID(podUID, id string) (*v1.Pod, string) {
	for _, pod := range a.o.Pods.List() {
		if string(pod.UID) != podUID {
			continue
		}
		for _, s := range slices.Concat(pod.Status.ContainerStatuses, pod.Status.InitContainerStatuses) {
			if _, short, ok := strings.Cut(s.ContainerID, "://"); ok && short == id {
				return pod, s.Name
			}
		}
		return pod, ""
	}
	return nil, ""
}

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
