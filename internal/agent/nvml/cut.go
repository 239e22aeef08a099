//go:build cgo && linux

package nvml

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"

	"github.com/NVIDIA/go-nvml/pkg/nvml"

	"github.com/tangram-dev/tangram/internal/agent/device"
)

// SetMIG implements device.Backend. Models before Hopper need a reset for it; there the
// error says so.
func (b *Backend) SetMIG(ctx context.Context, uuid string, on bool) error {
	release, err := b.use()
	if err != nil {
		return err
	}
	defer release()
	g, h, err := b.find(uuid)
	if err != nil {
		return fmt.Errorf("nvml: set MIG mode: %w", err)
	}
	want := nvml.DEVICE_MIG_DISABLE
	if on {
		want = nvml.DEVICE_MIG_ENABLE
	}
	mode, err := get(ctx, b, g.lane, "nvmlDeviceGetMigMode", paired(h.GetMigMode))
	if err != nil {
		return fmt.Errorf("nvml: set MIG mode: %w", err)
	}
	if mode.a == want && mode.b == want {
		return nil
	}
	defer g.forgetCuts()
	activation, err := change(ctx, b, g.lane, "nvmlDeviceSetMigMode", with(h.SetMigMode, want))
	if err != nil {
		return fmt.Errorf("nvml: set MIG mode: %w", err)
	}
	if err := returned(activation); err != nil {
		return fmt.Errorf("nvml: MIG mode of %s is set but not active: the device must be idle and, before Hopper, be reset: %w", uuid, err)
	}
	return nil
}

// CreateInstance implements device.Backend. A GPU instance whose compute instance cannot
// be made is removed again.
func (b *Backend) CreateInstance(ctx context.Context, uuid string, profileID, start int) (device.Instance, error) {
	release, err := b.use()
	if err != nil {
		return device.Instance{}, err
	}
	defer release()
	made, err := b.create(ctx, uuid, profileID, start)
	if err != nil {
		return device.Instance{}, fmt.Errorf("nvml: create MIG instance of profile %d at slice %d of %s: %w", profileID, start, uuid, err)
	}
	return made, nil
}

func (b *Backend) create(ctx context.Context, uuid string, profileID, start int) (device.Instance, error) {
	g, h, err := b.find(uuid)
	if err != nil {
		return device.Instance{}, err
	}
	mode, err := get(ctx, b, g.lane, "nvmlDeviceGetMigMode", paired(h.GetMigMode))
	if err != nil {
		return device.Instance{}, err
	}
	if mode.a != nvml.DEVICE_MIG_ENABLE {
		return device.Instance{}, fmt.Errorf("%w: MIG mode is off", device.ErrNotSupported)
	}
	memory, err := get(ctx, b, g.lane, "nvmlDeviceGetMemoryInfo", h.GetMemoryInfo)
	if err != nil {
		return device.Instance{}, err
	}
	r := &reader{ctx: ctx, b: b, lane: g.lane}
	profiles := b.profiles(r, g, h, memory.Total)
	if r.err != nil {
		return device.Instance{}, r.err
	}
	i := slices.IndexFunc(profiles, func(p profile) bool { return p.ID == profileID })
	if i < 0 {
		return device.Instance{}, fmt.Errorf("profile %d: %w", profileID, device.ErrNotFound)
	}
	p := profiles[i]
	if !slices.Contains(p.Starts, start) {
		return device.Instance{}, fmt.Errorf("%w: %s may start at %v", device.ErrNotSupported, p.Name, p.Starts)
	}

	place := nvml.GpuInstancePlacement{Start: uint32(start), Size: uint32(p.Size)}
	gi, err := change(ctx, b, g.lane, "nvmlDeviceCreateGpuInstanceWithPlacement", func() (nvml.GpuInstance, nvml.Return) {
		return h.CreateGpuInstanceWithPlacement(&p.info, &place)
	})
	if err != nil {
		return device.Instance{}, b.explain(ctx, g.lane, h, profiles, place, err)
	}
	made, err := b.fill(ctx, g, h, gi, p)
	if err != nil {
		undo, cancel := context.WithTimeout(context.WithoutCancel(ctx), b.options.ChangeTimeout)
		defer cancel()
		return device.Instance{}, errors.Join(err, b.remove(undo, g.lane, gi))
	}
	return made, nil
}

// explain adds the instance that is in the way to the error of a creation that failed. The driver calls
// a place that is taken an invalid argument.
func (b *Backend) explain(ctx context.Context, l *lane, h nvml.Device, profiles []profile, place nvml.GpuInstancePlacement, err error) error {
	if broken(err) {
		return err
	}
	found, _ := b.gpuInstances(ctx, l, h, profiles)
	for _, i := range found {
		other := i.describe(nil)[0]
		if int(place.Start) < other.Start+other.Size && other.Start < int(place.Start+place.Size) {
			return fmt.Errorf("%w by instance %d, a %s at slice %d: %w", device.ErrBusy, other.GPUInstance, other.Profile, other.Start, err)
		}
	}
	return err
}

// fill makes one compute instance over all of a GPU instance.
func (b *Backend) fill(ctx context.Context, g *gpu, h nvml.Device, gi nvml.GpuInstance, p profile) (device.Instance, error) {
	info, err := get(ctx, b, g.lane, "nvmlGpuInstanceGetInfo", gi.GetInfo)
	if err != nil {
		return device.Instance{}, err
	}
	r := &reader{ctx: ctx, b: b, lane: g.lane}
	var whole *nvml.ComputeInstanceProfileInfo
	for c := range b.computeProfiles(r, gi, computeKinds(p.info.SliceCount)) {
		if c.SliceCount == p.info.SliceCount {
			whole = &c
			break
		}
	}
	if r.err != nil {
		return device.Instance{}, r.err
	}
	if whole == nil {
		return device.Instance{}, fmt.Errorf("%w: no compute instance covers all of %s", device.ErrNotSupported, p.Name)
	}
	if _, err := change(ctx, b, g.lane, "nvmlGpuInstanceCreateComputeInstance", with(gi.CreateComputeInstance, whole)); err != nil {
		return device.Instance{}, err
	}
	var made []migDevice
	b.eachMIGDevice(r, h, func(m migDevice) bool {
		if m.gpuInstance == int(info.Id) {
			made = append(made, m)
		}
		return len(made) == 0 // there is but one
	})
	if len(made) == 0 {
		return device.Instance{}, errors.Join(fmt.Errorf("the driver does not list the instance it made: %w", device.ErrNotFound), r.err)
	}
	g.mu.Lock()
	if g.cuts != nil {
		ids := append(slices.Clone(g.cuts.instances), int(info.Id))
		slices.Sort(ids)
		g.cuts = &cuts{devices: append(slices.Clone(g.cuts.devices), made...), instances: ids, at: g.cuts.at}
	}
	g.mu.Unlock()
	return gpuInstance{p, info}.describe(made)[0], nil
}

// computeKinds are the kinds of compute instance, that with so many slices first: the
// driver needs milliseconds to say what each is.
func computeKinds(slices uint32) []int {
	first := map[uint32]int{
		1: nvml.COMPUTE_INSTANCE_PROFILE_1_SLICE, 2: nvml.COMPUTE_INSTANCE_PROFILE_2_SLICE, 3: nvml.COMPUTE_INSTANCE_PROFILE_3_SLICE,
		4: nvml.COMPUTE_INSTANCE_PROFILE_4_SLICE, 6: nvml.COMPUTE_INSTANCE_PROFILE_6_SLICE, 7: nvml.COMPUTE_INSTANCE_PROFILE_7_SLICE,
		8: nvml.COMPUTE_INSTANCE_PROFILE_8_SLICE,
	}
	out := []int{first[slices]}
	for kind := range nvml.COMPUTE_INSTANCE_PROFILE_COUNT {
		if kind != out[0] {
			out = append(out, kind)
		}
	}
	return out
}

// computeProfiles are the kinds of compute instance that a GPU instance offers.
func (b *Backend) computeProfiles(r *reader, gi nvml.GpuInstance, kinds []int) iter.Seq[nvml.ComputeInstanceProfileInfo] {
	return func(yield func(nvml.ComputeInstanceProfileInfo) bool) {
		for _, kind := range kinds {
			info, ok := read(r, "nvmlGpuInstanceGetComputeInstanceProfileInfo", func() (nvml.ComputeInstanceProfileInfo, nvml.Return) {
				return gi.GetComputeInstanceProfileInfo(kind, nvml.COMPUTE_INSTANCE_ENGINE_PROFILE_SHARED)
			})
			if ok && !yield(info) {
				return
			}
		}
	}
}

// DestroyInstance implements device.Backend.
func (b *Backend) DestroyInstance(ctx context.Context, uuid string, gpuInstance int) error {
	release, err := b.use()
	if err != nil {
		return err
	}
	defer release()
	g, h, err := b.find(uuid)
	if err == nil {
		var gi nvml.GpuInstance
		if gi, err = get(ctx, b, g.lane, "nvmlDeviceGetGpuInstanceById", with(h.GetGpuInstanceById, gpuInstance)); err == nil {
			defer g.forgetCuts()
			err = b.remove(ctx, g.lane, gi)
		}
	}
	if err != nil {
		return fmt.Errorf("nvml: destroy MIG instance %d of %s: %w", gpuInstance, uuid, err)
	}
	return nil
}

// remove destroys a GPU instance with its compute instances.
func (b *Backend) remove(ctx context.Context, l *lane, gi nvml.GpuInstance) error {
	r := &reader{ctx: ctx, b: b, lane: l}
	for p := range b.computeProfiles(r, gi, computeKinds(1)) {
		p.InstanceCount = room(p.InstanceCount)
		found, err := get(ctx, b, l, "nvmlGpuInstanceGetComputeInstances", with(gi.GetComputeInstances, &p))
		if errors.Is(err, device.ErrNotSupported) {
			continue
		}
		if err != nil {
			return err
		}
		for _, ci := range found {
			if _, err := change(ctx, b, l, "nvmlComputeInstanceDestroy", nothing(ci.Destroy)); err != nil {
				return err
			}
		}
	}
	if r.err != nil {
		return r.err
	}
	_, err := change(ctx, b, l, "nvmlGpuInstanceDestroy", nothing(gi.Destroy))
	return err
}
