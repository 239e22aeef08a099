package records

import (
	"fmt"
	"maps"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
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
