//go:build cgo && linux

package nvml

import (
	"errors"
	"strings"
	"testing"

	"github.com/NVIDIA/go-nvml/pkg/nvml"
	"github.com/NVIDIA/go-nvml/pkg/nvml/mock/server"
	"github.com/google/go-cmp/cmp"

	"github.com/tangram-dev/tangram/internal/agent/device"
)

func TestMIG(t *testing.T) {
	m := newMachine(t, 2)
	b := m.open()
	ctx := t.Context()

	if _, err := b.CreateInstance(ctx, "GPU-1", oneSlice, 6); !errors.Is(err, device.ErrNotSupported) {
		t.Errorf("create with MIG off: %v, want ErrNotSupported", err)
	}
	if err := b.SetMIG(ctx, "GPU-1", true); err != nil {
		t.Fatal(err)
	}
	small, err := b.CreateInstance(ctx, "GPU-1", oneSlice, 6)
	if err != nil {
		t.Fatal(err)
	}
	want := device.Instance{UUID: migUUID(1, 0, 0), GPUInstance: 0, ComputeInstance: 0, ProfileID: oneSlice, Profile: "1g.5gb", Start: 6, Size: 1, MemoryMiB: 4864}
	if diff := cmp.Diff(want, small); diff != "" {
		t.Errorf("instance (-want +got):\n%s", diff)
	}
	large, err := b.CreateInstance(ctx, "GPU-1", fourSlice, 0)
	if err != nil {
		t.Fatal(err)
	}

	inv, err := b.Inventory(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if inv.Devices[0].MIG.Enabled || len(inv.Devices[0].MIG.Instances) > 0 {
		t.Errorf("device 0 was cut: %+v", inv.Devices[0].MIG)
	}
	if diff := cmp.Diff([]device.Instance{large, small}, inv.Devices[1].MIG.Instances); diff != "" {
		t.Errorf("instances (-want +got):\n%s", diff)
	}

	for name, test := range map[string]struct {
		uuid           string
		profile, start int
		want           error
	}{
		"taken":           {"GPU-1", oneSlice, 2, device.ErrBusy},
		"no such start":   {"GPU-1", threeSlice, 2, device.ErrNotSupported},
		"no such profile": {"GPU-1", 99, 0, device.ErrNotFound},
		"no such device":  {"GPU-9", oneSlice, 0, device.ErrNotFound},
		"no device":       {"", oneSlice, 0, device.ErrNotFound},
	} {
		if _, err := b.CreateInstance(ctx, test.uuid, test.profile, test.start); !errors.Is(err, test.want) {
			t.Errorf("%s: error %v, want %v", name, err, test.want)
		}
	}

	if err := b.DestroyInstance(ctx, "GPU-1", small.GPUInstance); err != nil {
		t.Error(err)
	}
	if err := b.DestroyInstance(ctx, "GPU-1", small.GPUInstance); !errors.Is(err, device.ErrNotFound) {
		t.Errorf("destroy again: %v, want ErrNotFound", err)
	}
	left := instancesOf(m.device(1))
	if len(left) != 1 || int(left[0].Info.Id) != large.GPUInstance {
		t.Errorf("%d instances left, want the large one", len(left))
	}
}

// TestCreateUndone: a GPU instance without its compute instance is taken away again.
func TestCreateUndone(t *testing.T) {
	m := newMachine(t, 1)
	b := m.open()
	if err := b.SetMIG(t.Context(), "GPU-0", true); err != nil {
		t.Fatal(err)
	}
	create := m.device(0).CreateGpuInstanceWithPlacementFunc
	m.device(0).CreateGpuInstanceWithPlacementFunc = func(info *nvml.GpuInstanceProfileInfo, place *nvml.GpuInstancePlacement) (nvml.GpuInstance, nvml.Return) {
		gi, ret := create(info, place)
		gi.(*server.GpuInstance).CreateComputeInstanceFunc = func(*nvml.ComputeInstanceProfileInfo) (nvml.ComputeInstance, nvml.Return) {
			return nil, nvml.ERROR_UNKNOWN
		}
		return gi, ret
	}
	if _, err := b.CreateInstance(t.Context(), "GPU-0", threeSlice, 4); !errors.Is(err, nvml.ERROR_UNKNOWN) {
		t.Errorf("error %v, want the driver's", err)
	}
	if left := instancesOf(m.device(0)); len(left) > 0 {
		t.Errorf("%d GPU instances left over", len(left))
	}
}

func TestDestroyBusy(t *testing.T) {
	m := newMachine(t, 1)
	b := m.open()
	if err := b.SetMIG(t.Context(), "GPU-0", true); err != nil {
		t.Fatal(err)
	}
	made, err := b.CreateInstance(t.Context(), "GPU-0", oneSlice, 3)
	if err != nil {
		t.Fatal(err)
	}
	for ci := range instancesOf(m.device(0))[0].ComputeInstances {
		ci.DestroyFunc = func() nvml.Return { return nvml.ERROR_IN_USE }
	}
	if err := b.DestroyInstance(t.Context(), "GPU-0", made.GPUInstance); !errors.Is(err, device.ErrBusy) {
		t.Errorf("error %v, want ErrBusy", err)
	}
	if left := instancesOf(m.device(0)); len(left) != 1 {
		t.Errorf("%d instances left, want the busy one", len(left))
	}
}

func TestSetMIGNeedsReset(t *testing.T) {
	m := newMachine(t, 1)
	m.device(0).SetMigModeFunc = func(int) (nvml.Return, nvml.Return) { return nvml.ERROR_IN_USE, nvml.SUCCESS }
	err := m.open().SetMIG(t.Context(), "GPU-0", true)
	if !errors.Is(err, device.ErrBusy) || !strings.Contains(err.Error(), "reset") {
		t.Errorf("error %v, want ErrBusy that speaks of a reset", err)
	}
}

// TestInstanceWithoutCompute: an instance that another program left half made is listed.
func TestInstanceWithoutCompute(t *testing.T) {
	m := newMachine(t, 1)
	b := m.open()
	d := m.device(0)
	d.MigMode = nvml.DEVICE_MIG_ENABLE
	info := d.Config.MIGProfiles.GpuInstanceProfiles[threeSlice]
	if _, ret := d.CreateGpuInstanceWithPlacement(&info, &nvml.GpuInstancePlacement{Start: 4, Size: 4}); ret != nvml.SUCCESS {
		t.Fatal(ret)
	}
	inv, err := b.Inventory(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	want := []device.Instance{{GPUInstance: 0, ComputeInstance: -1, ProfileID: threeSlice, Profile: "3g.20gb", Start: 4, Size: 4, MemoryMiB: 19968}}
	if diff := cmp.Diff(want, inv.Devices[0].MIG.Instances); diff != "" {
		t.Errorf("instances (-want +got):\n%s", diff)
	}
	if err := b.DestroyInstance(t.Context(), "GPU-0", 0); err != nil {
		t.Error(err)
	}
}

func TestInstancesNeedPrivilege(t *testing.T) {
	m := newMachine(t, 1)
	d := m.device(0)
	d.MigMode = nvml.DEVICE_MIG_ENABLE
	d.GetGpuInstancesFunc = func(*nvml.GpuInstanceProfileInfo) ([]nvml.GpuInstance, nvml.Return) {
		return nil, nvml.ERROR_NO_PERMISSION
	}
	_, err := m.open().Inventory(t.Context())
	if err == nil || !strings.Contains(err.Error(), "CAP_SYS_ADMIN") {
		t.Errorf("error %v, want one that names the privilege", err)
	}
}
