package export

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/tangram-dev/tangram/internal/agent/device"
)

// metric is how a field of a sample is shown.
type metric struct {
	field device.Field
	name  string
	kind  prometheus.ValueType
	help  string
}

// metrics is DCGM's list, as dcgm-exporter describes it; what DCGM has no name for is
// called tangram_gpu_*. Each field stands here once.
var metrics = []metric{
	{device.SMClock, "DCGM_FI_DEV_SM_CLOCK", prometheus.GaugeValue, "SM clock frequency (in MHz)."},
	{device.MemoryClock, "DCGM_FI_DEV_MEM_CLOCK", prometheus.GaugeValue, "Memory clock frequency (in MHz)."},
	{device.MemoryTemperature, "DCGM_FI_DEV_MEMORY_TEMP", prometheus.GaugeValue, "Memory temperature (in C)."},
	{device.Temperature, "DCGM_FI_DEV_GPU_TEMP", prometheus.GaugeValue, "GPU temperature (in C)."},
	{device.Power, "DCGM_FI_DEV_POWER_USAGE", prometheus.GaugeValue, "Power draw (in W)."},
	{device.PowerLimit, "DCGM_FI_DEV_POWER_MGMT_LIMIT", prometheus.GaugeValue, "Current power management limit (in W)."},
	{device.Energy, "DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION", prometheus.CounterValue, "Total energy consumption since boot (in mJ)."},
	{device.PCIeReplays, "DCGM_FI_DEV_PCIE_REPLAY_COUNTER", prometheus.CounterValue, "Total number of PCIe retries."},
	{device.PCIeGeneration, "DCGM_FI_DEV_PCIE_LINK_GEN", prometheus.GaugeValue, "PCIe current link generation."},
	{device.PCIeLanes, "DCGM_FI_DEV_PCIE_LINK_WIDTH", prometheus.GaugeValue, "PCIe current link width."},
	{device.Utilization, "DCGM_FI_DEV_GPU_UTIL", prometheus.GaugeValue, "GPU utilization (in %)."},
	{device.MemoryUtilization, "DCGM_FI_DEV_MEM_COPY_UTIL", prometheus.GaugeValue, "Memory utilization (in %)."},
	{device.EncoderUtilization, "DCGM_FI_DEV_ENC_UTIL", prometheus.GaugeValue, "Encoder utilization (in %)."},
	{device.DecoderUtilization, "DCGM_FI_DEV_DEC_UTIL", prometheus.GaugeValue, "Decoder utilization (in %)."},
	{device.LastXID, "DCGM_FI_DEV_XID_ERRORS", prometheus.GaugeValue, "Value of the last XID error encountered."},
	{device.ClockEventReasons, "DCGM_FI_DEV_CLOCKS_EVENT_REASONS", prometheus.GaugeValue, "Current clock event reasons (bitmask of DCGM_CLOCKS_EVENT_REASON_*)."},
	{device.MemoryFree, "DCGM_FI_DEV_FB_FREE", prometheus.GaugeValue, "Framebuffer memory free (in MiB)."},
	{device.MemoryUsed, "DCGM_FI_DEV_FB_USED", prometheus.GaugeValue, "Framebuffer memory used (in MiB)."},
	{device.MemoryReserved, "DCGM_FI_DEV_FB_RESERVED", prometheus.GaugeValue, "Framebuffer memory reserved (in MiB)."},
	{device.ECCCorrected, "DCGM_FI_DEV_ECC_SBE_VOL_TOTAL", prometheus.CounterValue, "Total number of single-bit volatile ECC errors."},
	{device.ECCUncorrected, "DCGM_FI_DEV_ECC_DBE_VOL_TOTAL", prometheus.CounterValue, "Total number of double-bit volatile ECC errors."},
	{device.ECCCorrectedTotal, "DCGM_FI_DEV_ECC_SBE_AGG_TOTAL", prometheus.CounterValue, "Total number of single-bit persistent ECC errors."},
	{device.ECCUncorrectedTotal, "DCGM_FI_DEV_ECC_DBE_AGG_TOTAL", prometheus.CounterValue, "Total number of double-bit persistent ECC errors."},
	{device.RetiredPagesSingle, "DCGM_FI_DEV_RETIRED_SBE", prometheus.CounterValue, "Total number of retired pages due to single-bit errors."},
	{device.RetiredPagesDouble, "DCGM_FI_DEV_RETIRED_DBE", prometheus.CounterValue, "Total number of retired pages due to double-bit errors."},
	{device.RetiredPagesPending, "DCGM_FI_DEV_RETIRED_PENDING", prometheus.CounterValue, "Total number of pages pending retirement."},
	{device.RemappedUncorrectable, "DCGM_FI_DEV_UNCORRECTABLE_REMAPPED_ROWS", prometheus.CounterValue, "Number of remapped rows for uncorrectable errors"},
	{device.RemappedCorrectable, "DCGM_FI_DEV_CORRECTABLE_REMAPPED_ROWS", prometheus.CounterValue, "Number of remapped rows for correctable errors"},
	{device.RemapPending, "DCGM_FI_DEV_ROW_REMAP_PENDING", prometheus.GaugeValue, "Whether remapping of rows is pending"},
	{device.RemapFailed, "DCGM_FI_DEV_ROW_REMAP_FAILURE", prometheus.GaugeValue, "Whether remapping of rows has failed"},
	{device.NVLinkBandwidth, "DCGM_FI_DEV_NVLINK_BANDWIDTH_TOTAL", prometheus.CounterValue, "Total number of NVLink bandwidth counters for all lanes."},
	{device.NVLinkErrors, "tangram_gpu_nvlink_errors_total", prometheus.CounterValue, "CRC, replay and recovery errors of all NVLinks."},
	{device.NVLinksActive, "tangram_gpu_nvlinks_active", prometheus.GaugeValue, "NVLinks that are up."},
}
