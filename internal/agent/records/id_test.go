package records

import (
	"strings"
	"testing"

	"github.com/tangram-dev/tangram/api/record"
	"github.com/tangram-dev/tangram/internal/agent/device"
)

func TestParseID(t *testing.T) {
	for s, want := range map[string]ID{
		"GPU-5f7a":                    {UUID: "GPU-5f7a"},
		"GPU-5f7a::3":                 {UUID: "GPU-5f7a", Kind: Turn, Turn: 3},
		"MIG-91c2":                    {UUID: "MIG-91c2", Kind: Slice},
		"GPU-5f7a::mig-1g.18gb@4":     {UUID: "GPU-5f7a", Kind: NewSlice, Profile: "1g.18gb", Start: 4},
		"GPU-5f7a::mig-1g.18gb+me@0":  {UUID: "GPU-5f7a", Kind: NewSlice, Profile: "1g.18gb+me"},
		"MIG-91c2::1":                 {UUID: "MIG-91c2", Kind: Turn, Turn: 1},
		"ascend-npu-0000000000000001": {UUID: "ascend-npu-0000000000000001"},
	} {
		got, err := ParseID(s)
		if err != nil || got != want {
			t.Errorf("%s: got %+v, %v", s, got, err)
		}
		if got.String() != s {
			t.Errorf("%s: spelled %s", s, got)
		}
	}
	for _, s := range []string{"", "::3", "GPU-1::", "GPU-1::x", "GPU-1::03", "GPU-1::-1", "GPU-1::99999999", "GPU-1::mig-@3", "GPU-1::mig-1g.18gb", "GPU-1::mig-1g.18gb@8", "GPU-1::mig-1g::2@1", "GPU 1", "GPU-1,GPU-2", "GPU-\x00", strings.Repeat("x", 300)} {
		if got, err := ParseID(s); err == nil {
			t.Errorf("%q is read as %+v", s, got)
		} else if len(err.Error()) > 250 {
			t.Errorf("%q: a message of %d characters", s, len(err.Error()))
		}
	}
}

// FuzzParseID: what is read is spelled the same again.
func FuzzParseID(f *testing.F) {
	f.Add("GPU-1::mig-1g.18gb@4")
	f.Add("GPU-1::3")
	f.Fuzz(func(t *testing.T, s string) {
		if id, err := ParseID(s); err == nil && id.String() != s {
			t.Errorf("%q is spelled %q", s, id)
		}
	})
}

// testInventory: two GPUs, and one with MIG: an instance at 4, room for others.
func testInventory() *device.Inventory {
	return &device.Inventory{Devices: []device.Device{
		{Index: 0, UUID: "GPU-a", MemoryMiB: 1000, NUMA: 0, PCIBusID: "0000:1b:00.0"},
		{Index: 1, UUID: "GPU-b", MemoryMiB: 1000, NUMA: 1, PCIBusID: "0000:c1:00.0"},
		{Index: 2, UUID: "GPU-m", MemoryMiB: 1000, NUMA: 1, MIG: &device.MIG{Enabled: true,
			Profiles:  []device.Profile{{ID: 19, Name: "1g.18gb", Starts: []int{0, 1, 2, 3, 4, 5, 6}, Size: 1}, {ID: 9, Name: "3g.71gb", Starts: []int{0, 4}, Size: 4}},
			Instances: []device.Instance{{UUID: "MIG-i", Profile: "3g.71gb", Start: 4, Size: 4}}}},
		{Index: 3, UUID: "GPU-c", MemoryMiB: 1000, NUMA: 0},
		{Index: 4, UUID: "GPU-d", MemoryMiB: 1000, NUMA: 1},
	}}
}

// TestForms has every row of the table: the first case of each is what it reads.
func TestForms(t *testing.T) {
	none := record.Device{Index: -1}
	slot := record.Device{Index: -2}
	cases := []struct {
		plugin, resource, id string
		want                 record.Device
	}{
		{"Tangram and NVIDIA", "nvidia.com/gpu", "GPU-b", record.Device{Index: 1, UUID: "GPU-b"}},
		{"Tangram and NVIDIA", "nvidia.com/gpu.shared", "GPU-b::7", record.Device{Index: 1, UUID: "GPU-b", Turn: true}},
		{"Tangram and NVIDIA", "nvidia.com/mig-3g.71gb", "MIG-i", record.Device{Index: 2, UUID: "GPU-m", MIG: "3g.71gb", Start: 4}},
		{"Tangram and NVIDIA", "nvidia.com/mig-1g.18gb", "GPU-m::mig-1g.18gb@3", record.Device{Index: 2, UUID: "GPU-m", MIG: "1g.18gb", Start: 3}},
		{"Tangram and NVIDIA", "nvidia.com/mig-3g.71gb", "GPU-m::mig-3g.71gb@1", none}, // no such place
		{"Tangram and NVIDIA", "nvidia.com/gpu", "GPU-unknown", none},
		{"HAMi", "nvidia.com/gpu", "GPU-b-7", slot},
		{"HAMi", "nvidia.com/gpu", "GPU-unknown-7", none},
		{"Volcano vGPU", "volcano.sh/vgpu-number", "GPU-a-12", slot},
		{"gpushare", "aliyun.com/gpu-mem", "GPU-a-_-31", slot},
		{"AMD", "amd.com/gpu", "0000:C1:00.0", record.Device{Index: 1, UUID: "GPU-b"}},
		{"AMD", "amd.com/gpu", "amdgpu_xcp_30", slot},
		{"AMD", "amd.com/gpu", "0000:ff:00.0", none},
		{"AMD", "amd.com/gpu", "GPU-b", record.Device{Index: 1, UUID: "GPU-b"}}, // served by this agent
		{"Intel", "gpu.intel.com/i915", "card1-0", record.Device{Index: 1, UUID: "GPU-b"}},
		{"Intel", "gpu.intel.com/i915", "card1-2", record.Device{Index: 1, UUID: "GPU-b", Turn: true}},
		{"Intel", "gpu.intel.com/i915", "card9-0", none},
		{"Ascend", "huawei.com/Ascend910", "Ascend910-4", record.Device{Index: 4, UUID: "GPU-d"}},
		{"Ascend", "huawei.com/Ascend910", "Ascend910-2c-100-0", slot},
		{"Ascend", "huawei.com/Ascend910", "Ascend910-9", none},
	}
	seen := map[string]bool{}
	for _, c := range cases {
		seen[c.plugin] = true
		got, told, err := ReadID(c.resource, c.id, testInventory())
		switch c.want.Index {
		case -1:
			if err == nil || !strings.Contains(err.Error(), c.resource) {
				t.Errorf("%s %s: read as %+v, %v", c.resource, c.id, got, err)
			}
		case -2:
			if err != nil || told {
				t.Errorf("%s %s: must not tell the device: %+v, %v", c.resource, c.id, got, err)
			}
		default:
			if err != nil || !told || got != c.want {
				t.Errorf("%s %s: got %+v, %v, %v, want %+v", c.resource, c.id, got, told, err, c.want)
			}
		}
	}
	for _, f := range forms {
		if !seen[f.plugin] {
			t.Errorf("no case for %s", f.plugin)
		}
	}
}
