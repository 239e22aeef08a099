//go:build cgo && linux

package nvml

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/NVIDIA/go-nvml/pkg/nvml"
	"github.com/NVIDIA/go-nvml/pkg/nvml/mock"
	"github.com/NVIDIA/go-nvml/pkg/nvml/mock/gpus"
	"github.com/NVIDIA/go-nvml/pkg/nvml/mock/server"
)

// machine is one of go-nvml's mock servers, made whole: what the mock lacks is not
// supported, instead of a panic, and MIG devices exist for the instances that are made.
type machine struct {
	*server.Server
	t       *testing.T
	options Options

	mu       sync.Mutex
	inits    int
	shut     int
	observed map[string]int
}

// newMachine has A100s: of the mocks, those whose MIG shapes are true.
func newMachine(t *testing.T, count int) *machine {
	t.Helper()
	s, err := server.New(
		server.WithGPUs(gpus.Multiple(count, gpus.A100_SXM4_40GB)...),
		server.WithDriverVersion("550.54.15"),
		server.WithNVMLVersion("12.550.54.15"),
		server.WithCUDADriverVersion(12040),
	)
	if err != nil {
		t.Fatal(err)
	}
	m := &machine{Server: s, t: t, observed: map[string]int{}}
	m.options = Options{
		DriverRoot: t.TempDir(),
		DevRoot:    t.TempDir(),
		SysRoot:    t.TempDir(),
		ProcRoot:   t.TempDir(),
		Timeout:    5 * time.Second,
		Log:        slog.New(slog.NewTextHandler(io.Discard, nil)),
		Observe: func(call string, err error, _ time.Duration) {
			m.mu.Lock()
			defer m.mu.Unlock()
			m.observed[call]++
		},
	}
	refuse(&s.Interface)
	s.LookupSymbolFunc = func(symbol string) error {
		switch symbol {
		case "nvmlDeviceGetGpuInstanceProfileInfoV", "nvmlDeviceGetGpuFabricInfoV":
			// go-nvml calls the C function behind these whatever the mock says.
			return errors.New("no such symbol")
		}
		return nil
	}
	s.InitFunc = func() nvml.Return {
		m.mu.Lock()
		defer m.mu.Unlock()
		m.inits++
		return nvml.SUCCESS
	}
	s.ShutdownFunc = func() nvml.Return {
		m.mu.Lock()
		defer m.mu.Unlock()
		m.shut++
		return nvml.SUCCESS
	}
	for i := range count {
		d := m.device(i)
		refuse(&d.Device)
		d.UUID = fmt.Sprintf("GPU-%d", i)
		d.GetPciInfoFunc = func() (nvml.PciInfo, nvml.Return) {
			return nvml.PciInfo{Bus: uint32(0x10 + i), PciDeviceId: d.Config.PciDeviceId}, nvml.SUCCESS
		}
		d.GetNumGpuCoresFunc = func() (int, nvml.Return) { return 6912, nvml.SUCCESS }
		m.completeMIG(i)
	}
	return m
}

// refuse makes everything a mock has no answer for "not supported".
func refuse(mocked any) {
	v := reflect.ValueOf(mocked).Elem()
	for i := range v.NumField() {
		field := v.Field(i)
		if field.Kind() != reflect.Func || !field.IsNil() {
			continue
		}
		field.Set(reflect.MakeFunc(field.Type(), func([]reflect.Value) []reflect.Value {
			var out []reflect.Value
			for j := range field.Type().NumOut() {
				kind := field.Type().Out(j)
				if kind == reflect.TypeFor[nvml.Return]() {
					out = append(out, reflect.ValueOf(nvml.ERROR_NOT_SUPPORTED))
				} else {
					out = append(out, reflect.Zero(kind))
				}
			}
			return out
		}))
	}
}

func (m *machine) device(i int) *server.Device { return m.Devices[i].(*server.Device) }

// completeMIG gives a mock what its MIG lacks: it refuses instances that overlap, finds
// them by number and lists MIG devices.
func (m *machine) completeMIG(i int) {
	d := m.device(i)
	create := d.CreateGpuInstanceWithPlacementFunc
	d.CreateGpuInstanceWithPlacementFunc = func(info *nvml.GpuInstanceProfileInfo, place *nvml.GpuInstancePlacement) (nvml.GpuInstance, nvml.Return) {
		for _, gi := range instancesOf(d) {
			other := gi.Info.Placement
			if place.Start < other.Start+other.Size && other.Start < place.Start+place.Size {
				return nil, nvml.ERROR_INVALID_ARGUMENT // as a real one does
			}
		}
		made, ret := create(info, place)
		if ret == nvml.SUCCESS {
			refuse(&made.(*server.GpuInstance).GpuInstance)
		}
		return made, ret
	}
	d.GetGpuInstanceByIdFunc = func(id int) (nvml.GpuInstance, nvml.Return) {
		for _, gi := range instancesOf(d) {
			if int(gi.Info.Id) == id {
				return gi, nvml.SUCCESS
			}
		}
		return nil, nvml.ERROR_NOT_FOUND
	}
	d.GetMaxMigDeviceCountFunc = func() (int, nvml.Return) { return 7, nvml.SUCCESS }
	d.GetMigDeviceHandleByIndexFunc = func(index int) (nvml.Device, nvml.Return) {
		for _, gi := range instancesOf(d) {
			gi.RLock()
			for ci := range gi.ComputeInstances {
				if index--; index < 0 {
					gi.RUnlock()
					return migHandle(i, int(gi.Info.Id), int(ci.Info.Id)), nvml.SUCCESS
				}
			}
			gi.RUnlock()
		}
		return nil, nvml.ERROR_NOT_FOUND
	}
}

func instancesOf(d *server.Device) []*server.GpuInstance {
	d.RLock()
	defer d.RUnlock()
	var out []*server.GpuInstance
	for gi := range d.GpuInstances {
		out = append(out, gi)
	}
	slices.SortFunc(out, func(x, y *server.GpuInstance) int { return cmp.Compare(x.Info.Id, y.Info.Id) })
	return out
}

func migUUID(gpu, gi, ci int) string { return fmt.Sprintf("MIG-%d-%d-%d", gpu, gi, ci) }

func migHandle(gpu, gi, ci int) nvml.Device {
	h := &mock.Device{
		GetUUIDFunc:              func() (string, nvml.Return) { return migUUID(gpu, gi, ci), nvml.SUCCESS },
		GetGpuInstanceIdFunc:     func() (int, nvml.Return) { return gi, nvml.SUCCESS },
		GetComputeInstanceIdFunc: func() (int, nvml.Return) { return ci, nvml.SUCCESS },
		GetMemoryInfo_v2Func: func() (nvml.Memory_v2, nvml.Return) {
			return nvml.Memory_v2{Total: 4864 << 20, Used: 100 << 20, Free: 4764 << 20}, nvml.SUCCESS
		},
	}
	refuse(h)
	return h
}

// backend is a back end that has not opened the driver.
func (m *machine) backend() *Backend {
	return newBackend(m.options, func() (nvml.Interface, error) { return m.Server, nil })
}

func (m *machine) open() *Backend {
	m.t.Helper()
	b := m.backend()
	if err := b.open(); err != nil {
		m.t.Fatal(err)
	}
	m.t.Cleanup(func() { b.Close() })
	return b
}

// file writes a file below a root.
func (m *machine) file(root, path, content string) {
	m.t.Helper()
	full := filepath.Join(root, path)
	if err := os.MkdirAll(filepath.Dir(full), 0o755); err != nil {
		m.t.Fatal(err)
	}
	if err := os.WriteFile(full, []byte(content), 0o755); err != nil {
		m.t.Fatal(err)
	}
}

// profileID is the mock's ID of a profile, which is its kind.
const (
	oneSlice   = nvml.GPU_INSTANCE_PROFILE_1_SLICE
	threeSlice = nvml.GPU_INSTANCE_PROFILE_3_SLICE
	fourSlice  = nvml.GPU_INSTANCE_PROFILE_4_SLICE
)
