package records

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/tangram-dev/tangram/api/names"
	"github.com/tangram-dev/tangram/api/record"
	"github.com/tangram-dev/tangram/internal/agent/device"
	"github.com/tangram-dev/tangram/internal/agent/kubeapi"
)

// Options are what a Book needs to know of its node.
type Options struct {
	// Node is the node's name.
	Node    string
	Pods    Source
	Kubelet Lister
	// Inventory returns what the node has at the moment; never nil, not to be changed.
	Inventory func() *device.Inventory
	// Amounts says whether a resource is sold by amounts of memory and compute, with
	// device IDs that are slots of a card. Nil for no resource.
	Amounts func(resource string) bool
	// Distributed: pods without a record get turns of the GPU with the fewest tenants;
	// else of one that has some already.
	Distributed bool
	// Claimed are the devices that ResourceClaims hold: no pod is given them.
	// Nil for none.
	Claimed func() []Claimed
	// Patience is how long a pod is waited for that kubelet knows and the agent does
	// not yet; 0 means half a second. Kubelet admits no other pod meanwhile.
	Patience time.Duration
	// Now is the clock; nil for time.Now.
	Now func() time.Time
}

// Book knows which pods should get which devices of one node, and which got them. Its methods may
// be called at the same time.
type Book struct {
	o Options

	reserving sync.Mutex // held from the check of an Allocate to its note

	mu        sync.Mutex
	journal   journal
	asked     time.Time             // of the listing that the journal follows
	strangers map[string]bool       // pods that kubelet lists and the API server does not have
	written   map[types.UID]*v1.Pod // what the agent wrote and may not have come back yet
	cleared   map[types.UID]bool    // pods whose record the agent took away once
}

// NewBook returns a book that knows nothing yet; it reads podresources when it is asked.
func NewBook(o Options) *Book {
	if o.Amounts == nil {
		o.Amounts = func(string) bool { return false }
	}
	if o.Claimed == nil {
		o.Claimed = func() []Claimed { return nil }
	}
	o.Patience = cmp.Or(o.Patience, 500*time.Millisecond)
	if o.Now == nil {
		o.Now = time.Now
	}
	b := &Book{o: o, strangers: map[string]bool{}, written: map[types.UID]*v1.Pod{}, cleared: map[types.UID]bool{}}
	b.o.Pods = &latest{o.Pods, b}
	return b
}

// latest is the pods with what the agent itself wrote.
type latest struct {
	Source
	book *Book
}

func (l *latest) Get(namespace, name string) *v1.Pod {
	return l.book.latest(l.Source.Get(namespace, name))
}

func (l *latest) List() []*v1.Pod {
	out := l.Source.List()
	for i, p := range out {
		out[i] = l.book.latest(p)
	}
	return out
}

func (b *Book) latest(p *v1.Pod) *v1.Pod {
	if p == nil {
		return nil
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if w := b.written[p.UID]; w != nil {
		if kubeapi.Older(p, w) {
			return w
		}
		delete(b.written, p.UID)
	}
	return p
}

// wrote notes a write of the agent, so that it counts before the API server sends it
// back.
func (b *Book) wrote(after *v1.Pod) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.written[after.UID] = after
	if _, has := after.Annotations[names.AnnotationDevices]; !has {
		b.cleared[after.UID] = true
	}
}

// forget drops what was written to pods that are gone from the node.
func (b *Book) forget(pods []*v1.Pod) {
	here := map[types.UID]bool{}
	for _, p := range pods {
		here[p.UID] = true
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	maps.DeleteFunc(b.written, func(uid types.UID, _ *v1.Pod) bool { return !here[uid] })
	maps.DeleteFunc(b.cleared, func(uid types.UID, _ bool) bool { return !here[uid] })
}

func (b *Book) facts() facts {
	return facts{b.o.Node, b.o.Inventory(), b.o.Amounts, func(pod *v1.Pod, container, resource string) []string {
		b.mu.Lock()
		defer b.mu.Unlock()
		if e := b.journal.find(pod.UID, container, resource); e != nil && e.Init {
			return e.IDs
		}
		return nil
	}}
}

// list asks kubelet and brings the journal up to date.
func (b *Book) list(ctx context.Context) (Listing, error) {
	asked := b.o.Now()
	listing, err := b.o.Kubelet.List(ctx)
	if err != nil {
		return nil, err
	}
	known, pods, inv := map[string]*v1.Pod{}, b.o.Pods.List(), b.o.Inventory()
	for _, p := range pods {
		known[p.Namespace+"/"+p.Name] = p // looked up before the lock is taken
	}
	recorded := forgotten(pods, listing, b.o.Node, inv, asked)
	b.mu.Lock()
	defer b.mu.Unlock()
	if asked.Before(b.asked) {
		return listing, nil // a later one has come before
	}
	b.asked = asked
	before := b.journal
	b.journal.refresh(listing, known, asked)
	b.journal.remember(recorded, before, inv)
	maps.DeleteFunc(b.strangers, func(key string, _ bool) bool {
		return known[key] != nil || !slices.ContainsFunc(listing, func(p Listed) bool { return p.Namespace+"/"+p.Name == key })
	})
	return listing, nil
}

// patience is how long kubelet's list is waited for: kubelet waits for the answer and
// does nothing else.
const patience = 3 * time.Second

// informed says whether kubelet's list was ever read.
func (b *Book) informed() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return !b.asked.IsZero()
}

// Holding is what one container holds of one resource.
type Holding struct {
	Held
	// Path is where the container stands in its pod's spec.
	Path string
	// Devices are what it holds, as its record says it or should say it: with amounts.
	// Empty when the IDs do not tell the devices.
	Devices []record.Device
	// Started: its container was started once.
	Started bool

	uses []use
}

// Holdings are all devices that are held on the node.
func (b *Book) Holdings(ctx context.Context) ([]Holding, error) {
	listing, err := b.list(ctx)
	if err != nil {
		return nil, err
	}
	return b.holdings(listing), nil
}

// ErrIncomplete says that kubelet or the agent has not heard yet of all pods of the node.
var ErrIncomplete = errors.New("which containers hold which devices is not fully known yet")

// AllHoldings are Holdings when it is certain that none is missing. It fails with
// ErrIncomplete before the pods were read, and while kubelet does not list a pod whose
// container runs on GPUs: for a moment after its start, and for as long as the
// container runtime is away then, kubelet lists no pods at all. Code
// that takes down what no container holds must call this and not Holdings.
func (b *Book) AllHoldings(ctx context.Context) ([]Holding, error) {
	if !b.o.Pods.Synced() {
		return nil, fmt.Errorf("%w: the pods of the node were not read from the API server", ErrIncomplete)
	}
	listing, err := b.list(ctx)
	if err != nil {
		return nil, err
	}
	if p := unheard(b.o.Pods.List(), listing); p != nil {
		return nil, fmt.Errorf("%w: kubelet does not list pod %s/%s, whose containers run", ErrIncomplete, p.Namespace, p.Name)
	}
	return b.holdings(listing), nil
}

func (b *Book) holdings(listing Listing) (out []Holding) {
	f := b.facts()
	b.mu.Lock()
	entries := make([]Held, len(b.journal.entries))
	for i, e := range b.journal.entries {
		entries[i] = *e
	}
	b.mu.Unlock()
	for _, e := range entries {
		h := Holding{Held: e, Started: e.started}
		if e.Pod != nil {
			old, _ := readRecord(e.Pod, b.o.Node)
			now, err := f.truth(e.Pod, old, listing.Find(e.Pod.Namespace, e.Pod.Name))
			if err != nil {
				now = old
			}
			devices, told, err := f.devices(e.Resource, e.IDs)
			if c := entryOf(now, e.Container, e.Resource); c != nil && err == nil && told {
				h.Devices = merge(c, devices, f.amounts(e.Resource))
			}
			for _, a := range asks(e.Pod, e.Resource) {
				if a.container == e.Container {
					h.Path = a.path
				}
			}
			h.Started = h.Started || hasStarted(e.Pod, e.Container)
		}
		if len(h.Devices) == 0 {
			h.Devices, _, _ = f.devices(e.Resource, e.IDs)
		}
		for _, d := range h.Devices {
			h.uses = append(h.uses, useOf(d, f.inv))
		}
		out = append(out, h)
	}
	return out
}

// statusOf is what the API server knows of a container; empty for nothing.
func statusOf(pod *v1.Pod, container string) (out v1.ContainerStatus) {
	all := slices.Concat(pod.Status.ContainerStatuses, pod.Status.InitContainerStatuses)
	if i := slices.IndexFunc(all, func(s v1.ContainerStatus) bool { return s.Name == container }); i >= 0 {
		out = all[i]
	}
	return out
}

// hasStarted says whether a container runs or has run, as the API server knows.
func hasStarted(pod *v1.Pod, container string) bool {
	s := statusOf(pod, container)
	return s.State.Running != nil || s.State.Terminated != nil || s.LastTerminationState.Terminated != nil
}
