package agent

import (
	"context"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/tangram-dev/tangram/api/names"
	"github.com/tangram-dev/tangram/api/record"
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
