//go:build cgo && linux

package nvml

import (
	"encoding/binary"
	"math"

	"github.com/NVIDIA/go-nvml/pkg/nvml"

	"github.com/tangram-dev/tangram/internal/agent/device"
)

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
