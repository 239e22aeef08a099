package records

import (
	"fmt"
	"maps"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/tangram-dev/tangram/api/record"
	"github.com/tangram-dev/tangram/internal/agent/device"
)

// Held is one container's devices of one resource.
type Held struct {
	// Pod holds them; nil for an Allocate whose pod is not known yet.
	Pod       *v1.Pod
	Container string
	// Init: the container ends before the next one starts, and kubelet may give its
	// devices to later containers of the same pod.
	Init     bool
	Resource string
	IDs      []string // sorted

	// listed: kubelet has listed it at least once; of an init container it never does.
	listed bool
	// at is when Allocate was answered.
	at time.Time
	// started: PreStartContainer has passed.
	started bool
	// forgotten: the container runs, and kubelet does not list its devices. since is when
	// that was seen first. recorded: the pod's record alone says what it holds.
	forgotten bool
	since     time.Time
	recorded  bool
}

func (h *Held) uid() types.UID {
	if h.Pod == nil {
		return ""
	}
	return h.Pod.UID
}

// String names the holder for messages.
func (h *Held) String() string {
	if h.Pod == nil {
		return "a container that is being started"
	}
	return fmt.Sprintf("pod %s/%s, container %s", h.Pod.Namespace, h.Pod.Name, h.Container)
}

// ToldTo names the holder in a message that becomes an event of a pod of a namespace. Its
// readers must not learn what runs in other namespaces.
func (h *Held) ToldTo(namespace string) string {
	if h.Pod != nil && h.Pod.Namespace != namespace {
		return "a pod of another namespace"
	}
	return h.String()
}

// unlisted is how long an answered Allocate counts that kubelet does not list. Kubelet
// notes an answer at once; one that it does not list then has failed.
const unlisted = time.Second

// journal is what containers hold: what kubelet lists, answers that it does not list yet or
// never does, and what running containers hold that it has forgotten. Devices are free
// again when kubelet does not list them and the API server does not say that their
// container runs.
type journal struct{ entries []*Held }

// refresh makes the journal follow a listing that was asked for at a time. pods are the
// node's, by namespace/name.
func (j *journal) refresh(listing Listing, pods map[string]*v1.Pod, asked time.Time) {
	var next []*Held
	for _, p := range listing {
		pod := pods[p.Namespace+"/"+p.Name]
		for _, c := range p.Containers {
			for _, resource := range slices.Sorted(maps.Keys(c.Devices)) {
				ids := c.Devices[resource]
				if !readable(resource) || len(ids) == 0 {
					continue
				}
				if pod == nil { // known to kubelet alone so far
					pod = &v1.Pod{}
					pod.Namespace, pod.Name = p.Namespace, p.Name
				}
				h := &Held{Pod: pod, Container: c.Name, Resource: resource, IDs: ids, listed: true}
				for _, e := range j.entries {
					if e.Resource == resource && slices.Equal(e.IDs, ids) && !e.Init && (e.Pod == nil || e.uid() == h.uid()) {
						h.at, h.started = e.at, h.started || e.started
					}
				}
				next = append(next, h)
			}
		}
	}
	for _, e := range j.entries {
		if j.stays(e, next, listing, pods, asked) {
			next = append(next, e)
		}
	}
	j.entries = next
}

// stays says whether an entry that a listing does not have is still true.
func (j *journal) stays(e *Held, listed []*Held, listing Listing, pods map[string]*v1.Pod, asked time.Time) bool {
	same := slices.ContainsFunc(listed, func(h *Held) bool {
		return h.Resource == e.Resource && slices.Equal(h.IDs, e.IDs) && (!e.Init || h.uid() != e.uid())
	})
	if same || e.recorded { // a record is read anew each time
		return false
	}
	if asked.Before(e.at) {
		return true // kubelet could not know it
	}
	fresh := asked.Sub(e.at) < unlisted // kubelet may not have noted it yet
	if e.Pod == nil {
		return fresh
	}
	p := listing.Find(e.Pod.Namespace, e.Pod.Name)
	pod := pods[e.Pod.Namespace+"/"+e.Pod.Name]
	if pod == nil || pod.UID != e.Pod.UID || !live(pod) {
		return false
	}
	if running(pod, e.Container) && len(p.Devices(e.Container, e.Resource)) == 0 {
		if !e.Init && !e.forgotten {
			e.forgotten, e.since = true, asked
		}
		return true
	}
	e.forgotten = false
	// Kubelet lists a pod from before its first Allocate until it is over.
	switch {
	case p == nil:
		return false
	case e.Init:
		return true
	case !e.listed:
		return fresh
	}
	// Kubelet has lost its checkpoint, and the container may run.
	return len(p.Devices(e.Container, e.Resource)) == 0
}

// add notes an answer to Allocate. Entries that kubelet does not list and that have one
// of the IDs have failed: kubelet gives an ID to one pod at a time.
func (j *journal) add(h *Held) {
	j.entries = slices.DeleteFunc(j.entries, func(e *Held) bool {
		return !e.listed && e.Resource == h.Resource && overlap(e.IDs, h.IDs) && !(e.Init && e.uid() == h.uid() && e.Container != h.Container)
	})
	j.entries = append(j.entries, h)
}

// find returns a container's entry for a resource, or nil.
func (j *journal) find(uid types.UID, container, resource string) *Held {
	for _, e := range j.entries {
		if e.Pod != nil && e.Pod.UID == uid && e.Container == container && e.Resource == resource {
			return e
		}
	}
	return nil
}

func overlap(a, b []string) bool {
	return slices.ContainsFunc(a, func(s string) bool { return slices.Contains(b, s) })
}

// Kubelet may not list the devices of a container that runs. After its start it lists no
// pods until it has heard of them; that takes as long as the container runtime is away. And
// its checkpoint may be lost, or older than its last answer: it writes two at a time in any
// order. Then it takes the devices for free. The container has them all the same, so they
// are held: by what the agent knew before, or by the pod's record.

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
