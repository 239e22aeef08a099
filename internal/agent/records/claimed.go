package records

import (
	"context"
	"fmt"
	"time"

	"github.com/tangram-dev/tangram/api/record"
	"github.com/tangram-dev/tangram/internal/agent/device"
)

// Claimed is what one ResourceClaim holds.
type Claimed struct {
	Namespace string
	// Name is the claim as messages name it.
	Name    string
	Devices []record.Device
}

// ToldTo names the claim in a message to a pod of a namespace.
func (c *Claimed) ToldTo(namespace string) string {
	if c.Namespace != namespace {
		return "a claim of another namespace"
	}
	return c.Name
}

// Take lets a ResourceClaim have devices, unless a container holds one of them, or a part
// that excludes it, through a device plugin. note is called before any other container or
// claim can be given a device; from then on the claim is to be among those that Options.Claimed lists.
//
// Devices that kubelet has given and not yet taken back count as held: kubelet asks for
// the claim again.
func (b *Book) Take(ctx context.Context, c Claimed, note func() error) error {
	b.reserving.Lock()
	defer b.reserving.Unlock()
	asked, cancel := context.WithTimeout(ctx, patience)
	listing, err := b.list(asked)
	cancel()
	if err != nil {
		return fmt.Errorf("%s: which containers hold which devices is not known: %w", c.Name, err)
	}
	inv := b.o.Inventory()
	for _, h := range b.holdings(listing) {
		for _, d := range c.Devices {
			if useOf(d, inv).excludesAny(h.uses) {
				return fmt.Errorf("%s: device %s cannot be given: %s holds it, or a part of it that excludes this use, as %s", c.Name, nameOf(d), h.ToldTo(c.Namespace), h.Resource)
			}
		}
	}
	return note()
}

// nameOf names a device for messages.
func nameOf(d record.Device) string {
	if d.MIG != "" {
		return fmt.Sprintf("%d (%s), %s at slice %d", d.Index, d.UUID, d.MIG, d.Start)
	}
	return fmt.Sprintf("%d (%s)", d.Index, d.UUID)
}

// claimedBy is the claim that excludes a use; nil for none.
func (b *Book) claimedBy(u use, inv *device.Inventory) *Claimed {
	for _, c := range b.o.Claimed() {
		for _, d := range c.Devices {
			if u.excludes(useOf(d, inv)) {
				return &c
			}
		}
	}
	return nil
}

// ClaimedBy is the claim that holds a device of a holding; nil for none.
func (b *Book) ClaimedBy(h *Holding) *Claimed {
	for _, u := range h.uses {
		if c := b.claimedBy(u, b.o.Inventory()); c != nil {
			return c
		}
	}
	return nil
}

// ClaimListed returns a function that says whether kubelet lists a container that uses a claim.
func (b *Book) ClaimListed(ctx context.Context) (func(namespace, name string) bool, error) {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	listing, err := b.list(ctx)
	if err != nil {
		return nil, err
	}
	used := map[[2]string]bool{}
	for _, p := range listing {
		for _, c := range p.Containers {
			for _, name := range c.Claims {
				used[[2]string{p.Namespace, name}] = true
			}
		}
	}
	return func(namespace, name string) bool { return used[[2]string{namespace, name}] }, nil
}
