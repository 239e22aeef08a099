//go:build cgo && linux

package nvml

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/NVIDIA/go-nvml/pkg/nvml"

	"github.com/tangram-dev/tangram/internal/agent/device"
)

// watched are the kinds of event that are asked for, where the device has them.
const watched = nvml.EventTypeXidCriticalError | nvml.EventTypeDoubleBitEccError |
	nvml.EventTypeGpuUnavailableError | nvml.EventTypeGpuRecoveryAction

// slice is how long one wait for an event takes: a wait cannot be interrupted, so this is
// how late the end of the context may be noticed.
const slice = 500 * time.Millisecond

// Watch implements device.Backend. A device that is lost while it is watched is reported
// as unavailable, once; the others are watched on.
func (b *Backend) Watch(ctx context.Context, report func(device.Event)) error {
	lost := map[int]bool{}
	for ctx.Err() == nil {
		if err := b.watch(ctx, lost, report); err != nil && ctx.Err() == nil {
			return fmt.Errorf("nvml: watch events: %w", err)
		}
	}
	return nil
}

// watch registers for events of all devices but the lost and passes them on, until the
// context ends (then its error) or the registration is void (then nil).
func (b *Backend) watch(ctx context.Context, lost map[int]bool, report func(device.Event)) error {
	release, err := b.use()
	if err != nil {
		return err
	}
	epoch := b.epoch
	set, err := b.register(ctx, lost, report)
	release()
	if err != nil {
		return err
	}
	defer b.unregister(set, epoch)
	for {
		got, err := b.wait(ctx, set, epoch)
		switch {
		case errors.Is(err, errVoid):
			return nil
		case errors.Is(err, nvml.ERROR_GPU_IS_LOST):
			return b.sortOut(ctx, lost, report)
		case err != nil:
			return err
		}
		for _, e := range got {
			report(e)
		}
	}
}

// errVoid: the driver was closed and opened since the registration.
var errVoid = errors.New("the driver was opened anew")

// register makes an event set with the devices that can be watched.
func (b *Backend) register(ctx context.Context, lost map[int]bool, report func(device.Event)) (nvml.EventSet, error) {
	set, err := get(ctx, b, b.events, "nvmlEventSetCreate", b.library.EventSetCreate)
	if err != nil {
		return nil, err
	}
	count := 0
	var last error
	for _, g := range b.gpus {
		if lost[g.index] {
			continue
		}
		err := b.attach(ctx, g)
		if err == nil {
			err = b.registerOne(ctx, g, set)
		}
		switch {
		case err == nil:
			count++
		case errors.Is(err, nvml.ERROR_GPU_IS_LOST):
			lost[g.index] = true
			report(g.unavailable())
		default:
			last = err
			b.options.Log.Warn("Events of the device cannot be received", "index", g.index, "err", err)
		}
	}
	if count == 0 {
		do(context.WithoutCancel(ctx), b, b.events, "nvmlEventSetFree", set.Free)
		if last == nil {
			last = nvml.ERROR_GPU_IS_LOST
		}
		return nil, fmt.Errorf("no device can be watched: %w", last)
	}
	return set, nil
}

func (b *Backend) registerOne(ctx context.Context, g *gpu, set nvml.EventSet) error {
	h, _ := g.opened()
	types := uint64(watched)
	supported, err := get(ctx, b, g.lane, "nvmlDeviceGetSupportedEventTypes", h.GetSupportedEventTypes)
	if err == nil {
		types &= supported
	} else if broken(err) {
		return err
	}
	if types == 0 {
		return fmt.Errorf("%w: the device reports none of the events", device.ErrNotSupported)
	}
	register := func(types uint64) error {
		return do(ctx, b, g.lane, "nvmlDeviceRegisterEvents", func() nvml.Return { return h.RegisterEvents(types, set) })
	}
	err = register(types)
	if err == nil || broken(err) {
		return err
	}
	// Some drivers say that they support what they do not register: take each alone.
	some := false
	for bit := uint64(1); bit <= types; bit <<= 1 {
		if types&bit != 0 && register(bit) == nil {
			some = true
		}
	}
	if some {
		return nil
	}
	return err
}

// wait waits one slice; it returns the events that came.
func (b *Backend) wait(ctx context.Context, set nvml.EventSet, epoch int) ([]device.Event, error) {
	release, err := b.use()
	if err != nil {
		return nil, err
	}
	defer release()
	if b.epoch != epoch {
		return nil, errVoid
	}
	got, err := call(ctx, b.guard, b.events, slice+b.options.Timeout, "nvmlEventSetWait_v2", func() (*nvml.EventData, nvml.Return) {
		data, ret := set.Wait(uint32(slice.Milliseconds()))
		if ret == nvml.ERROR_TIMEOUT {
			return nil, nvml.SUCCESS
		}
		return &data, ret
	})
	if err != nil || got == nil {
		return nil, err
	}
	return b.translate(ctx, *got), nil
}

// translate says an event of the driver in device's words; of one kind, several may be
// set at once.
func (b *Backend) translate(ctx context.Context, data nvml.EventData) []device.Event {
	e := device.Event{GPUInstance: instanceNumber(data.GpuInstanceId), ComputeInstance: instanceNumber(data.ComputeInstanceId)}
	if data.Device != nil {
		e.UUID, _ = get(ctx, b, b.events, "nvmlDeviceGetUUID", data.Device.GetUUID)
	}
	var out []device.Event
	add := func(kind device.EventKind) {
		e.Kind = kind
		out = append(out, e)
	}
	if data.EventType&nvml.EventTypeXidCriticalError != 0 {
		e.Code = int(data.EventData)
		add(device.XID)
		e.Code = 0
	}
	if data.EventType&nvml.EventTypeDoubleBitEccError != 0 {
		add(device.ECC)
	}
	if data.EventType&nvml.EventTypeGpuUnavailableError != 0 {
		add(device.Unavailable)
	}
	if data.EventType&nvml.EventTypeGpuRecoveryAction != 0 {
		e.Recovery = b.verdict(ctx, e.UUID)
		add(device.RecoveryChanged)
	}
	return out
}

// verdict asks what the driver says a device needs.
func (b *Backend) verdict(ctx context.Context, uuid string) device.Recovery {
	g, h, err := b.find(uuid)
	if err != nil {
		return device.RecoveryNone
	}
	_, verdict := askFields(&reader{ctx: ctx, b: b, lane: g.lane}, h, []fieldKey{recovery})
	return verdict
}

// sortOut finds out which devices are lost after the driver said that some are.
func (b *Backend) sortOut(ctx context.Context, lost map[int]bool, report func(device.Event)) error {
	release, err := b.use()
	if err != nil {
		return err
	}
	var gone []*gpu
	for _, g := range b.gpus {
		h, _ := g.opened()
		if lost[g.index] || h == nil {
			continue
		}
		if _, err := get(ctx, b, g.lane, "nvmlDeviceGetMemoryInfo", h.GetMemoryInfo); errors.Is(err, nvml.ERROR_GPU_IS_LOST) {
			lost[g.index] = true
			gone = append(gone, g)
		}
	}
	release()
	for _, g := range gone {
		report(g.unavailable())
	}
	if len(gone) == 0 {
		return fmt.Errorf("a device is lost, but each answers: %w", nvml.ERROR_GPU_IS_LOST)
	}
	return nil
}

// unregister gives an event set back, after the wait that may still run on it.
func (b *Backend) unregister(set nvml.EventSet, epoch int) {
	release, err := b.use()
	if err != nil {
		return
	}
	defer release()
	if b.epoch == epoch {
		do(context.Background(), b, b.events, "nvmlEventSetFree", set.Free)
	}
}

func (g *gpu) unavailable() device.Event {
	_, uuid := g.opened()
	return device.Event{Kind: device.Unavailable, UUID: uuid, GPUInstance: -1, ComputeInstance: -1}
}

// instanceNumber is a MIG instance's number, -1 for the whole device.
func instanceNumber(id uint32) int {
	if id == math.MaxUint32 {
		return -1
	}
	return int(id)
}
