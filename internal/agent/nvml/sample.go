//go:build cgo && linux

package nvml

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
	"sync"
	"time"

	"github.com/NVIDIA/go-nvml/pkg/nvml"

	"github.com/tangram-dev/tangram/internal/agent/device"
)

// Sample implements device.Backend. Devices are read at the same time, so one that hangs
// delays no other's values, only the answer.
func (b *Backend) Sample(ctx context.Context) ([]device.Sample, error) {
	release, err := b.use()
	if err != nil {
		return nil, err
	}
	defer release()
	samples := make([]device.Sample, len(b.gpus))
	var all sync.WaitGroup
	for i, g := range b.gpus {
		all.Go(func() { samples[i] = b.sample(ctx, g) })
	}
	all.Wait()
	// A device that never answered has no UUID, and no place in the inventory.
	return slices.DeleteFunc(samples, func(s device.Sample) bool { return s.UUID == "" }), nil
}

func (b *Backend) sample(ctx context.Context, g *gpu) device.Sample {
	g.sampling.Lock()
	defer g.sampling.Unlock()
	err := b.attach(ctx, g)
	g.mu.Lock()
	h, uuid, links := g.handle, g.uuid, 0
	if g.known != nil {
		links = g.known.NVLinks
	}
	g.mu.Unlock()
	s := device.Sample{UUID: uuid, At: time.Now()}
	if err != nil {
		s.Err = fmt.Errorf("nvml: %w", err)
		return s
	}

	r := &reader{ctx: ctx, b: b, lane: g.lane}
	s.Values = map[device.Field]float64{}
	readMemory(r, h, s.Values)
	readLoad(r, h, s.Values)
	if mask, ok := clockReasons(r, h); ok {
		s.Values[device.ClockEventReasons] = float64(mask)
		s.Throttle = throttleNames(mask)
	}
	s.Recovery = readFields(r, g, h, links, s.Values)

	var devices []migDevice
	mode, ok := read(r, "nvmlDeviceGetMigMode", paired(h.GetMigMode))
	cut := ok && mode.a == nvml.DEVICE_MIG_ENABLE
	if cut {
		devices = b.migDevices(r, g, h)
	}
	s.Processes = b.processes(r, g, h, devices)
	if cut {
		s.Instances = b.sampleInstances(r, g, devices, s.Processes)
	}

	if r.err == nil && len(s.Values) == 0 {
		r.err = fmt.Errorf("device %d reports nothing", g.index)
	}
	if r.err != nil {
		return device.Sample{UUID: uuid, At: s.At, Err: fmt.Errorf("nvml: %w", r.err)}
	}
	return s
}

func readMemory(r *reader, h nvml.Device, values map[device.Field]float64) {
	// The second version tells what the driver holds back from what programs use.
	if m, ok := read(r, "nvmlDeviceGetMemoryInfo_v2", h.GetMemoryInfo_v2); ok {
		values[device.MemoryUsed] = mib(m.Used)
		values[device.MemoryFree] = mib(m.Free)
		values[device.MemoryReserved] = mib(m.Reserved)
	} else if m, ok := read(r, "nvmlDeviceGetMemoryInfo", h.GetMemoryInfo); ok {
		values[device.MemoryUsed] = mib(m.Used)
		values[device.MemoryFree] = mib(m.Free)
	}
}

func readLoad(r *reader, h nvml.Device, values map[device.Field]float64) {
	if u, ok := read(r, "nvmlDeviceGetUtilizationRates", h.GetUtilizationRates); ok {
		values[device.Utilization] = float64(u.Gpu)
		values[device.MemoryUtilization] = float64(u.Memory)
	}
	if v, ok := read(r, "nvmlDeviceGetEncoderUtilization", paired(h.GetEncoderUtilization)); ok {
		values[device.EncoderUtilization] = float64(v.a)
	}
	if v, ok := read(r, "nvmlDeviceGetDecoderUtilization", paired(h.GetDecoderUtilization)); ok {
		values[device.DecoderUtilization] = float64(v.a)
	}
	readValue(r, values, device.Temperature, 1, "nvmlDeviceGetTemperature", with(h.GetTemperature, nvml.TEMPERATURE_GPU))
	readValue(r, values, device.Power, 1000, "nvmlDeviceGetPowerUsage", h.GetPowerUsage)
	readValue(r, values, device.PowerLimit, 1000, "nvmlDeviceGetEnforcedPowerLimit", h.GetEnforcedPowerLimit)
	readValue(r, values, device.SMClock, 1, "nvmlDeviceGetClockInfo", with(h.GetClockInfo, nvml.CLOCK_SM))
	readValue(r, values, device.MemoryClock, 1, "nvmlDeviceGetClockInfo", with(h.GetClockInfo, nvml.CLOCK_MEM))
	readValue(r, values, device.PCIeGeneration, 1, "nvmlDeviceGetCurrPcieLinkGeneration", h.GetCurrPcieLinkGeneration)
	readValue(r, values, device.PCIeLanes, 1, "nvmlDeviceGetCurrPcieLinkWidth", h.GetCurrPcieLinkWidth)
}

// readValue reads one field, of which the driver's unit is so many times smaller.
func readValue[N int | uint32](r *reader, values map[device.Field]float64, field device.Field, smaller float64, name string, fn func() (N, nvml.Return)) {
	if v, ok := read(r, name, fn); ok {
		values[field] = float64(v) / smaller
	}
}

// clockReasons reads why clocks are what they are, by the function's new name or its old
// one.
func clockReasons(r *reader, h nvml.Device) (uint64, bool) {
	if mask, ok := read(r, "nvmlDeviceGetCurrentClocksEventReasons", h.GetCurrentClocksEventReasons); ok {
		return mask, true
	}
	return read(r, "nvmlDeviceGetCurrentClocksThrottleReasons", h.GetCurrentClocksThrottleReasons)
}

// processes are those that use the device, sorted by process and instance.
func (b *Backend) processes(r *reader, g *gpu, h nvml.Device, devices []migDevice) []device.Process {
	const none = math.MaxUint32 // of instance numbers
	found, _ := read(r, "nvmlDeviceGetComputeRunningProcesses_v3", h.GetComputeRunningProcesses)
	clients, _ := read(r, "nvmlDeviceGetMPSComputeRunningProcesses_v3", h.GetMPSComputeRunningProcesses)
	found = append(found, clients...)
	if len(found) == 0 {
		return nil
	}
	shares, known := b.processShares(r, g, h)

	var out []device.Process
	for _, p := range found {
		one := device.Process{PID: int(p.Pid), SMPercent: -1}
		if p.UsedGpuMemory != math.MaxUint64 { // the driver's "unknown"
			one.MemoryMiB = int64(p.UsedGpuMemory >> 20)
		}
		if known {
			one.SMPercent = shares[p.Pid] // the driver does not list those that did nothing
		}
		for _, m := range devices {
			if p.GpuInstanceId != none && m.gpuInstance == int(p.GpuInstanceId) && m.computeInstance == int(p.ComputeInstanceId) {
				one.Instance = m.uuid
			}
		}
		out = append(out, one)
	}
	order := func(x, y device.Process) int {
		return cmp.Or(cmp.Compare(x.PID, y.PID), cmp.Compare(x.Instance, y.Instance))
	}
	slices.SortStableFunc(out, order)
	// Some drivers list an MPS client in both lists.
	return slices.CompactFunc(out, func(x, y device.Process) bool { return order(x, y) == 0 })
}

// processShares are the shares of SM time of the processes that did something since the
// last sample, or in the last second where that is longer ago; false when the driver does
// not say.
func (b *Backend) processShares(r *reader, g *gpu, h nvml.Device) (map[uint32]int, bool) {
	now := time.Now()
	g.mu.Lock()
	since := now.Add(-time.Second)
	if !g.sampled.IsZero() && g.sampled.Before(since) {
		since = g.sampled
	}
	g.sampled = now
	g.mu.Unlock()
	samples, ok := read(r, "nvmlDeviceGetProcessUtilization", func() ([]nvml.ProcessUtilizationSample, nvml.Return) {
		samples, ret := h.GetProcessUtilization(uint64(since.UnixMicro()))
		if ret == nvml.ERROR_NOT_FOUND { // no process was busy
			return nil, nvml.SUCCESS
		}
		return samples, ret
	})
	shares, newest := map[uint32]int{}, map[uint32]uint64{}
	for _, s := range samples {
		if s.TimeStamp >= newest[s.Pid] && s.SmUtil <= 100 {
			newest[s.Pid], shares[s.Pid] = s.TimeStamp, int(s.SmUtil)
		}
	}
	return shares, ok
}

func mib(bytes uint64) float64 { return float64(bytes) / (1 << 20) }
