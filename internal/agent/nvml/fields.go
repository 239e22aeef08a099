//go:build cgo && linux

package nvml

import (
	"encoding/binary"
	"math"

	"github.com/NVIDIA/go-nvml/pkg/nvml"

	"github.com/tangram-dev/tangram/internal/agent/device"
)

// fieldValue is one of the driver's numbered values that becomes a Field. All of a
// device's are read by one call.
type fieldValue struct {
	field device.Field
	id    uint32
	// scope is for values that belong to a part of the device, such as a link.
	scope uint32
	// unit is what one of the driver's is in the Field's.
	unit float64
}

// allLinks is the scope of a value that sums up all NVLinks.
const allLinks = math.MaxUint32

// fieldValues lists what is read. Fields that occur several times are sums.
var fieldValues = []fieldValue{
	{device.MemoryTemperature, nvml.FI_DEV_MEMORY_TEMP, 0, 1},
	{device.Energy, nvml.FI_DEV_TOTAL_ENERGY_CONSUMPTION, 0, 1},
	{device.PCIeReplays, nvml.FI_DEV_PCIE_REPLAY_COUNTER, 0, 1},
	{device.ECCCorrected, nvml.FI_DEV_ECC_SBE_VOL_TOTAL, 0, 1},
	{device.ECCUncorrected, nvml.FI_DEV_ECC_DBE_VOL_TOTAL, 0, 1},
	{device.ECCCorrectedTotal, nvml.FI_DEV_ECC_SBE_AGG_TOTAL, 0, 1},
	{device.ECCUncorrectedTotal, nvml.FI_DEV_ECC_DBE_AGG_TOTAL, 0, 1},
	{device.RetiredPagesSingle, nvml.FI_DEV_RETIRED_SBE, 0, 1},
	{device.RetiredPagesDouble, nvml.FI_DEV_RETIRED_DBE, 0, 1},
	{device.RetiredPagesPending, nvml.FI_DEV_RETIRED_PENDING, 0, 1},
	{device.RemappedCorrectable, nvml.FI_DEV_REMAPPED_COR, 0, 1},
	{device.RemappedUncorrectable, nvml.FI_DEV_REMAPPED_UNC, 0, 1},
	{device.RemapPending, nvml.FI_DEV_REMAPPED_PENDING, 0, 1},
	{device.RemapFailed, nvml.FI_DEV_REMAPPED_FAILURE, 0, 1},
	{device.NVLinkBandwidth, nvml.FI_DEV_NVLINK_THROUGHPUT_DATA_TX, allLinks, 1024},
	{device.NVLinkBandwidth, nvml.FI_DEV_NVLINK_THROUGHPUT_DATA_RX, allLinks, 1024},
	{device.NVLinkErrors, nvml.FI_DEV_NVLINK_CRC_FLIT_ERROR_COUNT_TOTAL, 0, 1},
	{device.NVLinkErrors, nvml.FI_DEV_NVLINK_CRC_DATA_ERROR_COUNT_TOTAL, 0, 1},
	{device.NVLinkErrors, nvml.FI_DEV_NVLINK_REPLAY_ERROR_COUNT_TOTAL, 0, 1},
	{device.NVLinkErrors, nvml.FI_DEV_NVLINK_RECOVERY_ERROR_COUNT_TOTAL, 0, 1},
}

// recoveryField is the driver's verdict, read along with the others.
const recoveryField = nvml.FI_DEV_GET_GPU_RECOVERY_ACTION

// readFields reads the numbered values of a device with so many NVLinks into values, and
// returns the driver's verdict on what it needs.
func readFields(r *reader, h nvml.Device, links int, values map[device.Field]float64) device.Recovery {
	// One array for the call; the driver writes the answers into it.
	ask := make([]nvml.FieldValue, 0, len(fieldValues)+1+links)
	for _, f := range fieldValues {
		ask = append(ask, nvml.FieldValue{FieldId: f.id, ScopeId: f.scope})
	}
	ask = append(ask, nvml.FieldValue{FieldId: recoveryField})
	for i := range links {
		ask = append(ask, nvml.FieldValue{FieldId: nvml.FI_DEV_NVLINK_GET_STATE, ScopeId: uint32(i)})
	}
	got, ok := read(r, "nvmlDeviceGetFieldValues", func() ([]nvml.FieldValue, nvml.Return) {
		ret := h.GetFieldValues(ask)
		return ask, ret
	})
	if !ok {
		return device.RecoveryNone
	}
	for i, f := range fieldValues {
		if v, ok := number(got[i]); ok {
			values[f.field] += v * f.unit
		}
	}
	recovery, _ := number(got[len(fieldValues)])
	for _, state := range got[len(fieldValues)+1:] {
		if v, ok := number(state); ok {
			values[device.NVLinksActive] += v
		}
	}
	return recoveries[nvml.DeviceGpuRecoveryAction(recovery)]
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

func throttleNames(mask uint64) []string {
	var out []string
	for _, t := range throttles {
		if mask&t.bit != 0 {
			out = append(out, t.name)
		}
	}
	return out
}
