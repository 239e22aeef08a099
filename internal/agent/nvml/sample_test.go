//go:build cgo && linux

package nvml

import (
	"context"
	"encoding/binary"
	"errors"
	"math"
	"sync/atomic"
	"testing"
	"time"

	"github.com/NVIDIA/go-nvml/pkg/nvml"
	"github.com/google/go-cmp/cmp"

	"github.com/tangram-dev/tangram/internal/agent/device"
)

// answer fills in the numbered values of which there is one.
func answer(values []nvml.FieldValue, have map[uint32]uint64) nvml.Return {
	for i := range values {
		v, ok := have[values[i].FieldId]
		if !ok {
			values[i].NvmlReturn = uint32(nvml.ERROR_NOT_SUPPORTED)
			continue
		}
		values[i].ValueType = uint32(nvml.VALUE_TYPE_UNSIGNED_LONG_LONG)
		binary.NativeEndian.PutUint64(values[i].Value[:], v)
	}
	return nvml.SUCCESS
}

func TestSample(t *testing.T) {
	m := newMachine(t, 1)
	d := m.device(0)
	d.GetMemoryInfo_v2Func = func() (nvml.Memory_v2, nvml.Return) {
		return nvml.Memory_v2{Used: 10 << 30, Free: 29 << 30, Reserved: 1 << 30}, nvml.SUCCESS
	}
	d.GetUtilizationRatesFunc = func() (nvml.Utilization, nvml.Return) {
		return nvml.Utilization{Gpu: 87, Memory: 12}, nvml.SUCCESS
	}
	d.GetTemperatureFunc = func(nvml.TemperatureSensors) (uint32, nvml.Return) { return 61, nvml.SUCCESS }
	d.GetPowerUsageFunc = func() (uint32, nvml.Return) { return 312_500, nvml.SUCCESS }
	d.GetClockInfoFunc = func(kind nvml.ClockType) (uint32, nvml.Return) {
		return map[nvml.ClockType]uint32{nvml.CLOCK_SM: 1410, nvml.CLOCK_MEM: 1215}[kind], nvml.SUCCESS
	}
	d.GetCurrentClocksThrottleReasonsFunc = func() (uint64, nvml.Return) {
		return nvml.ClocksThrottleReasonGpuIdle | nvml.ClocksEventReasonSwPowerCap | nvml.ClocksThrottleReasonHwThermalSlowdown, nvml.SUCCESS
	}
	d.GetNvLinkStateFunc = func(link int) (nvml.EnableState, nvml.Return) {
		if link >= 3 {
			return 0, nvml.ERROR_INVALID_ARGUMENT
		}
		return nvml.FEATURE_DISABLED, nvml.SUCCESS
	}
	var asked []int
	d.GetFieldValuesFunc = func(values []nvml.FieldValue) nvml.Return {
		asked = append(asked, len(values))
		return answer(values, map[uint32]uint64{
			nvml.FI_DEV_MEMORY_TEMP:                       55,
			nvml.FI_DEV_TOTAL_ENERGY_CONSUMPTION:          123456789,
			nvml.FI_DEV_ECC_DBE_VOL_TOTAL:                 2,
			nvml.FI_DEV_REMAPPED_PENDING:                  1,
			nvml.FI_DEV_NVLINK_THROUGHPUT_DATA_TX:         3,
			nvml.FI_DEV_NVLINK_THROUGHPUT_DATA_RX:         4,
			nvml.FI_DEV_NVLINK_CRC_FLIT_ERROR_COUNT_TOTAL: 5,
			nvml.FI_DEV_NVLINK_REPLAY_ERROR_COUNT_TOTAL:   6,
			nvml.FI_DEV_NVLINK_GET_STATE:                  1,
			nvml.FI_DEV_GET_GPU_RECOVERY_ACTION:           uint64(nvml.GPU_RECOVERY_ACTION_DRAIN_AND_RESET),
		})
	}
	d.GetComputeRunningProcessesFunc = func() ([]nvml.ProcessInfo, nvml.Return) {
		return []nvml.ProcessInfo{
			{Pid: 300, UsedGpuMemory: math.MaxUint64, GpuInstanceId: math.MaxUint32, ComputeInstanceId: math.MaxUint32},
			{Pid: 200, UsedGpuMemory: 512 << 20, GpuInstanceId: math.MaxUint32, ComputeInstanceId: math.MaxUint32},
		}, nvml.SUCCESS
	}
	d.GetMPSComputeRunningProcessesFunc = func() ([]nvml.ProcessInfo, nvml.Return) {
		return []nvml.ProcessInfo{{Pid: 200, UsedGpuMemory: 512 << 20}, {Pid: 250, UsedGpuMemory: 1 << 30}}, nvml.SUCCESS
	}
	var since []uint64
	d.GetProcessUtilizationFunc = func(last uint64) ([]nvml.ProcessUtilizationSample, nvml.Return) {
		since = append(since, last)
		return []nvml.ProcessUtilizationSample{{Pid: 200, TimeStamp: 70, SmUtil: 40}, {Pid: 200, TimeStamp: 60, SmUtil: 90}}, nvml.SUCCESS
	}

	b := m.open()
	if _, err := b.Inventory(t.Context()); err != nil {
		t.Fatal(err)
	}
	samples, err := b.Sample(t.Context())
	if err != nil || len(samples) != 1 {
		t.Fatalf("%d samples, error %v", len(samples), err)
	}
	s := samples[0]
	if s.Err != nil || s.UUID != "GPU-0" || s.At.IsZero() {
		t.Errorf("sample %+v", s)
	}
	want := map[device.Field]float64{
		device.MemoryUsed: 10240, device.MemoryFree: 29696, device.MemoryReserved: 1024,
		device.Utilization: 87, device.MemoryUtilization: 12, device.Temperature: 61, device.MemoryTemperature: 55,
		device.Power: 312.5, device.SMClock: 1410, device.MemoryClock: 1215, device.Energy: 123456789,
		device.ECCUncorrected: 2, device.RemapPending: 1, device.NVLinkBandwidth: 7168, device.NVLinkErrors: 11,
		device.NVLinksActive: 3, device.ClockEventReasons: 0x45,
	}
	if diff := cmp.Diff(want, s.Values); diff != "" {
		t.Errorf("values (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"sw-power-cap", "hw-thermal-slowdown"}, s.Throttle); diff != "" {
		t.Errorf("throttle reasons (-want +got):\n%s", diff)
	}
	if s.Recovery != device.RecoveryDrainAndReset {
		t.Errorf("recovery %q", s.Recovery)
	}
	processes := []device.Process{
		{PID: 200, MemoryMiB: 512, SMPercent: 40},
		{PID: 250, MemoryMiB: 1024, SMPercent: 0},
		{PID: 300, MemoryMiB: 0, SMPercent: 0},
	}
	if diff := cmp.Diff(processes, s.Processes); diff != "" {
		t.Errorf("processes (-want +got):\n%s", diff)
	}
	if _, err := b.Sample(t.Context()); err != nil {
		t.Fatal(err)
	}
	for i, last := range since {
		if ago := time.Since(time.UnixMicro(int64(last))); ago < time.Second || ago > time.Minute {
			t.Errorf("sample %d asked for process shares of the last %s, want a second", i, ago)
		}
	}
	// 20 numbered values, 3 links and the verdict; then the 11 it has, with the links'.
	if diff := cmp.Diff([]int{24, 12}, asked); diff != "" {
		t.Errorf("numbered values asked for (-want +got):\n%s", diff)
	}
}

// TestSampleInstances: of an instance that is used the memory is read each time, of one
// that no process uses once; one that another program destroyed is noticed.
func TestSampleInstances(t *testing.T) {
	m := newMachine(t, 1)
	b := m.open()
	if err := b.SetMIG(t.Context(), "GPU-0", true); err != nil {
		t.Fatal(err)
	}
	var made []device.Instance
	for start := range 2 {
		one, err := b.CreateInstance(t.Context(), "GPU-0", oneSlice, start)
		if err != nil {
			t.Fatal(err)
		}
		made = append(made, one)
	}
	d := m.device(0)
	d.GetComputeRunningProcessesFunc = func() ([]nvml.ProcessInfo, nvml.Return) {
		return []nvml.ProcessInfo{{Pid: 42, UsedGpuMemory: 1 << 20, GpuInstanceId: uint32(made[1].GPUInstance), ComputeInstanceId: uint32(made[1].ComputeInstance)}}, nvml.SUCCESS
	}
	if _, err := b.Inventory(t.Context()); err != nil {
		t.Fatal(err)
	}
	listed, read := m.observed["nvmlDeviceGetMigDeviceHandleByIndex"], m.observed["nvmlDeviceGetMemoryInfo_v2"]
	const rounds = 3
	for range rounds {
		samples, err := b.Sample(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		s := samples[0]
		want := map[device.Field]float64{device.MemoryUsed: 100, device.MemoryFree: 4764, device.MemoryReserved: 0}
		if diff := cmp.Diff(map[string]map[device.Field]float64{made[0].UUID: want, made[1].UUID: want}, s.Instances); diff != "" {
			t.Errorf("instances (-want +got):\n%s", diff)
		}
		if diff := cmp.Diff([]device.Process{{PID: 42, MemoryMiB: 1, SMPercent: -1, Instance: made[1].UUID}}, s.Processes); diff != "" {
			t.Errorf("processes (-want +got):\n%s", diff)
		}
		delete(s.Instances[made[0].UUID], device.MemoryUsed) // the caller's own
	}
	if n := m.observed["nvmlDeviceGetMigDeviceHandleByIndex"] - listed; n > 0 {
		t.Errorf("MIG devices were listed again %d times", n)
	}
	// The device itself and the instance that is used each time, the other once.
	if n := m.observed["nvmlDeviceGetMemoryInfo_v2"] - read; n != 2*rounds+1 {
		t.Errorf("memory was read %d times, want %d", n, 2*rounds+1)
	}

	// Another program destroys one.
	for ci := range instancesOf(d)[0].ComputeInstances {
		ci.Destroy()
	}
	instancesOf(d)[0].Destroy()
	inv, err := b.Inventory(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(made[1:], inv.Devices[0].MIG.Instances); diff != "" {
		t.Errorf("instances (-want +got):\n%s", diff)
	}
	samples, err := b.Sample(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if len(samples[0].Instances) != 1 {
		t.Errorf("sampled instances %v, want one", samples[0].Instances)
	}
}

// TestHang: a device that hangs fails alone; it is not called again until it answers.
func TestHang(t *testing.T) {
	m := newMachine(t, 3)
	m.options.Timeout = 20 * time.Millisecond
	b := m.open()
	if _, err := b.Inventory(t.Context()); err != nil {
		t.Fatal(err)
	}
	answers := make(chan struct{})
	returned := make(chan struct{}, 1)
	var calls atomic.Int64
	m.device(1).GetUtilizationRatesFunc = func() (nvml.Utilization, nvml.Return) {
		calls.Add(1)
		<-answers
		returned <- struct{}{}
		return nvml.Utilization{Gpu: 50}, nvml.SUCCESS
	}
	for range 3 {
		samples, err := b.Sample(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for i, s := range samples {
			if want := i == 1; errors.Is(s.Err, device.ErrTimeout) != want {
				t.Errorf("device %d: error %v; hangs: %v", i, s.Err, want)
			}
		}
	}
	if n := calls.Load(); n != 1 {
		t.Errorf("%d calls were started on a device that hangs, want 1", n)
	}
	if n := b.Hung(); n != 1 {
		t.Errorf("%d calls hang, want 1", n)
	}
	if err := b.Close(); !errors.Is(err, device.ErrTimeout) || m.shut != 0 {
		t.Errorf("close: error %v, %d shutdowns; want ErrTimeout and the driver left open", err, m.shut)
	}
	b.closed = false

	close(answers)
	<-returned
	m.device(1).GetUtilizationRatesFunc = func() (nvml.Utilization, nvml.Return) {
		return nvml.Utilization{Gpu: 50}, nvml.SUCCESS
	}
	b.gpus[1].lane.turn <- struct{}{} // the lane's next turn comes when the call is over
	<-b.gpus[1].lane.turn
	samples, err := b.Sample(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if s := samples[1]; s.Err != nil || s.Values[device.Utilization] != 50 {
		t.Errorf("after the device answered: %+v", s)
	}
	if n := b.Hung(); n != 0 {
		t.Errorf("%d calls hang, want 0", n)
	}
}

// TestDeadline: a context's deadline ends a call that hangs; a cancelled one is not the
// driver's fault.
func TestDeadline(t *testing.T) {
	m := newMachine(t, 1)
	b := m.open()
	answers := make(chan struct{})
	defer close(answers)
	started := make(chan struct{}, 1)
	m.SystemGetDriverVersionFunc = func() (string, nvml.Return) {
		started <- struct{}{}
		<-answers
		return "1", nvml.SUCCESS
	}
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		<-started
		cancel()
	}()
	if _, err := b.Inventory(ctx); !errors.Is(err, context.Canceled) || errors.Is(err, device.ErrTimeout) {
		t.Errorf("cancelled: error %v, want context.Canceled alone", err)
	}
	if n := b.Hung(); n != 0 {
		t.Errorf("%d calls hang after the caller left, want 0", n)
	}
	answers <- struct{}{}

	ctx, cancel = context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	if _, err := b.Inventory(ctx); !errors.Is(err, device.ErrTimeout) {
		t.Errorf("deadline: error %v, want ErrTimeout", err)
	}
	if n := b.Hung(); n != 1 {
		t.Errorf("%d calls hang, want 1", n)
	}
}

// TestOldDriver: a function that the driver lacks is never called.
func TestOldDriver(t *testing.T) {
	m := newMachine(t, 1)
	m.LookupSymbolFunc = func(symbol string) error {
		switch symbol {
		case "nvmlDeviceGetCount_v2", "nvmlDeviceGetHandleByIndex_v2", "nvmlDeviceGetUUID", "nvmlDeviceGetMemoryInfo", "nvmlShutdown":
			return nil
		}
		return errors.New("no such symbol")
	}
	m.device(0).GetMemoryInfo_v2Func = func() (nvml.Memory_v2, nvml.Return) {
		t.Error("nvmlDeviceGetMemoryInfo_v2 was called")
		return nvml.Memory_v2{}, nvml.SUCCESS
	}
	samples, err := m.open().Sample(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if s := samples[0]; s.Err != nil || len(s.Values) != 2 {
		t.Errorf("sample %+v, want used and free memory alone", s)
	}
	if m.observed["nvmlDeviceGetMemoryInfo"] == 0 {
		t.Error("the call was not observed")
	}
}

func TestNumber(t *testing.T) {
	value := func(kind nvml.ValueType, word uint64) nvml.FieldValue {
		v := nvml.FieldValue{ValueType: uint32(kind)}
		binary.NativeEndian.PutUint64(v.Value[:], word)
		return v
	}
	negative := int64(-3)
	for _, test := range []struct {
		value nvml.FieldValue
		want  float64
		ok    bool
	}{
		{value(nvml.VALUE_TYPE_DOUBLE, math.Float64bits(2.5)), 2.5, true},
		{value(nvml.VALUE_TYPE_DOUBLE, math.Float64bits(math.NaN())), 0, false},
		{value(nvml.VALUE_TYPE_UNSIGNED_INT, 7), 7, true},
		{value(nvml.VALUE_TYPE_UNSIGNED_LONG_LONG, 1<<40), 1 << 40, true},
		{value(nvml.VALUE_TYPE_SIGNED_LONG_LONG, uint64(negative)), -3, true},
		{value(nvml.VALUE_TYPE_SIGNED_INT, uint64(uint32(0xFFFFFFFD))), -3, true},
		{value(nvml.VALUE_TYPE_UNSIGNED_SHORT, 9), 9, true},
		{value(99, 9), 0, false},
		{nvml.FieldValue{NvmlReturn: uint32(nvml.ERROR_NOT_SUPPORTED)}, 0, false},
	} {
		got, ok := number(test.value)
		if ok != test.ok || ok && got != test.want {
			t.Errorf("%+v: %v, %v; want %v, %v", test.value, got, ok, test.want, test.ok)
		}
	}
}
