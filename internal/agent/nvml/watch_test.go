//go:build cgo && linux

package nvml

import (
	"context"
	"errors"
	"math"
	"sync"
	"testing"

	"github.com/NVIDIA/go-nvml/pkg/nvml"
	"github.com/NVIDIA/go-nvml/pkg/nvml/mock"
	"github.com/google/go-cmp/cmp"

	"github.com/tangram-dev/tangram/internal/agent/device"
)

// happening is what the driver answers to one wait.
type happening struct {
	data nvml.EventData
	ret  nvml.Return
}

// events gives a machine an event set that answers with what is sent.
type events struct {
	send chan happening

	mu         sync.Mutex
	registered map[string][]uint64
	freed      int
}

func (m *machine) events() *events {
	e := &events{send: make(chan happening), registered: map[string][]uint64{}}
	m.EventSetCreateFunc = func() (nvml.EventSet, nvml.Return) {
		return &mock.EventSet{
			WaitFunc: func(uint32) (nvml.EventData, nvml.Return) {
				h := <-e.send
				return h.data, h.ret
			},
			FreeFunc: func() nvml.Return {
				e.mu.Lock()
				defer e.mu.Unlock()
				e.freed++
				return nvml.SUCCESS
			},
		}, nvml.SUCCESS
	}
	for i := range m.Devices {
		d := m.device(i)
		d.GetSupportedEventTypesFunc = func() (uint64, nvml.Return) { return nvml.EventTypeAll, nvml.SUCCESS }
		d.RegisterEventsFunc = func(types uint64, _ nvml.EventSet) nvml.Return {
			e.mu.Lock()
			defer e.mu.Unlock()
			e.registered[d.UUID] = append(e.registered[d.UUID], types)
			return nvml.SUCCESS
		}
	}
	return e
}

// watching runs Watch until stop is called, which returns its error.
func watching(t *testing.T, b *Backend, e *events) (got <-chan device.Event, stop func() error) {
	ctx, cancel := context.WithCancel(t.Context())
	reports := make(chan device.Event, 100)
	ended := make(chan error, 1)
	go func() { ended <- b.Watch(ctx, func(e device.Event) { reports <- e }) }()
	return reports, func() error {
		cancel()
		for { // the wait that runs must end before the set is given back
			select {
			case e.send <- happening{ret: nvml.ERROR_TIMEOUT}:
			case err := <-ended:
				return err
			}
		}
	}
}

func TestWatch(t *testing.T) {
	m := newMachine(t, 3)
	e := m.events()
	m.device(1).GetSupportedEventTypesFunc = func() (uint64, nvml.Return) {
		return nvml.EventTypeXidCriticalError | nvml.EventTypeClock, nvml.SUCCESS
	}
	m.device(2).GetSupportedEventTypesFunc = func() (uint64, nvml.Return) { return 0, nvml.SUCCESS }
	m.device(0).GetFieldValuesFunc = func(values []nvml.FieldValue) nvml.Return {
		return answer(values, map[uint32]uint64{nvml.FI_DEV_GET_GPU_RECOVERY_ACTION: uint64(nvml.GPU_RECOVERY_ACTION_GPU_RESET)})
	}
	got, stop := watching(t, m.open(), e)

	const whole = math.MaxUint32
	for _, h := range []happening{
		{nvml.EventData{Device: m.Devices[0], EventType: nvml.EventTypeXidCriticalError, EventData: 79, GpuInstanceId: whole, ComputeInstanceId: whole}, nvml.SUCCESS},
		{ret: nvml.ERROR_TIMEOUT},
		{nvml.EventData{Device: m.Devices[1], EventType: nvml.EventTypeXidCriticalError, EventData: 31, GpuInstanceId: 3, ComputeInstanceId: 0}, nvml.SUCCESS},
		{nvml.EventData{Device: m.Devices[0], EventType: nvml.EventTypeDoubleBitEccError, GpuInstanceId: whole, ComputeInstanceId: whole}, nvml.SUCCESS},
		{nvml.EventData{Device: m.Devices[0], EventType: nvml.EventTypeGpuRecoveryAction, GpuInstanceId: whole, ComputeInstanceId: whole}, nvml.SUCCESS},
		{nvml.EventData{Device: m.Devices[0], EventType: nvml.EventTypeGpuUnavailableError, GpuInstanceId: whole, ComputeInstanceId: whole}, nvml.SUCCESS},
		{nvml.EventData{EventType: nvml.EventTypeXidCriticalError, EventData: 45, GpuInstanceId: whole, ComputeInstanceId: whole}, nvml.SUCCESS},
	} {
		e.send <- h
	}
	want := []device.Event{
		{Kind: device.XID, UUID: "GPU-0", GPUInstance: -1, ComputeInstance: -1, Code: 79},
		{Kind: device.XID, UUID: "GPU-1", GPUInstance: 3, ComputeInstance: 0, Code: 31},
		{Kind: device.ECC, UUID: "GPU-0", GPUInstance: -1, ComputeInstance: -1},
		{Kind: device.RecoveryChanged, UUID: "GPU-0", GPUInstance: -1, ComputeInstance: -1, Recovery: device.RecoveryReset},
		{Kind: device.Unavailable, UUID: "GPU-0", GPUInstance: -1, ComputeInstance: -1},
		{Kind: device.XID, GPUInstance: -1, ComputeInstance: -1, Code: 45},
	}
	for _, w := range want {
		if diff := cmp.Diff(w, <-got); diff != "" {
			t.Errorf("event (-want +got):\n%s", diff)
		}
	}
	if err := stop(); err != nil {
		t.Errorf("Watch ended with %v, want nil", err)
	}
	registered := map[string][]uint64{"GPU-0": {watched}, "GPU-1": {nvml.EventTypeXidCriticalError}}
	if diff := cmp.Diff(registered, e.registered); diff != "" {
		t.Errorf("registered (-want +got):\n%s", diff)
	}
	if e.freed != 1 {
		t.Errorf("%d event sets were given back, want 1", e.freed)
	}
}

// TestWatchRegistersWhatItCan: kinds of event are tried one by one where the driver
// refuses all of them together.
func TestWatchRegistersWhatItCan(t *testing.T) {
	m := newMachine(t, 1)
	e := m.events()
	m.device(0).RegisterEventsFunc = func(types uint64, _ nvml.EventSet) nvml.Return {
		e.mu.Lock()
		defer e.mu.Unlock()
		if types&nvml.EventTypeGpuRecoveryAction != 0 {
			return nvml.ERROR_NOT_SUPPORTED
		}
		e.registered["GPU-0"] = append(e.registered["GPU-0"], types)
		return nvml.SUCCESS
	}
	_, stop := watching(t, m.open(), e)
	e.send <- happening{ret: nvml.ERROR_TIMEOUT}
	if err := stop(); err != nil {
		t.Error(err)
	}
	want := []uint64{nvml.EventTypeDoubleBitEccError, nvml.EventTypeXidCriticalError, nvml.EventTypeGpuUnavailableError}
	if diff := cmp.Diff(want, e.registered["GPU-0"]); diff != "" {
		t.Errorf("registered (-want +got):\n%s", diff)
	}
}

// TestWatchLostDevice: the lost device is reported once, and the others are watched on.
func TestWatchLostDevice(t *testing.T) {
	m := newMachine(t, 2)
	e := m.events()
	b := m.open()
	got, stop := watching(t, b, e)
	e.send <- happening{ret: nvml.ERROR_TIMEOUT}
	m.device(1).GetMemoryInfoFunc = func() (nvml.Memory, nvml.Return) { return nvml.Memory{}, nvml.ERROR_GPU_IS_LOST }
	e.send <- happening{ret: nvml.ERROR_GPU_IS_LOST}
	if diff := cmp.Diff(device.Event{Kind: device.Unavailable, UUID: "GPU-1", GPUInstance: -1, ComputeInstance: -1}, <-got); diff != "" {
		t.Errorf("event (-want +got):\n%s", diff)
	}
	e.send <- happening{nvml.EventData{Device: m.Devices[0], EventType: nvml.EventTypeXidCriticalError, EventData: 13}, nvml.SUCCESS}
	if ev := <-got; ev.UUID != "GPU-0" || ev.Code != 13 {
		t.Errorf("event %+v, want the XID of GPU-0", ev)
	}
	if err := stop(); err != nil {
		t.Error(err)
	}
	if a, b := len(e.registered["GPU-0"]), len(e.registered["GPU-1"]); a != 2 || b != 1 {
		t.Errorf("registered %d and %d times, want 2 and 1", a, b)
	}
}

func TestWatchFails(t *testing.T) {
	m := newMachine(t, 1)
	e := m.events()
	b := m.open()
	ended := make(chan error, 1)
	go func() { ended <- b.Watch(t.Context(), func(device.Event) {}) }()
	e.send <- happening{ret: nvml.ERROR_UNKNOWN}
	if err := <-ended; !errors.Is(err, nvml.ERROR_UNKNOWN) {
		t.Errorf("error %v, want the driver's", err)
	}

	m.device(0).GetSupportedEventTypesFunc = func() (uint64, nvml.Return) { return 0, nvml.SUCCESS }
	if err := b.Watch(t.Context(), func(device.Event) {}); !errors.Is(err, device.ErrNotSupported) {
		t.Errorf("nothing to watch: error %v, want ErrNotSupported", err)
	}
}
