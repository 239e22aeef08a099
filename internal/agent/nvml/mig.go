//go:build cgo && linux

package nvml

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/NVIDIA/go-nvml/pkg/nvml"

	"github.com/tangram-dev/tangram/internal/agent/device"
)

// profile is a MIG profile as device says it, with what the driver needs to use it.
type profile struct {
	device.Profile
	info nvml.GpuInstanceProfileInfo
}

// migDevice is the handle of a MIG device: one compute instance of a GPU instance.
type migDevice struct {
	handle                       nvml.Device
	uuid                         string
	gpuInstance, computeInstance int
}

// gpuInstance is a GPU instance with its profile.
type gpuInstance struct {
	profile
	nvml.GpuInstanceInfo
}

// cuts are the MIG devices of a device, which are kept since the driver needs more than
// 10 ms to find each.
type cuts struct {
	devices []migDevice
	// instances are the GPU instances that existed, sorted; nil when not looked at.
	instances []int
	at        time.Time
}

// cutsLast is how long MIG devices are taken for known while the GPU instances stay the
// same: another program may have made other compute instances in them.
const cutsLast = 5 * time.Minute

// describeMIG reads how a device can be cut and is cut; nil where it cannot be. An
// instance that another program divided into several compute instances is listed once for each
// of them; one without any has no UUID and the compute instance -1.
func (b *Backend) describeMIG(r *reader, g *gpu, h nvml.Device, totalBytes uint64) (*device.MIG, error) {
	mode, ok := read(r, "nvmlDeviceGetMigMode", paired(h.GetMigMode))
	if !ok {
		return nil, nil
	}
	out := &device.MIG{Enabled: mode.a == nvml.DEVICE_MIG_ENABLE}
	profiles := b.profiles(r, g, h, totalBytes)
	for _, p := range profiles {
		out.Profiles = append(out.Profiles, p.Profile)
	}
	if !out.Enabled {
		return out, nil
	}
	found, err := b.gpuInstances(r.ctx, r.lane, h, profiles)
	if err != nil {
		return nil, err
	}
	var ids []int
	for _, i := range found {
		ids = append(ids, int(i.GpuInstanceInfo.Id))
	}
	slices.Sort(ids)
	g.mu.Lock()
	if g.cuts != nil && (!slices.Equal(g.cuts.instances, ids) || time.Since(g.cuts.at) > cutsLast) {
		g.cuts = nil
	}
	g.mu.Unlock()
	devices := b.migDevices(r, g, h)
	g.mu.Lock()
	if g.cuts != nil {
		g.cuts.instances = ids
	}
	g.mu.Unlock()
	for _, i := range found {
		out.Instances = append(out.Instances, i.describe(devices)...)
	}
	slices.SortFunc(out.Instances, func(x, y device.Instance) int {
		return cmp.Or(cmp.Compare(x.Start, y.Start), cmp.Compare(x.ComputeInstance, y.ComputeInstance))
	})
	return out, nil
}

// profiles lists the profiles that a device offers, sorted by ID. They are built in, so
// they are read once; older drivers do not know the places while MIG is off.
func (b *Backend) profiles(r *reader, g *gpu, h nvml.Device, totalBytes uint64) []profile {
	g.mu.Lock()
	known := g.profiles
	g.mu.Unlock()
	if known != nil {
		return known
	}
	var out []profile
	for kind := range nvml.GPU_INSTANCE_PROFILE_COUNT {
		info, ok := read(r, "nvmlDeviceGetGpuInstanceProfileInfo", with(h.GetGpuInstanceProfileInfo, kind))
		if !ok {
			continue
		}
		p := profile{info: info, Profile: device.Profile{ID: int(info.Id), MemoryMiB: int64(info.MemorySizeMB),
			SMs: int(info.MultiprocessorCount), ComputeSlices: int(info.SliceCount)}}
		p.Name, _ = read(r, "nvmlDeviceGetGpuInstanceProfileInfoV", func() (string, nvml.Return) {
			named, ret := h.GetGpuInstanceProfileInfoV(kind).V2()
			return text(named.Name[:]), ret
		})
		if p.Name = strings.TrimPrefix(p.Name, "MIG "); p.Name == "" {
			p.Name = profileName(kind, info, totalBytes)
		}
		places, _ := read(r, "nvmlDeviceGetGpuInstancePossiblePlacements_v2", with(h.GetGpuInstancePossiblePlacements, &info))
		for _, place := range places {
			p.Starts = append(p.Starts, int(place.Start))
			p.Size = int(place.Size)
		}
		slices.Sort(p.Starts)
		out = append(out, p)
	}
	slices.SortFunc(out, func(x, y profile) int { return cmp.Compare(x.ID, y.ID) })
	if r.err == nil && !slices.ContainsFunc(out, func(p profile) bool { return len(p.Starts) == 0 }) {
		g.mu.Lock()
		defer g.mu.Unlock()
		g.profiles = out
	}
	return out
}

// migDevices lists the MIG devices that exist, from what is kept of them.
func (b *Backend) migDevices(r *reader, g *gpu, h nvml.Device) []migDevice {
	g.mu.Lock()
	known := g.cuts
	g.mu.Unlock()
	if known != nil {
		return known.devices
	}
	fresh := &cuts{at: time.Now()}
	b.eachMIGDevice(r, h, func(m migDevice) bool {
		fresh.devices = append(fresh.devices, m)
		return true
	})
	if r.err == nil {
		g.mu.Lock()
		defer g.mu.Unlock()
		g.cuts = fresh
	}
	return fresh.devices
}

// eachMIGDevice asks the driver for the MIG devices, until yield returns false.
func (b *Backend) eachMIGDevice(r *reader, h nvml.Device, yield func(migDevice) bool) {
	count, _ := read(r, "nvmlDeviceGetMaxMigDeviceCount", h.GetMaxMigDeviceCount)
	for i := range count {
		handle, ok := read(r, "nvmlDeviceGetMigDeviceHandleByIndex", with(h.GetMigDeviceHandleByIndex, i))
		if !ok {
			continue // numbers have gaps
		}
		m := migDevice{handle: handle}
		var ok1, ok2, ok3 bool
		m.gpuInstance, ok1 = read(r, "nvmlDeviceGetGpuInstanceId", handle.GetGpuInstanceId)
		m.computeInstance, ok2 = read(r, "nvmlDeviceGetComputeInstanceId", handle.GetComputeInstanceId)
		m.uuid, ok3 = read(r, "nvmlDeviceGetUUID", handle.GetUUID)
		if ok1 && ok2 && ok3 && !yield(m) {
			return
		}
	}
}

// forgetCuts makes the next reader ask the driver for the MIG devices.
func (g *gpu) forgetCuts() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.cuts = nil
}

// gpuInstances lists the instances of a device.
func (b *Backend) gpuInstances(ctx context.Context, l *lane, h nvml.Device, profiles []profile) ([]gpuInstance, error) {
	var out []gpuInstance
	for _, p := range profiles {
		info := p.info
		info.InstanceCount = room(info.InstanceCount)
		handles, err := get(ctx, b, l, "nvmlDeviceGetGpuInstances", with(h.GetGpuInstances, &info))
		if errors.Is(err, device.ErrNotSupported) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("list MIG instances (needs CAP_SYS_ADMIN): %w", err)
		}
		for _, handle := range handles {
			got, err := get(ctx, b, l, "nvmlGpuInstanceGetInfo", handle.GetInfo)
			if err != nil {
				return nil, fmt.Errorf("read a MIG instance: %w", err)
			}
			out = append(out, gpuInstance{p, got})
		}
	}
	return out, nil
}

// describe is what device says of a GPU instance: once for each of its MIG devices.
func (i gpuInstance) describe(devices []migDevice) []device.Instance {
	base := device.Instance{GPUInstance: int(i.GpuInstanceInfo.Id), ComputeInstance: -1, ProfileID: i.profile.ID, Profile: i.profile.Name,
		Start: int(i.Placement.Start), Size: int(i.Placement.Size), MemoryMiB: i.MemoryMiB}
	var out []device.Instance
	for _, m := range devices {
		if m.gpuInstance == base.GPUInstance {
			one := base
			one.UUID, one.ComputeInstance = m.uuid, m.computeInstance
			out = append(out, one)
		}
	}
	if out == nil {
		return []device.Instance{base}
	}
	return out
}

// room is how many handles to make room for when the driver lists instances. Its own
// count is too small on some models, and go-nvml cannot make room for none.
func room(count uint32) uint32 { return max(count, 8) }

// profileName makes the name that nvidia-smi shows, for drivers that do not say it: the
// compute slices, the memory in eighths of the device's, and what is special.
func profileName(kind int, info nvml.GpuInstanceProfileInfo, totalBytes uint64) string {
	total := float64(totalBytes) / (1 << 20)
	eighths := math.Ceil(float64(info.MemorySizeMB) / total * 8)
	gigabytes := int(math.Round(eighths / 8 * math.Ceil(total/1024)))
	return fmt.Sprintf("%dg.%dgb%s", info.SliceCount, gigabytes, profileSuffix[kind])
}

var profileSuffix = map[int]string{
	nvml.GPU_INSTANCE_PROFILE_1_SLICE_REV1: "+me", nvml.GPU_INSTANCE_PROFILE_2_SLICE_REV1: "+me",
	nvml.GPU_INSTANCE_PROFILE_1_SLICE_GFX: "+gfx", nvml.GPU_INSTANCE_PROFILE_2_SLICE_GFX: "+gfx",
	nvml.GPU_INSTANCE_PROFILE_3_SLICE_GFX: "+gfx", nvml.GPU_INSTANCE_PROFILE_4_SLICE_GFX: "+gfx",
	nvml.GPU_INSTANCE_PROFILE_1_SLICE_NO_ME: "-me", nvml.GPU_INSTANCE_PROFILE_2_SLICE_NO_ME: "-me",
	nvml.GPU_INSTANCE_PROFILE_1_SLICE_ALL_ME: "+me.all", nvml.GPU_INSTANCE_PROFILE_2_SLICE_ALL_ME: "+me.all",
}

// text is a C string.
func text(chars []int8) string {
	var out []byte
	for _, c := range chars {
		if c == 0 {
			break
		}
		out = append(out, byte(c))
	}
	return string(out)
}
