package records

import (
	"context"
	"fmt"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/tangram-dev/tangram/internal/agent/device"
)

// Excluded is an error about devices that another container or claim holds. Kubelet does not say for which
// pod it asks, and that pod is told the error: it does not name the holder.
type Excluded struct {
	Resource, ID string
	// By names the holder, for logs.
	By string
}

// Error says which device.
func (e *Excluded) Error() string {
	return fmt.Sprintf("%s: device %s cannot be given: another container or claim holds it, or a part of it that excludes this use", e.Resource, e.ID)
}

// Reserve notes that kubelet gives devices to a container that is about to be started,
// unless a container or claim holds them or a part of them that excludes it. Kubelet itself gives
// out an ID once at a time; that two IDs are of one GPU only the agent knows.
func (b *Book) Reserve(ctx context.Context, resource string, ids []string) error {
	ids = slices.Sorted(slices.Values(ids))
	inv := b.o.Inventory()
	var wanted []use
	for i, id := range ids {
		d, told, err := ReadID(resource, id, inv)
		if err != nil {
			return err
		}
		if !told {
			return fmt.Errorf("%s: device ID %q does not name a device", resource, clip(id))
		}
		u := useOf(d, inv)
		for k, v := range wanted {
			if u.excludes(v) && ids[k] != id {
				return fmt.Errorf("%s: device %s cannot be given: the same container has device %s, which excludes this use", resource, id, ids[k])
			}
		}
		if i > 0 && ids[i-1] == id {
			return fmt.Errorf("%s: device %s is asked for twice", resource, id)
		}
		wanted = append(wanted, u)
	}
	b.reserving.Lock()
	defer b.reserving.Unlock()
	for i, u := range wanted {
		if c := b.claimedBy(u, inv); c != nil {
			return &Excluded{resource, ids[i], c.Name}
		}
	}
	var listing Listing
	begun := b.o.Now()
	for {
		var err error
		asked, cancel := context.WithTimeout(ctx, time.Second)
		listing, err = b.list(asked)
		cancel()
		if err != nil {
			if ctx.Err() == nil && b.o.Now().Sub(begun) < patience {
				waited(ctx, 100*time.Millisecond)
				continue
			}
			if !b.informed() {
				return fmt.Errorf("%s: which containers hold which devices is not known: %w", resource, err)
			}
		}
		// Without kubelet's list the journal alone counts.
		conflict, pending := b.conflict(listing, resource, ids, wanted)
		if conflict == nil {
			break
		}
		if !pending || err != nil || b.o.Now().Sub(begun) >= patience {
			return conflict
		}
		// Only what kubelet does not list stands in the way: an answer counts for a second,
		// then it has failed; a container that the API server calls running may have ended.
		if !waited(ctx, unlisted/4) {
			return conflict
		}
	}
	h := &Held{Resource: resource, IDs: ids}
	if c := b.candidates(ctx, listing, resource, len(ids)); len(c) > 0 {
		pod := c[0].pod
		if sharedTwice(wanted) && b.promised(pod) {
			return fmt.Errorf("%s: pod %s/%s was promised %d different GPUs, and kubelet can give it several turns on one only: %v", resource, pod.Namespace, pod.Name, len(ids), ids)
		}
		h.Pod, h.Container, h.Init = pod, c[0].ask.container, c[0].ask.init
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	h.at = b.o.Now()
	b.journal.add(h)
	return nil
}

// promised says whether a pod was promised devices: by a record, also by one that the
// agent took away because others had got them.
func (b *Book) promised(pod *v1.Pod) bool {
	r, _ := readRecord(pod, b.o.Node)
	b.mu.Lock()
	defer b.mu.Unlock()
	return r != nil || b.cleared[pod.UID]
}

// sharedTwice says whether two of a container's uses are shares of one GPU.
func sharedTwice(uses []use) bool {
	for i, u := range uses {
		if u.share && slices.ContainsFunc(uses[:i], func(v use) bool { return v.gpu == u.gpu }) {
			return true
		}
	}
	return false
}

// Withhold marks the devices as unhealthy that cannot be given now, because a container or a
// claim holds a part of their GPU that excludes them. Kubelet takes every ID that no container
// has for free. Preferred steers it away from excluded ones, but Topology Manager chooses
// NUMA nodes before Preferred is asked, and a pod whose Allocate is refused fails for good.
//
// With Topology Manager's policy none nothing should be withheld: a device that is free again
// is sold again only after the next call, and kubelet fails a pod that comes before it.
//
// While kubelet does not answer, what was known last counts. It is an error when kubelet has
// never answered.
func (b *Book) Withhold(ctx context.Context, offers []device.Offer) ([]device.Offer, error) {
	listing, err := b.list(ctx)
	if err != nil && !b.informed() {
		return nil, err
	}
	held, inv := b.holdings(listing), b.o.Inventory()
	excluded := func(resource, id string) bool {
		d, told, err := ReadID(resource, id, inv)
		if err != nil || !told {
			return false
		}
		u := useOf(d, inv)
		out := b.claimedBy(u, inv) != nil
		for _, h := range held {
			if h.Resource == resource && slices.Contains(h.IDs, id) && !h.forgotten {
				return false // kubelet knows that it is taken
			}
			out = out || u.excludesAny(h.uses)
		}
		return out
	}
	out := slices.Clone(offers)
	for i, o := range out {
		out[i].Devices = slices.Clone(o.Devices)
		for j, d := range o.Devices {
			out[i].Devices[j].Healthy = d.Healthy && !excluded(o.Resource, d.ID)
		}
	}
	return out, nil
}

// conflict is the holder that stands in the way of giving devices; pending is true when it is
// only an answer that kubelet does not list, or a container that it has forgotten.
func (b *Book) conflict(listing Listing, resource string, ids []string, wanted []use) (e error, pending bool) {
	for _, h := range b.holdings(listing) {
		for i, id := range ids {
			if h.Resource == resource && slices.Contains(h.IDs, id) {
				// Kubelet gives an ID of an init container to later containers of its pod.
				if !h.listed || h.Init {
					continue
				}
			} else if !wanted[i].excludesAny(h.uses) {
				continue
			}
			found := &Excluded{resource, id, h.String()}
			if !h.forgotten && (h.listed || h.Init) {
				return found, false
			}
			e, pending = found, true
		}
	}
	return e, pending
}
