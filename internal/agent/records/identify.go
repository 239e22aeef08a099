package records

import (
	"context"
	"fmt"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/tangram-dev/tangram/api/record"
)

// Identify says which container kubelet is about to start with these devices. Kubelet
// lists them by then, except for init containers: of those the agent remembers which it
// answered, or finds the pod whose later containers were given the same devices.
//
// Where an init container and a later one hold the same devices, the first call is
// taken for the init container's.
func (b *Book) Identify(ctx context.Context, resource string, ids []string) (*Holding, error) {
	ids = slices.Sorted(slices.Values(ids))
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	for pause := 50 * time.Millisecond; ; pause *= 2 {
		if h, err := b.identify(ctx, resource, ids); h != nil || !waited(ctx, pause) {
			return h, err
		}
	}
}

func (b *Book) identify(ctx context.Context, resource string, ids []string) (*Holding, error) {
	listing, err := b.list(ctx)
	if err != nil {
		return nil, fmt.Errorf("%s: which container is to be started is not known: %w", resource, err)
	}
	var found *Holding
	for _, h := range b.holdings(listing) {
		if h.Resource != resource || !slices.Equal(h.IDs, ids) || h.Pod == nil {
			continue
		}
		if h.Pod.UID == "" {
			return nil, fmt.Errorf("%s: pod %s/%s has devices and is not known to the API server", resource, h.Pod.Namespace, h.Pod.Name)
		}
		if found == nil || h.Init && !h.Started || found.Init && found.Started {
			found = &h
		}
	}
	if found != nil {
		return found, nil
	}
	pod, a := b.forgottenInit(listing, resource, ids)
	if pod == nil {
		return nil, fmt.Errorf("%s: kubelet lists no container with the devices %v", resource, ids)
	}
	b.mu.Lock()
	b.journal.entries = append(b.journal.entries, &Held{Pod: pod, Container: a.container, Init: true, Resource: resource, IDs: ids, at: b.o.Now()})
	b.mu.Unlock()
	for _, h := range b.holdings(listing) {
		if h.uid() == pod.UID && h.Container == a.container && h.Resource == resource {
			return &h, nil
		}
	}
	return nil, fmt.Errorf("%s: kubelet lists no container with the devices %v", resource, ids)
}

// forgottenInit finds the init container that was given devices before the agent
// started: its pod's later containers have some of them, or its record names them.
func (b *Book) forgottenInit(listing Listing, resource string, ids []string) (*v1.Pod, ask) {
	f := b.facts()
	want, _, err := f.devices(resource, ids)
	if err != nil {
		return nil, ask{}
	}
	var found []candidate
	best := 0
	for i := range listing {
		l := &listing[i]
		pod := b.o.Pods.Get(l.Namespace, l.Name)
		if pod == nil {
			continue
		}
		old, _ := readRecord(pod, b.o.Node)
		for _, a := range asks(pod, resource) {
			if !a.init || a.count != len(ids) {
				continue
			}
			score := 0
			if e := entryOf(old, a.container, resource); e != nil && slices.ContainsFunc(want, func(d record.Device) bool { return contains(e.Devices, d) }) {
				score = 1
			}
			if slices.ContainsFunc(l.Containers, func(c ListedContainer) bool { return overlap(c.Devices[resource], ids) }) {
				score = 2
			}
			if score > best {
				best, found = score, nil
			}
			if score == best && score > 0 {
				found = append(found, candidate{pod, a})
			}
		}
	}
	if len(found) == 0 {
		return nil, ask{}
	}
	slices.SortStableFunc(found, func(x, y candidate) int { return older(x.pod, y.pod) })
	return found[0].pod, found[0].ask
}

// MarkStarted notes that a container was let through.
func (b *Book) MarkStarted(h *Holding) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if e := b.journal.find(h.uid(), h.Container, h.Resource); e != nil {
		e.started = true
	}
}

// Before says whether another pod's holding has precedence over one: its container was
// started, or neither was and its pod was bound earlier.
func (h *Holding) Before(o *Holding) bool {
	if h.Pod == nil || o.Pod == nil || h.uid() == o.uid() {
		return false
	}
	return h.Started || !o.Started && older(h.Pod, o.Pod) < 0
}

// Excludes says whether two holdings of different pods cannot be at the same time.
func (h *Holding) Excludes(o *Holding) bool {
	return h.uid() != o.uid() && anyOf(h.uses, o.uses, use.excludes)
}
