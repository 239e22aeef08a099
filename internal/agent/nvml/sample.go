//go:build cgo && linux

package nvml

import (
	"cmp"
	"context"
	"encoding/binary"
	"fmt"
	"maps"
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

// sampleInstances reads what can be told apart by MIG instance: memory. The memory of an
// instance that no process uses does not change, and the driver needs a millisecond to say it,
// so it is read once.
//
// Utilization is not among it. NVML has it from a performance monitor only. On an H200
// (driver 580.159.04) a question to that took 30 to 160 ms of a core, and of seven
// instances at full work it took four for idle: a wrong number is worse than none.
func (b *Backend) sampleInstances(r *reader, g *gpu, devices []migDevice, processes []device.Process) map[string]map[device.Field]float64 {
	used := map[string]bool{}
	for _, p := range processes {
		used[p.Instance] = true
	}
	out, idle := map[string]map[device.Field]float64{}, map[string]map[device.Field]float64{}
	for _, m := range devices {
		values, ok := g.idle[m.uuid]
		if used[m.uuid] || !ok {
			values = map[device.Field]float64{}
			readMemory(r, m.handle, values)
		}
		if len(values) == 0 {
			g.forgetCuts() // the handle may be of an instance that is gone
			continue
		}
		out[m.uuid] = maps.Clone(values)
		if !used[m.uuid] {
			idle[m.uuid] = values
		}
	}
	g.idle = idle
	return out
}

// fieldKey names one of the driver's numbered values; scope is for those that belong to a
// part of the device, such as a link.
type fieldKey struct{ id, scope uint32 }

// fieldValue is a numbered value that becomes a Field. All of a device's are read by one call.
type fieldValue struct {
	field device.Field
	fieldKey
	// unit is what one of the driver's is in the Field's.
	unit float64
}

// allLinks is the scope of a value that sums up all NVLinks.
const allLinks = math.MaxUint32

// fieldValues lists what is read. Fields that occur several times are sums.
var fieldValues = []fieldValue{
	{device.MemoryTemperature, fieldKey{nvml.FI_DEV_MEMORY_TEMP, 0}, 1},
	{device.Energy, fieldKey{nvml.FI_DEV_TOTAL_ENERGY_CONSUMPTION, 0}, 1},
	{device.PCIeReplays, fieldKey{nvml.FI_DEV_PCIE_REPLAY_COUNTER, 0}, 1},
	{device.ECCCorrected, fieldKey{nvml.FI_DEV_ECC_SBE_VOL_TOTAL, 0}, 1},
	{device.ECCUncorrected, fieldKey{nvml.FI_DEV_ECC_DBE_VOL_TOTAL, 0}, 1},
	{device.ECCCorrectedTotal, fieldKey{nvml.FI_DEV_ECC_SBE_AGG_TOTAL, 0}, 1},
	{device.ECCUncorrectedTotal, fieldKey{nvml.FI_DEV_ECC_DBE_AGG_TOTAL, 0}, 1},
	{device.RetiredPagesSingle, fieldKey{nvml.FI_DEV_RETIRED_SBE, 0}, 1},
	{device.RetiredPagesDouble, fieldKey{nvml.FI_DEV_RETIRED_DBE, 0}, 1},
	{device.RetiredPagesPending, fieldKey{nvml.FI_DEV_RETIRED_PENDING, 0}, 1},
	{device.RemappedCorrectable, fieldKey{nvml.FI_DEV_REMAPPED_COR, 0}, 1},
	{device.RemappedUncorrectable, fieldKey{nvml.FI_DEV_REMAPPED_UNC, 0}, 1},
	{device.RemapPending, fieldKey{nvml.FI_DEV_REMAPPED_PENDING, 0}, 1},
	{device.RemapFailed, fieldKey{nvml.FI_DEV_REMAPPED_FAILURE, 0}, 1},
	{device.NVLinkBandwidth, fieldKey{nvml.FI_DEV_NVLINK_THROUGHPUT_DATA_TX, allLinks}, 1024},
	{device.NVLinkBandwidth, fieldKey{nvml.FI_DEV_NVLINK_THROUGHPUT_DATA_RX, allLinks}, 1024},
	{device.NVLinkErrors, fieldKey{nvml.FI_DEV_NVLINK_CRC_FLIT_ERROR_COUNT_TOTAL, 0}, 1},
	{device.NVLinkErrors, fieldKey{nvml.FI_DEV_NVLINK_CRC_DATA_ERROR_COUNT_TOTAL, 0}, 1},
	{device.NVLinkErrors, fieldKey{nvml.FI_DEV_NVLINK_REPLAY_ERROR_COUNT_TOTAL, 0}, 1},
	{device.NVLinkErrors, fieldKey{nvml.FI_DEV_NVLINK_RECOVERY_ERROR_COUNT_TOTAL, 0}, 1},
}

// recovery is the driver's verdict, which is read along with the others.
var recovery = fieldKey{nvml.FI_DEV_GET_GPU_RECOVERY_ACTION, 0}

// readFields reads the numbered values of a device with so many NVLinks into values, and returns the driver's verdict
// on what it needs. What the device said it has not is not asked for again: asking costs as much as an answer.
func readFields(r *reader, g *gpu, h nvml.Device, links int, values map[device.Field]float64) device.Recovery {
	wanted := make([]fieldValue, 0, len(fieldValues)+links)
	g.mu.Lock()
	add := func(f fieldValue) {
		if !g.lacks[f.fieldKey] {
			wanted = append(wanted, f)
		}
	}
	for _, f := range fieldValues {
		add(f)
	}
	for i := range links {
		add(fieldValue{device.NVLinksActive, fieldKey{nvml.FI_DEV_NVLINK_GET_STATE, uint32(i)}, 1})
	}
	g.mu.Unlock()
	keys := []fieldKey{recovery}
	for _, f := range wanted {
		keys = append(keys, f.fieldKey)
	}
	got, verdict := askFields(r, h, keys)
	if got == nil {
		return verdict
	}
	for i, f := range wanted {
		if v, ok := number(got[i+1]); ok {
			values[f.field] += v * f.unit
		} else if nvml.Return(got[i+1].NvmlReturn) == nvml.ERROR_NOT_SUPPORTED {
			g.mu.Lock()
			if g.lacks == nil {
				g.lacks = map[fieldKey]bool{}
			}
			g.lacks[f.fieldKey] = true
			g.mu.Unlock()
		}
	}
	return verdict
}

// askFields asks for numbered values in one call, the first of which is recovery; it returns nil when
// the driver does not answer, and the driver's verdict.
func askFields(r *reader, h nvml.Device, keys []fieldKey) ([]nvml.FieldValue, device.Recovery) {
	got, ok := read(r, "nvmlDeviceGetFieldValues", func() ([]nvml.FieldValue, nvml.Return) {
		ask := make([]nvml.FieldValue, len(keys)) // the driver writes the answers into it
		for i, k := range keys {
			ask[i] = nvml.FieldValue{FieldId: k.id, ScopeId: k.scope}
		}
		return ask, h.GetFieldValues(ask)
	})
	if !ok {
		return nil, device.RecoveryNone
	}
	action, _ := number(got[0])
	return got, recoveries[nvml.DeviceGpuRecoveryAction(action)]
}

// number decodes an answer; false when the driver has none.
func number(v nvml.FieldValue) (float64, bool) {
	if nvml.Return(v.NvmlReturn) != nvml.SUCCESS {
		return 0, false
	}
	word := binary.NativeEndian.Uint64(v.Value[:])
	half := binary.NativeEndian.Uint32(v.Value[:])
	switch nvml.ValueType(v.ValueType) {
	case nvml.VALUE_TYPE_DOUBLE:
		f := math.Float64frombits(word)
		return f, !math.IsNaN(f) && !math.IsInf(f, 0)
	case nvml.VALUE_TYPE_UNSIGNED_INT:
		return float64(half), true
	case nvml.VALUE_TYPE_UNSIGNED_LONG, nvml.VALUE_TYPE_UNSIGNED_LONG_LONG:
		return float64(word), true
	case nvml.VALUE_TYPE_SIGNED_LONG_LONG:
		return float64(int64(word)), true
	case nvml.VALUE_TYPE_SIGNED_INT:
		return float64(int32(half)), true
	case nvml.VALUE_TYPE_UNSIGNED_SHORT:
		return float64(binary.NativeEndian.Uint16(v.Value[:])), true
	}
	return 0, false
}

var recoveries = map[nvml.DeviceGpuRecoveryAction]device.Recovery{
	nvml.GPU_RECOVERY_ACTION_GPU_RESET:           device.RecoveryReset,
	nvml.GPU_RECOVERY_ACTION_NODE_REBOOT:         device.RecoveryReboot,
	nvml.GPU_RECOVERY_ACTION_DRAIN_P2P:           device.RecoveryDrainP2P,
	nvml.GPU_RECOVERY_ACTION_DRAIN_AND_RESET:     device.RecoveryDrainAndReset,
	nvml.GPU_RECOVERY_ACTION_RECOVER_IMEX_DOMAIN: device.RecoveryIMEX,
}

// throttles are the reasons for held-down clocks that are no user's wish, by the
// driver's bit, in the order of the bits.
var throttles = []struct {
	bit  uint64
	name string
}{
	{nvml.ClocksEventReasonSwPowerCap, "sw-power-cap"},
	{nvml.ClocksThrottleReasonHwSlowdown, "hw-slowdown"},
	{nvml.ClocksEventReasonSyncBoost, "sync-boost"},
	{nvml.ClocksEventReasonSwThermalSlowdown, "sw-thermal-slowdown"},
	{nvml.ClocksThrottleReasonHwThermalSlowdown, "hw-thermal-slowdown"},
	{nvml.ClocksThrottleReasonHwPowerBrakeSlowdown, "hw-power-brake-slowdown"},
}

func throttleNames(mask uint64) (out []string) {
	for _, t := range throttles {
		if mask&t.bit != 0 {
			out = append(out, t.name)
		}
	}
	return out
}
