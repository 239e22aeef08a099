package records

import (
	"fmt"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/tangram-dev/tangram/api/record"
	"github.com/tangram-dev/tangram/internal/agent/device"
)

// running says whether a container runs, as the API server knows.
func running(pod *v1.Pod, container string) bool {
	return statusOf(pod, container).State.Running != nil
}

// byClaim says whether a container has a resource by a ResourceClaim, and not from a
// device plugin.
func byClaim(pod *v1.Pod, container, resource string) bool {
	x := pod.Status.ExtendedResourceClaimStatus
	return x != nil && slices.ContainsFunc(x.RequestMappings, func(m v1.ContainerExtendedResourceRequest) bool {
		return m.ContainerName == container && m.ResourceName == resource
	})
}

// forgotten are the devices of running containers of which kubelet lists none, as the
// pods' records say. Init containers are among them: kubelet never lists those.
func forgotten(pods []*v1.Pod, listing Listing, node string, inv *device.Inventory, asked time.Time) (out []*Held) {
	for _, pod := range pods {
		if !live(pod) {
			continue
		}
		l := listing.Find(pod.Namespace, pod.Name)
		for _, a := range gpuAsks(pod) {
			if !running(pod, a.container) || byClaim(pod, a.container, a.resource) || len(l.Devices(a.container, a.resource)) > 0 {
				continue
			}
			r, _ := readRecord(pod, node)
			e := entryOf(r, a.container, a.resource)
			if e == nil || len(e.Devices) != a.count {
				continue
			}
			h := &Held{Pod: pod, Container: a.container, Init: a.init, Resource: a.resource, listed: true, forgotten: !a.init, since: asked, recorded: true}
			for _, d := range e.Devices {
				h.IDs = append(h.IDs, idOf(d, inv))
			}
			slices.Sort(h.IDs)
			out = append(out, h)
		}
	}
	return out
}

// remember adds what records say, where nothing better is known. A record may be wrong or
// forged: it does not count against what another pod is known to hold.
func (j *journal) remember(recorded []*Held, before journal, inv *device.Inventory) {
	known := slices.Clone(j.entries)
	for _, h := range recorded {
		if j.find(h.uid(), h.Container, h.Resource) != nil || slices.ContainsFunc(known, func(e *Held) bool {
			return e.uid() != h.uid() && anyOf(e.means(inv), h.means(inv), use.excludes)
		}) {
			continue
		}
		if e := before.find(h.uid(), h.Container, h.Resource); e != nil && e.forgotten {
			h.since = e.since
		}
		j.entries = append(j.entries, h)
	}
}

// means are the uses that the IDs of an entry stand for.
func (h *Held) means(inv *device.Inventory) (out []use) {
	for _, id := range h.IDs {
		if d, told, err := ReadID(h.Resource, id, inv); err == nil && told {
			out = append(out, useOf(d, inv))
		}
	}
	return out
}

// idOf is a device ID for an entry of a record. A record does not number turns: the ID
// then is none that kubelet has.
func idOf(d record.Device, inv *device.Inventory) string {
	d.UUID = useOf(d, inv).gpu // a record may name a device by its index only
	switch {
	case d.MIG != "":
		return ID{UUID: d.UUID, Kind: NewSlice, Profile: d.MIG, Start: d.Start}.String()
	case d.Turn || d.MemoryMiB > 0 || d.ComputeMilli > 0:
		return ID{UUID: d.UUID, Kind: Turn, Turn: maxTurn}.String()
	}
	return d.UUID
}

// unheard is a pod with a container that runs on GPUs and that kubelet does not list; nil
// for none.
func unheard(pods []*v1.Pod, listing Listing) *v1.Pod {
	for _, pod := range pods {
		if live(pod) && listing.Find(pod.Namespace, pod.Name) == nil && slices.ContainsFunc(gpuAsks(pod), func(a ask) bool {
			return running(pod, a.container) && !byClaim(pod, a.container, a.resource)
		}) {
			return pod
		}
	}
	return nil
}

// ReasonForgotten says that kubelet does not know any more which devices a container has.
const ReasonForgotten = "ForgottenDevices"

// forgottenFor is how long kubelet may not list the devices of a running container before
// the pod gets the event: the API server's status of containers may be old.
const forgottenFor = 30 * time.Second

// forgotten are problems: containers that run on devices which kubelet takes for free.
func (b *Book) forgotten(listing Listing) (out []Problem) {
	now := b.o.Now()
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, e := range b.journal.entries {
		if e.forgotten && now.Sub(e.since) >= forgottenFor && listing.Find(e.Pod.Namespace, e.Pod.Name) != nil {
			out = append(out, Problem{e.Pod, ReasonForgotten, fmt.Sprintf(
				"kubelet has lost track of the devices of %s that container %s has. The container keeps its devices, and no other pod gets them, but kubelet may not be able to start the container again: delete the pod when it can be spared", e.Resource, e.Container)})
		}
	}
	return out
}
