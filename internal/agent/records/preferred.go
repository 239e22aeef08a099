package records

import (
	"context"
	"slices"
	"time"

	"github.com/tangram-dev/tangram/api/record"
)

// Preferred chooses devices for the container that kubelet is serving: those of its
// record. Kubelet asks only when it has a choice: not for devices of an init container
// that it gives on, nor when Topology Manager leaves exactly as many as are asked for.
// What it takes then is corrected in the record afterwards.
//
// It never fails, since kubelet would refuse the pod: without a record, or where its
// devices are not available, the others are packed beside it. The answer holds
// mustInclude, is a subset of available, and has size members if there are so many.
func (b *Book) Preferred(ctx context.Context, resource string, available, mustInclude []string, size int) []string {
	asked, cancel := context.WithTimeout(ctx, time.Second) // kubelet waits for the answer
	listing, err := b.list(asked)
	cancel()
	if err != nil {
		listing = nil // by the order of Bindings and the journal alone
	}
	candidates := b.candidates(ctx, listing, resource, size)
	c := b.newChoice(listing, resource, available)
	for _, x := range candidates {
		if ids := c.recorded(b.entry(x), mustInclude, size); len(ids) == size {
			return ids
		}
	}
	// No record can be followed as it is: as much as is there of the first one's.
	var ids []string
	if len(candidates) > 0 {
		ids = c.recorded(b.entry(candidates[0]), mustInclude, size)
		delete(c.others, candidates[0].pod.UID) // the choice is made for it
	}
	if len(ids) == 0 {
		ids = c.known(mustInclude)
	}
	return c.pack(ids, size)
}

func (b *Book) entry(x candidate) *record.Container {
	r, _ := readRecord(x.pod, b.o.Node)
	return entryOf(r, x.ask.container, x.ask.resource)
}

// recorded are the IDs of an entry's devices, as far as they are available, after
// mustInclude.
func (c *choice) recorded(entry *record.Container, mustInclude []string, size int) []string {
	if entry == nil || len(entry.Devices) != size {
		return nil
	}
	out := c.known(mustInclude)
	covered := make([]bool, len(entry.Devices))
	for _, id := range out {
		for i, d := range entry.Devices {
			if !covered[i] && sameDevice(c.items[id].device, d) {
				covered[i] = true
				break
			}
		}
	}
	for i, d := range entry.Devices {
		if covered[i] || len(out) == size {
			continue
		}
		if k := slices.IndexFunc(c.sorted, func(id string) bool {
			return sameDevice(c.items[id].device, d) && !slices.Contains(out, id)
		}); k >= 0 {
			out = append(out, c.sorted[k])
		}
	}
	return out
}
