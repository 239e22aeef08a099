package simulated

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/tangram-dev/tangram/internal/agent/device"
)

// backend is one use of a node's hardware.
type backend struct {
	node   *node
	closed atomic.Bool
}

var errClosed = errors.New("the back end is closed")

func (b *backend) usable() error {
	if b.closed.Load() {
		return errClosed
	}
	return nil
}

// Close implements device.Backend.
func (b *backend) Close() error {
	b.closed.Store(true)
	return nil
}

// call runs f under the node's lock once the driver answers for the devices, all of them
// if none is named. A device that hangs keeps the call until the context ends.
func (b *backend) call(ctx context.Context, f func(n *node) error, about ...*gpu) error {
	if err := b.usable(); err != nil {
		return err
	}
	n := b.node
	if len(about) == 0 {
		about = n.gpus
	}
	for {
		hung, changed, err := n.try(f, about)
		if hung == nil {
			return err
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("device %d: %w", hung.Index, device.ErrTimeout)
		case <-changed:
		}
	}
}

// try runs f unless one of the devices hangs, which it returns with what is closed when
// that may have changed.
func (n *node) try(f func(*node) error, about []*gpu) (hung *gpu, changed <-chan struct{}, err error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.noDriver {
		return nil, nil, device.ErrNoDriver
	}
	for _, g := range about {
		if g.trouble.hang {
			return g, n.changed, nil
		}
	}
	return nil, nil, f(n)
}

// on runs f for one device, which must be on the bus.
func (b *backend) on(ctx context.Context, uuid string, f func(n *node, g *gpu) error) error {
	g, err := b.node.find(uuid)
	if err != nil {
		return err
	}
	return b.call(ctx, func(n *node) error {
		if g.trouble.gone {
			return g.lost()
		}
		return f(n, g)
	}, g)
}

// lost is the error of a device that has fallen off the bus.
func (g *gpu) lost() error {
	return fmt.Errorf("device %d is lost, it has fallen off the bus: %w", g.Index, device.ErrNotFound)
}

// Inventory implements device.Backend. A device that has fallen off the bus is still
// listed, as drivers list it until they are loaded again; its samples fail. One that
// hangs is listed as it was, as the back end nvml does; when all hang, so does the call.
func (b *backend) Inventory(ctx context.Context) (inv *device.Inventory, err error) {
	err = b.call(ctx, func(n *node) error {
		inv = n.inventory()
		return nil
	}, b.node.answering()...)
	if err != nil {
		return nil, fmt.Errorf("read the inventory: %w", err)
	}
	return inv, nil
}

// answering are the devices that do not hang; none when all do, or there are none.
func (n *node) answering() (out []*gpu) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, g := range n.gpus {
		if !g.trouble.hang {
			out = append(out, g)
		}
	}
	return out
}

// Sample implements device.Backend.
func (b *backend) Sample(ctx context.Context) ([]device.Sample, error) {
	err := b.call(ctx, func(*node) error { return nil })
	if err != nil && !errors.Is(err, device.ErrTimeout) {
		return nil, fmt.Errorf("sample: %w", err)
	}
	n := b.node
	n.mu.Lock()
	defer n.mu.Unlock()
	now := n.options.Clock()
	samples := make([]device.Sample, 0, len(n.gpus))
	for _, g := range n.gpus {
		g.advance(now, n.options.Speed)
		samples = append(samples, g.sample(now, n.hardware, n.options.Seed))
	}
	return samples, nil
}

// Reset implements device.Backend.
func (b *backend) Reset(ctx context.Context, uuid string) error {
	err := b.on(ctx, uuid, func(n *node, g *gpu) error {
		if len(g.uses) > 0 {
			return fmt.Errorf("%d containers use it: %w", len(g.uses), device.ErrBusy)
		}
		n.advance(n.options.Clock())
		n.repair(g)
		return nil
	})
	if err != nil {
		return fmt.Errorf("reset device %.80s: %w", uuid, err)
	}
	return nil
}
