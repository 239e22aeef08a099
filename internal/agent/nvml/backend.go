//go:build cgo && linux

package nvml

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/NVIDIA/go-nvml/pkg/nvml"

	"github.com/tangram-dev/tangram/internal/agent/device"
)

// Backend is device.Backend on NVIDIA's driver.
type Backend struct {
	options Options
	load    func() (nvml.Interface, error)
	guard   *guard
	system  *lane // calls that concern no device
	events  *lane // waiting for events

	// using is held for reading while handles of the driver are in use, and for writing
	// while the driver is opened and closed.
	using   sync.RWMutex
	library nvml.Interface // nil until it was loaded
	// running: the driver is open. closed: Close was called, and it is not opened again.
	running, closed bool
	// epoch counts openings; what was got from the driver in one is void in the next.
	epoch int
	gpus  []*gpu
}

// gpu is what the back end keeps of one device between calls.
type gpu struct {
	index int
	lane  *lane

	// sampling is held while the device is sampled. It guards idle: the memory of MIG
	// instances that no process used in the last sample, by UUID.
	sampling sync.Mutex
	idle     map[string]map[device.Field]float64

	mu sync.Mutex // guards the rest
	// handle is nil until the driver gave one.
	handle nvml.Device
	uuid   string
	// known is the device as last described, nil before.
	known *device.Device
	// profiles are the MIG profiles, nil until they were read with their places.
	profiles []profile
	// cuts are the MIG devices as last listed, nil when that is no longer true.
	cuts *cuts
	// sampled is when process shares were last asked for.
	sampled time.Time
	// lacks are the numbered values that the device has not; they are asked for again
	// after the next inventory.
	lacks map[fieldKey]bool
}

var _ device.Backend = (*Backend)(nil)

// opened is the device's handle, nil until the driver gave one, and its UUID.
func (g *gpu) opened() (nvml.Device, string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.handle, g.uuid
}

// New makes a back end that opens the driver with its first call. While that cannot be done,
// because the driver is missing or comes later, every call tries again and fails with
// device.ErrNoDriver.
func New(options Options) device.Backend {
	o := options.withDefaults()
	return newBackend(o, func() (nvml.Interface, error) {
		if o.DriverRootHere == "/" {
			return nvml.New(), nil
		}
		path, err := driverFiles{root: o.DriverRootHere}.library("libnvidia-ml.so.1")
		if err != nil {
			return nil, fmt.Errorf("%w: %w", device.ErrNoDriver, err)
		}
		return nvml.New(nvml.WithLibraryPath(path)), nil
	})
}

func newBackend(o Options, load func() (nvml.Interface, error)) *Backend {
	return &Backend{options: o.withDefaults(), load: load, system: newLane("the driver"), events: newLane("the driver's events")}
}

// start opens the driver and takes the devices' handles. The caller holds using for
// writing.
func (b *Backend) start(ctx context.Context) (err error) {
	if b.library == nil {
		if b.library, err = b.load(); err != nil {
			return err
		}
		// A symbol can be looked up only once the library is loaded.
		b.guard = &guard{observe: b.options.Observe, lookup: b.library.Extensions().LookupSymbol, symbols: map[string]bool{"nvmlInit_v2": true}}
	}
	// Without persistence mode the driver brings devices up now: that takes seconds each.
	switch _, err = change(ctx, b, b.system, "nvmlInit_v2", nothing(b.library.Init)); {
	case errors.Is(err, device.ErrTimeout), errors.Is(err, device.ErrNoDriver):
		return err
	case err != nil:
		return fmt.Errorf("%w: %w", device.ErrNoDriver, err)
	}
	b.epoch++
	b.running = true
	count, err := get(ctx, b, b.system, "nvmlDeviceGetCount_v2", b.library.DeviceGetCount)
	if err != nil {
		return err
	}
	for i := range count {
		if i == len(b.gpus) {
			b.gpus = append(b.gpus, &gpu{index: i, lane: newLane(fmt.Sprintf("device %d", i))})
		}
		if err := b.attach(ctx, b.gpus[i]); err != nil {
			b.options.Log.Warn("Device does not answer; will retry with the next inventory", "index", i, "err", err)
		}
	}
	b.gpus = b.gpus[:count]
	return nil
}

// attach takes a device's handle if there is none.
func (b *Backend) attach(ctx context.Context, g *gpu) error {
	if handle, _ := g.opened(); handle != nil {
		return nil
	}
	handle, err := change(ctx, b, g.lane, "nvmlDeviceGetHandleByIndex_v2", with(b.library.DeviceGetHandleByIndex, g.index))
	if err != nil {
		return err
	}
	uuid, err := get(ctx, b, g.lane, "nvmlDeviceGetUUID", handle.GetUUID)
	if err != nil {
		return err
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.handle, g.uuid = handle, uuid
	return nil
}

// Hung counts the calls of the driver that were given up and have not returned.
func (b *Backend) Hung() int { return int(b.guard.hung.Load()) }

// Close ends the use of the driver. Where a call hangs the driver is left open, since
// closing it under a running call would crash.
func (b *Backend) Close() error {
	b.using.Lock()
	defer b.using.Unlock()
	running := b.running && !b.closed
	if b.closed = true; !running {
		return nil
	}
	return b.stop(context.Background())
}

// stop closes the driver. The caller holds using for writing.
func (b *Backend) stop(ctx context.Context) error {
	if n := b.Hung(); n > 0 {
		return fmt.Errorf("nvml: %w: %d calls have not returned, so the driver stays open", device.ErrTimeout, n)
	}
	// Calls that a cancelled caller left behind are still running; each lane's next turn
	// comes after its last call.
	lanes := []*lane{b.events}
	for _, g := range b.gpus {
		lanes = append(lanes, g.lane)
	}
	for _, l := range lanes {
		select {
		case l.turn <- struct{}{}:
			defer func() { <-l.turn }()
		case <-time.After(b.options.Timeout):
			return fmt.Errorf("nvml: close: %w: a call on %s has not returned", device.ErrTimeout, l.name)
		case <-ctx.Done():
			return fmt.Errorf("nvml: close: %w", ended(ctx))
		}
	}
	for _, g := range b.gpus {
		g.mu.Lock()
		g.handle, g.profiles, g.cuts = nil, nil, nil
		g.mu.Unlock()
	}
	b.running = false
	return do(ctx, b, b.system, "nvmlShutdown", b.library.Shutdown)
}

// use opens the driver where it is not, and holds it open until the returned function is
// called.
func (b *Backend) use() (release func(), err error) {
	for {
		b.using.RLock()
		if b.running && !b.closed {
			return b.using.RUnlock, nil
		}
		b.using.RUnlock()
		if err := b.open(); err != nil {
			return nil, fmt.Errorf("nvml: %w", err)
		}
	}
}

func (b *Backend) open() error {
	b.using.Lock()
	defer b.using.Unlock()
	switch {
	case b.closed:
		return fmt.Errorf("%w: closed", device.ErrNoDriver)
	case b.running:
		return nil
	}
	return b.start(context.Background())
}

// find returns a device that answers, by UUID. The caller holds using.
func (b *Backend) find(uuid string) (*gpu, nvml.Device, error) {
	for _, g := range b.gpus {
		switch handle, its := g.opened(); {
		case its != uuid || uuid == "":
		case handle == nil:
			return nil, nil, fmt.Errorf("device %s: %w", uuid, nvml.ERROR_GPU_IS_LOST)
		default:
			return g, handle, nil
		}
	}
	return nil, nil, fmt.Errorf("device %q: %w", uuid, device.ErrNotFound)
}

// get is a call that reads one value.
func get[T any](ctx context.Context, b *Backend, l *lane, name string, fn func() (T, nvml.Return)) (T, error) {
	return call(ctx, b.guard, l, b.options.Timeout, name, fn)
}

// do is a call that returns nothing.
func do(ctx context.Context, b *Backend, l *lane, name string, fn func() nvml.Return) error {
	_, err := get(ctx, b, l, name, nothing(fn))
	return err
}

// change is a call that changes the device and may take long.
func change[T any](ctx context.Context, b *Backend, l *lane, name string, fn func() (T, nvml.Return)) (T, error) {
	return call(ctx, b.guard, l, b.options.ChangeTimeout, name, fn)
}

// nothing, with and paired make calls of the driver into functions without arguments that
// return one value.
func nothing(fn func() nvml.Return) func() (struct{}, nvml.Return) {
	return func() (struct{}, nvml.Return) { return struct{}{}, fn() }
}

func with[A, T any](fn func(A) (T, nvml.Return), argument A) func() (T, nvml.Return) {
	return func() (T, nvml.Return) { return fn(argument) }
}

// pair holds two values of one call.
type pair[A, B any] struct {
	a A
	b B
}

func paired[A, B any](fn func() (A, B, nvml.Return)) func() (pair[A, B], nvml.Return) {
	return func() (pair[A, B], nvml.Return) {
		x, y, ret := fn()
		return pair[A, B]{x, y}, ret
	}
}
