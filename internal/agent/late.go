package agent

import (
	"context"
	"sync"

	"github.com/tangram-dev/tangram/internal/agent/device"
)

// late is a back end whose driver may come later: it is opened with the first call that
// can open it. Until then every call fails with what keeps it from being opened.
type late struct {
	open func() (device.Backend, error)

	mu      sync.Mutex
	backend device.Backend
}

func (l *late) get() (device.Backend, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.backend == nil {
		b, err := l.open()
		if err != nil {
			return nil, err
		}
		l.backend = b
	}
	return l.backend, nil
}

// ask calls the back end, once it is there.
func ask[T any](l *late, f func(device.Backend) (T, error)) (T, error) {
	b, err := l.get()
	if err != nil {
		var none T
		return none, err
	}
	return f(b)
}

func (l *late) do(f func(device.Backend) error) error {
	b, err := l.get()
	if err != nil {
		return err
	}
	return f(b)
}

func (l *late) Inventory(ctx context.Context) (*device.Inventory, error) {
	return ask(l, func(b device.Backend) (*device.Inventory, error) { return b.Inventory(ctx) })
}

func (l *late) Sample(ctx context.Context) ([]device.Sample, error) {
	return ask(l, func(b device.Backend) ([]device.Sample, error) { return b.Sample(ctx) })
}

func (l *late) Watch(ctx context.Context, report func(device.Event)) error {
	return l.do(func(b device.Backend) error { return b.Watch(ctx, report) })
}

func (l *late) Edits(ctx context.Context, uuids []string) (device.Edits, error) {
	return ask(l, func(b device.Backend) (device.Edits, error) { return b.Edits(ctx, uuids) })
}

func (l *late) SetMIG(ctx context.Context, uuid string, on bool) error {
	return l.do(func(b device.Backend) error { return b.SetMIG(ctx, uuid, on) })
}

func (l *late) CreateInstance(ctx context.Context, uuid string, profileID, start int) (device.Instance, error) {
	return ask(l, func(b device.Backend) (device.Instance, error) { return b.CreateInstance(ctx, uuid, profileID, start) })
}

func (l *late) DestroyInstance(ctx context.Context, uuid string, gpuInstance int) error {
	return l.do(func(b device.Backend) error { return b.DestroyInstance(ctx, uuid, gpuInstance) })
}

func (l *late) Reset(ctx context.Context, uuid string) error {
	return l.do(func(b device.Backend) error { return b.Reset(ctx, uuid) })
}

func (l *late) Close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.backend == nil {
		return nil
	}
	return l.backend.Close()
}
