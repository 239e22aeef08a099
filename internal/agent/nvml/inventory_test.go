//go:build cgo && linux

package nvml

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"testing"

	"github.com/NVIDIA/go-nvml/pkg/nvml"
	"github.com/google/go-cmp/cmp"

	"github.com/tangram-dev/tangram/internal/agent/device"
)

func TestNewWithoutDriver(t *testing.T) {
	b := New(Options{DriverRoot: t.TempDir()})
	if _, err := b.Inventory(t.Context()); !errors.Is(err, device.ErrNoDriver) {
		t.Errorf("error %v, want ErrNoDriver", err)
	}
	if err := b.Close(); err != nil {
		t.Error(err)
	}

	// The driver may come later.
	m := newMachine(t, 1)
	late, init := m.backend(), m.InitFunc
	for _, ret := range []nvml.Return{nvml.ERROR_LIBRARY_NOT_FOUND, nvml.ERROR_DRIVER_NOT_LOADED, nvml.ERROR_NO_PERMISSION, nvml.ERROR_UNKNOWN} {
		m.InitFunc = func() nvml.Return { return ret }
		if _, err := late.Inventory(t.Context()); !errors.Is(err, device.ErrNoDriver) {
			t.Errorf("Init returns %v: error %v, want ErrNoDriver", ret, err)
		}
		if err := late.Watch(t.Context(), nil); !errors.Is(err, device.ErrNoDriver) {
			t.Errorf("Init returns %v: watch: %v, want ErrNoDriver", ret, err)
		}
	}
	m.InitFunc = init
	if inv, err := late.Inventory(t.Context()); err != nil || len(inv.Devices) != 1 {
		t.Errorf("the driver has come: %v", err)
	}
	if err := late.Close(); err != nil {
		t.Error(err)
	}
}

func TestInventory(t *testing.T) {
	m := newMachine(t, 8)
	for i := range 8 {
		m.file(m.options.SysRoot, fmt.Sprintf("bus/pci/devices/0000:%02x:00.0/numa_node", 0x10+i), fmt.Sprintln(i/4))
		d := m.device(i)
		d.GetNvLinkStateFunc = func(link int) (nvml.EnableState, nvml.Return) {
			if link >= 12 {
				return 0, nvml.ERROR_INVALID_ARGUMENT
			}
			return nvml.FEATURE_ENABLED, nvml.SUCCESS
		}
		d.GetNvLinkRemoteDeviceTypeFunc = func(int) (nvml.IntNvLinkDeviceType, nvml.Return) {
			return nvml.NVLINK_DEVICE_TYPE_SWITCH, nvml.SUCCESS
		}
		d.GetGpuFabricInfoFunc = func() (nvml.GpuFabricInfo, nvml.Return) {
			return nvml.GpuFabricInfo{ClusterUuid: [16]uint8{0xab, 15: 1}, CliqueId: 7, State: nvml.GPU_FABRIC_STATE_COMPLETED}, nvml.SUCCESS
		}
		d.GetGpuMaxPcieLinkGenerationFunc = func() (int, nvml.Return) { return 4, nvml.SUCCESS }
		d.GetMaxPcieLinkWidthFunc = func() (int, nvml.Return) { return 16, nvml.SUCCESS }
	}
	inv, err := m.open().Inventory(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if inv.Driver != "550.54.15" || inv.CUDA != "12.4" || len(inv.Devices) != 8 {
		t.Fatalf("driver %s, CUDA %s, %d devices", inv.Driver, inv.CUDA, len(inv.Devices))
	}
	got := inv.Devices[5]
	mig := got.MIG
	got.MIG = nil
	want := device.Device{
		Index: 5, Minor: 5, UUID: "GPU-5", Vendor: "nvidia",
		Model: "Mock NVIDIA A100-SXM4-40GB", Brand: "NVIDIA", Architecture: "Ampere", ComputeCapability: "8.0",
		MemoryMiB: 40960, SMs: 108, NUMA: 1,
		PCIBusID: "0000:15:00.0", PCIDeviceID: "0x20b010de", PCIeGen: 4, PCIeWidth: 16, NVLinks: 12,
		Fabric: "ab000000-0000-0000-0000-000000000001.7",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("device 5 (-want +got):\n%s", diff)
	}
	elsewhere := []string{"MIG", "PCIeRoot", "Serial"} // below, in TestPCIeRoot; the mock has no serial number
	for f, v := range reflect.ValueOf(got).Fields() {
		if v.IsZero() && !slices.Contains(elsewhere, f.Name) {
			t.Errorf("device.Device.%s is not read from the driver (inventory.go), or not in this test", f.Name)
		}
	}
	if diff := cmp.Diff([]device.Link{{Between: []int{0, 1, 2, 3, 4, 5, 6, 7}, Class: "NVSwitch", Count: 12}}, inv.Links); diff != "" {
		t.Errorf("links (-want +got):\n%s", diff)
	}
	if mig == nil || mig.Enabled || !mig.Fixed || len(mig.Instances) > 0 {
		t.Fatalf("MIG %+v, want one that can be cut after a reset, and is not", mig)
	}
	var names []string
	for _, p := range mig.Profiles {
		names = append(names, fmt.Sprintf("%s %v:%d", p.Name, p.Starts, p.Size))
	}
	wantNames := []string{
		"1g.5gb [0 1 2 3 4 5 6]:1", "2g.10gb [0 2 4]:2", "3g.20gb [0 4]:4", "4g.20gb [0]:4", "7g.40gb [0]:8",
		"1g.5gb+me [0 1 2 3 4 5 6]:1", "1g.10gb [0 2 4 6]:2",
	}
	if diff := cmp.Diff(wantNames, names); diff != "" {
		t.Errorf("profiles (-want +got):\n%s", diff)
	}
}

// A device's place in sysfs tells its PCIe root; what does not look like one tells nothing.
func TestPCIeRoot(t *testing.T) {
	m := newMachine(t, 1)
	b := m.open()
	folder := filepath.Join(m.options.SysRoot, "bus/pci/devices")
	if err := os.MkdirAll(folder, 0o755); err != nil {
		t.Fatal(err)
	}
	for bus, target := range map[string]string{"0000:16:00.0": "../../../devices/pci0000:15/0000:15:01.0/0000:16:00.0", "0000:17:00.0": "/elsewhere"} {
		if err := os.Symlink(target, filepath.Join(folder, bus)); err != nil {
			t.Fatal(err)
		}
	}
	for bus, want := range map[string]string{"0000:16:00.0": "pci0000:15", "0000:17:00.0": "", "0000:18:00.0": ""} {
		if got := b.pcieRoot(bus); got != want {
			t.Errorf("%s: %q, want %q", bus, got, want)
		}
	}
}

func TestLinks(t *testing.T) {
	m := newMachine(t, 5)
	// 0 and 1 have two links to each other; 1 also claims one to 2, which 2 denies.
	// 2, 3 and 4 are on PCI alone.
	remotes := map[int][]int{0: {1, 1}, 1: {0, 0, 2}}
	for i := range 5 {
		d := m.device(i)
		d.GetNvLinkStateFunc = func(link int) (nvml.EnableState, nvml.Return) {
			if link >= len(remotes[i]) {
				return 0, nvml.ERROR_INVALID_ARGUMENT
			}
			return nvml.FEATURE_ENABLED, nvml.SUCCESS
		}
		d.GetNvLinkRemotePciInfoFunc = func(link int) (nvml.PciInfo, nvml.Return) {
			return nvml.PciInfo{Bus: uint32(0x10 + remotes[i][link])}, nvml.SUCCESS
		}
		d.GetTopologyCommonAncestorFunc = func(other nvml.Device) (nvml.GpuTopologyLevel, nvml.Return) {
			j, _ := other.GetIndex()
			switch between := [2]int{min(i, j), max(i, j)}; between {
			case [2]int{2, 3}:
				return nvml.TOPOLOGY_SINGLE, nvml.SUCCESS
			case [2]int{2, 4}:
				return nvml.TOPOLOGY_MULTIPLE, nvml.SUCCESS
			case [2]int{3, 4}:
				return nvml.TOPOLOGY_HOSTBRIDGE, nvml.SUCCESS
			case [2]int{1, 2}:
				return nvml.TOPOLOGY_NODE, nvml.SUCCESS
			case [2]int{0, 4}:
				return 0, nvml.ERROR_UNKNOWN
			}
			return nvml.TOPOLOGY_SYSTEM, nvml.SUCCESS
		}
	}
	inv, err := m.open().Inventory(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	want := []device.Link{
		{Between: []int{0, 1}, Class: "NVLink", Count: 2},
		{Between: []int{1, 2}, Class: "NODE"},
		{Between: []int{2, 3}, Class: "PIX"},
		{Between: []int{2, 4}, Class: "PXB"},
		{Between: []int{3, 4}, Class: "PHB"},
	}
	if diff := cmp.Diff(want, inv.Links); diff != "" {
		t.Errorf("links (-want +got):\n%s", diff)
	}
	if n := inv.Devices[1].NVLinks; n != 3 {
		t.Errorf("device 1 has %d NVLinks, want 3", n)
	}
}

func TestNUMAFromDriver(t *testing.T) {
	for _, test := range []struct {
		name  string
		sysfs string
		nodes []uint
		ret   nvml.Return
		want  int
	}{
		{"the kernel knows", "1\n", []uint{1 << 3}, nvml.SUCCESS, 1},
		{"the driver names one", "-1\n", []uint{0, 1 << 3}, nvml.SUCCESS, 67},
		{"the driver names two", "-1\n", []uint{3}, nvml.SUCCESS, -1},
		{"unknown", "", nil, nvml.ERROR_NOT_SUPPORTED, -1},
		{"nonsense", "north\n", nil, nvml.ERROR_NOT_SUPPORTED, -1},
	} {
		t.Run(test.name, func(t *testing.T) {
			m := newMachine(t, 1)
			m.file(m.options.SysRoot, "bus/pci/devices/0000:10:00.0/numa_node", test.sysfs)
			m.device(0).GetMemoryAffinityFunc = func(int, nvml.AffinityScope) ([]uint, nvml.Return) { return test.nodes, test.ret }
			inv, err := m.open().Inventory(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if got := inv.Devices[0].NUMA; got != test.want {
				t.Errorf("NUMA node %d, want %d", got, test.want)
			}
		})
	}
}

// TestLostDevice: a device that falls off the bus stays in the inventory as it was, its
// sample says why, and the others go on.
func TestLostDevice(t *testing.T) {
	m := newMachine(t, 3)
	b := m.open()
	if _, err := b.Inventory(t.Context()); err != nil {
		t.Fatal(err)
	}
	m.device(1).GetMemoryInfoFunc = func() (nvml.Memory, nvml.Return) { return nvml.Memory{}, nvml.ERROR_GPU_IS_LOST }
	inv, err := b.Inventory(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if len(inv.Devices) != 3 || inv.Devices[1].UUID != "GPU-1" || inv.Devices[1].MemoryMiB != 40960 {
		t.Errorf("devices %+v, want all three with the lost one as it was", inv.Devices)
	}
	samples, err := b.Sample(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var failed []string
	for _, s := range samples {
		if s.Err != nil {
			failed = append(failed, s.UUID)
		}
	}
	if !slices.Equal(failed, []string{"GPU-1"}) {
		t.Errorf("samples of %v failed, want that of GPU-1", failed)
	}
}

// TestInventoryFails: what is no sign of a lost device is not hidden.
func TestInventoryFails(t *testing.T) {
	m := newMachine(t, 2)
	m.device(1).GetNameFunc = func() (string, nvml.Return) { return "", nvml.ERROR_NO_PERMISSION }
	_, err := m.open().Inventory(t.Context())
	if !errors.Is(err, nvml.ERROR_NO_PERMISSION) {
		t.Errorf("error %v, want the driver's", err)
	}
}

// TestDeviceThatNeverAnswered: it is left out until it does.
func TestDeviceThatNeverAnswered(t *testing.T) {
	m := newMachine(t, 2)
	handle := m.DeviceGetHandleByIndexFunc
	lost := true
	m.DeviceGetHandleByIndexFunc = func(i int) (nvml.Device, nvml.Return) {
		if i == 0 && lost {
			return nil, nvml.ERROR_GPU_IS_LOST
		}
		return handle(i)
	}
	b := m.open()
	for _, want := range [][]string{{"GPU-1"}, {"GPU-0", "GPU-1"}} {
		inv, err := b.Inventory(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, d := range inv.Devices {
			got = append(got, d.UUID)
		}
		if !slices.Equal(got, want) {
			t.Errorf("devices %v, want %v", got, want)
		}
		samples, err := b.Sample(t.Context())
		if err != nil || len(samples) != len(want) {
			t.Errorf("%d samples, error %v, want %d", len(samples), err, len(want))
		}
		lost = false
	}
}

func TestMultiprocessors(t *testing.T) {
	mig := &device.MIG{Profiles: []device.Profile{{SMs: 14}, {SMs: 98}}}
	for _, test := range []struct {
		cores, major, minor int
		mig                 *device.MIG
		want                int
	}{
		{6912, 8, 0, mig, 108}, // A100: the 7g profile leaves ten out
		{16896, 9, 0, nil, 132},
		{18432, 8, 9, nil, 144},
		{0, 9, 0, mig, 98},
		{1000, 99, 0, mig, 98},
		{1000, 99, 0, nil, 0},
	} {
		if got := multiprocessors(test.cores, test.major, test.minor, test.mig); got != test.want {
			t.Errorf("%d cores of %d.%d: %d SMs, want %d", test.cores, test.major, test.minor, got, test.want)
		}
	}
}

// TestProfileName holds the formula against names of real devices.
func TestProfileName(t *testing.T) {
	for _, test := range []struct {
		kind            int
		slices          uint32
		memory, totalMB uint64
		want            string
	}{
		{nvml.GPU_INSTANCE_PROFILE_1_SLICE, 1, 16384, 143771, "1g.18gb"},
		{nvml.GPU_INSTANCE_PROFILE_1_SLICE_REV1, 1, 16384, 143771, "1g.18gb+me"},
		{nvml.GPU_INSTANCE_PROFILE_1_SLICE_REV2, 1, 33280, 143771, "1g.35gb"},
		{nvml.GPU_INSTANCE_PROFILE_3_SLICE, 3, 71424, 143771, "3g.71gb"},
		{nvml.GPU_INSTANCE_PROFILE_7_SLICE, 7, 143360, 143771, "7g.141gb"},
		{nvml.GPU_INSTANCE_PROFILE_2_SLICE, 2, 19968, 81920, "2g.20gb"},
		{nvml.GPU_INSTANCE_PROFILE_4_SLICE, 4, 24000, 24576, "4g.24gb"},
		{nvml.GPU_INSTANCE_PROFILE_1_SLICE_NO_ME, 1, 24192, 97887, "1g.24gb-me"},
	} {
		info := nvml.GpuInstanceProfileInfo{SliceCount: test.slices, MemorySizeMB: test.memory}
		if got := profileName(test.kind, info, test.totalMB<<20); got != test.want {
			t.Errorf("profile of %d MB of %d: %s, want %s", test.memory, test.totalMB, got, test.want)
		}
	}
}
