package dra

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tangram-dev/tangram/core/health"
	"github.com/tangram-dev/tangram/internal/agent/device"
)

// sevenSlices are the profiles of an H200, as its driver lists them.
func sevenSlices() []device.Profile {
	any1 := []int{0, 1, 2, 3, 4, 5, 6}
	return []device.Profile{
		{ID: 0, Name: "7g.141gb", MemoryMiB: 143360, SMs: 132, Starts: []int{0}, Size: 8},
		{ID: 5, Name: "4g.71gb", MemoryMiB: 71424, SMs: 64, Starts: []int{0}, Size: 4},
		{ID: 9, Name: "3g.71gb", MemoryMiB: 71424, SMs: 60, Starts: []int{0, 4}, Size: 4},
		{ID: 14, Name: "2g.35gb", MemoryMiB: 33280, SMs: 32, Starts: []int{0, 2, 4}, Size: 2},
		{ID: 15, Name: "1g.35gb", MemoryMiB: 33280, SMs: 26, Starts: []int{0, 2, 4, 6}, Size: 2},
		{ID: 19, Name: "1g.18gb", MemoryMiB: 16384, SMs: 16, Starts: any1, Size: 1},
		{ID: 20, Name: "1g.18gb+me", MemoryMiB: 16384, SMs: 16, Starts: any1, Size: 1},
	}
}

// inventory has GPUs 0 to n-1, those below cut with MIG.
func inventory(n, cut int) *device.Inventory {
	inv := &device.Inventory{Driver: "580.159.03", CUDA: "13.0"}
	for i := range n {
		d := device.Device{
			Index: i, Minor: i, UUID: fmt.Sprintf("GPU-%d", i), Vendor: "nvidia", Model: "NVIDIA H200", Brand: "NVIDIA", Architecture: "Hopper",
			ComputeCapability: "9.0", MemoryMiB: 143771, SMs: 132, NUMA: i / 4, PCIBusID: fmt.Sprintf("0000:%02x:00.0", i), PCIeRoot: fmt.Sprintf("pci0000:%02x", i/2),
		}
		if i < cut {
			d.MIG = &device.MIG{Profiles: sevenSlices()}
		}
		inv.Devices = append(inv.Devices, d)
	}
	return inv
}

func well(string) (health.Status, bool) { return health.Status{}, true }

func names(parts []Part) (out []string) {
	for _, p := range parts {
		out = append(out, p.Name)
	}
	return out
}

func TestParts(t *testing.T) {
	onDemand := Cuts{OnDemand: true}
	foreign := device.Instance{UUID: "MIG-x", ProfileID: 9, Profile: "3g.71gb", Start: 4, Size: 4}
	cases := []struct {
		name   string
		change func(*device.Device)
		cuts   Cuts
		count  int
		has    string // the first one
	}{
		{"no MIG", func(d *device.Device) { d.MIG = nil }, onDemand, 1, "gpu-0"},
		{"another vendor", func(d *device.Device) { d.Vendor = "amd" }, onDemand, 0, ""},
		{"on demand", func(*device.Device) {}, onDemand, 26, "gpu-0"},
		{"not on demand", func(*device.Device) {}, Cuts{}, 1, "gpu-0"},
		{"mode by another program", func(d *device.Device) { d.MIG.Enabled = true }, onDemand, 25, "gpu-0-mig-7g141gb-0-0"},
		{"mode of the agent", func(d *device.Device) { d.MIG.Enabled = true }, Cuts{OnDemand: true, Modes: map[string]bool{"GPU-0": true}}, 26, "gpu-0"},
		{"mode that needs a reset", func(d *device.Device) { d.MIG.Fixed = true }, onDemand, 1, "gpu-0"},
		{"mode that needs a reset, on", func(d *device.Device) { d.MIG.Fixed, d.MIG.Enabled = true, true }, onDemand, 25, "gpu-0-mig-7g141gb-0-0"},
		{"cut by another program", func(d *device.Device) { d.MIG.Enabled, d.MIG.Instances = true, []device.Instance{foreign} }, onDemand, 1, "gpu-0-mig-3g71gb-9-4"},
		{"cut by the agent", func(d *device.Device) { d.MIG.Enabled, d.MIG.Instances = true, []device.Instance{foreign} },
			Cuts{OnDemand: true, Modes: map[string]bool{"GPU-0": true}, Instances: map[string]bool{"MIG-x": true}}, 26, "gpu-0"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			inv := inventory(1, 1)
			c.change(&inv.Devices[0])
			got := names(Parts(inv, c.cuts))
			if len(got) != c.count || len(got) > 0 && got[0] != c.has {
				t.Errorf("%d: %v", len(got), got)
			}
		})
	}
	// Which program cut it decides how it is given.
	inv := inventory(1, 1)
	inv.Devices[0].MIG.Enabled, inv.Devices[0].MIG.Instances = true, []device.Instance{foreign}
	if p := Parts(inv, onDemand)[0]; p.Instance != "MIG-x" || p.Profile.Name != "3g.71gb" || p.Start != 4 {
		t.Errorf("%+v", p)
	}
}

// TestSlices holds a node of 16 cards that can be cut to the API's limits.
func TestSlices(t *testing.T) {
	state := State{Inventory: inventory(16, 16), Cuts: Cuts{OnDemand: true}, Health: well}
	all := state.Slices()
	if len(all) != 2+16 {
		t.Fatalf("%d slices", len(all))
	}
	sets, seen := map[string]resourceapi.CounterSet{}, map[string]bool{}
	for _, s := range all {
		if len(s.Devices) > resourceapi.ResourceSliceMaxDevicesWithAdvancedFeatures || len(s.Counters) > resourceapi.ResourceSliceMaxCounterSets || len(s.Devices) > 0 && len(s.Counters) > 0 {
			t.Errorf("%s: %d devices, %d counter sets", s.Name, len(s.Devices), len(s.Counters))
		}
		for _, c := range s.Counters {
			sets[c.Name] = c
		}
		for _, d := range s.Devices {
			if n := len(d.Attributes) + len(d.Capacity); n > resourceapi.ResourceSliceMaxAttributesAndCapacitiesPerDevice || len(d.Name) > 63 || seen[d.Name] {
				t.Errorf("%s: %d attributes, twice %v", d.Name, n, seen[d.Name])
			}
			seen[d.Name] = true
			for name, a := range d.Attributes {
				if a.StringValue != nil && (len(*a.StringValue) > 64 || *a.StringValue == "") {
					t.Errorf("%s: %s is %q", d.Name, name, *a.StringValue)
				}
			}
		}
	}
	for _, s := range all { // counters are of sets that exist
		for _, d := range s.Devices {
			for _, used := range d.ConsumesCounters {
				for name := range used.Counters {
					if _, ok := sets[used.CounterSet].Counters[name]; !ok {
						t.Errorf("%s uses counter %s of %s", d.Name, name, used.CounterSet)
					}
				}
			}
		}
	}
	if len(seen) != 16*26 {
		t.Errorf("%d devices", len(seen))
	}
	// What is not cut is in one slice, and a node without GPUs says so.
	if all := (State{Inventory: inventory(8, 0), Health: well}).Slices(); len(all) != 1 || len(all[0].Devices) != 8 || all[0].Devices[0].ConsumesCounters != nil {
		t.Errorf("%+v", all)
	}
	if all := (State{Inventory: &device.Inventory{}, Health: well}).Slices(); len(all) != 1 || len(all[0].Devices) != 0 {
		t.Errorf("%+v", all)
	}
}

func TestAttributes(t *testing.T) {
	inv := inventory(4, 1)
	inv.Links = []device.Link{{Between: []int{2, 3}, Class: "NVLink"}, {Between: []int{1, 2}, Class: "NVLink"}, {Between: []int{0, 1, 2, 3}, Class: "PHB"}}
	inv.Devices[1].ComputeCapability, inv.Devices[1].Model, inv.Devices[1].NUMA = "new", strings.Repeat("ü", 40), -1
	state := State{Inventory: inv, Cuts: Cuts{OnDemand: true}, Health: well}
	get := func(name string) map[string]string {
		out := map[string]string{}
		for _, s := range state.Slices() {
			for _, d := range s.Devices {
				if d.Name != name {
					continue
				}
				for key, a := range d.Attributes {
					switch {
					case a.StringValue != nil:
						out[string(key)] = *a.StringValue
					case a.VersionValue != nil:
						out[string(key)] = "v" + *a.VersionValue
					case a.IntValue != nil:
						out[string(key)] = fmt.Sprint(*a.IntValue)
					}
				}
				for key, c := range d.Capacity {
					out[string(key)] = c.Value.String()
				}
			}
		}
		return out
	}
	want := map[string]string{
		"type": "gpu", "uuid": "GPU-0", "productName": "NVIDIA H200", "brand": "NVIDIA", "architecture": "Hopper", "cudaComputeCapability": "v9.0.0",
		"driverVersion": "v580.159.3", "cudaDriverVersion": "v13.0.0", "resource.kubernetes.io/pciBusID": "0000:00:00.0", "resource.kubernetes.io/pcieRoot": "pci0000:00",
		"index": "0", "numaNode": "0", "memory": "143771Mi", "multiprocessors": "132",
	}
	if got := get("gpu-0"); !maps.Equal(got, want) {
		t.Errorf("%v", got)
	}
	mig := get("gpu-0-mig-1g18gb-me-20-6")
	if mig["type"] != "mig" || mig["parentUUID"] != "GPU-0" || mig["profile"] != "1g.18gb+me" || mig["placementStart"] != "6" || mig["placementSize"] != "1" || mig["memory"] != "16Gi" || mig["uuid"] != "" {
		t.Errorf("%v", mig)
	}
	odd := get("gpu-1")
	if odd["cudaComputeCapability"] != "" || len(odd["productName"]) != 64 || odd["numaNode"] != "" || odd["nvlinkIsland"] != "GPU-1" || get("gpu-3")["nvlinkIsland"] != "GPU-1" || get("gpu-0")["nvlinkIsland"] != "" {
		t.Errorf("%v", odd)
	}
}

func TestTaints(t *testing.T) {
	since := time.Date(2026, 11, 16, 1, 2, 3, 4, time.UTC)
	for state, effect := range map[health.State]resourceapi.DeviceTaintEffect{
		health.Suspect: resourceapi.DeviceTaintEffectNoSchedule, health.Degraded: resourceapi.DeviceTaintEffectNoSchedule, health.Failed: resourceapi.DeviceTaintEffectNoExecute,
	} {
		s := State{Inventory: inventory(2, 1), Cuts: Cuts{OnDemand: true}, Health: func(id string) (health.Status, bool) {
			if id == "GPU-0::mig-1g.18gb@4" {
				return health.Status{State: state, Since: since}, true
			}
			return health.Status{}, id != "GPU-1"
		}}
		tainted := map[string][]resourceapi.DeviceTaint{}
		for _, slice := range s.Slices() {
			for _, d := range slice.Devices {
				if d.Taints != nil {
					tainted[d.Name] = d.Taints
				}
			}
		}
		got := tainted["gpu-0-mig-1g18gb-19-4"]
		if len(tainted) != 1 || len(got) != 1 || got[0].Effect != effect || got[0].Value != state.String() || got[0].Key != TaintHealth || !got[0].TimeAdded.Equal(&metav1.Time{Time: since.Truncate(time.Second)}) {
			t.Errorf("%v: %+v", state, tainted)
		}
	}
	s := State{Inventory: inventory(1, 0), Health: well, Problem: "NoDriver"}
	if got := s.Slices()[0].Devices[0].Taints; len(got) != 1 || got[0].Key != TaintDriver || got[0].Effect != resourceapi.DeviceTaintEffectNoSchedule {
		t.Errorf("%+v", got)
	}
}

// TestCountersAreMIG walks all states of a card: what the counters let exist together is
// what MIG lets exist together, neither more nor less.
func TestCountersAreMIG(t *testing.T) {
	parts := Parts(inventory(1, 1), Cuts{OnDemand: true})
	c := countersOf(parts[0].GPU)
	use := make([]map[string]bool, len(parts))
	for i, p := range parts {
		use[i] = map[string]bool{}
		for name := range c.consumed(p)[0].Counters {
			use[i][name] = true
		}
	}
	legal := func(state []int, next int) bool { // MIG's rule, by itself
		q := parts[next]
		for _, i := range state {
			p := parts[i]
			switch {
			case p.Profile == nil || q.Profile == nil:
				return false
			case p.Start < q.Start+q.Profile.Size && q.Start < p.Start+p.Profile.Size:
				return false
			case strings.Contains(p.Profile.Name, "+me") && strings.Contains(q.Profile.Name, "+me"):
				return false
			}
		}
		return true
	}
	states := 0
	var walk func(state []int, used map[string]bool)
	walk = func(state []int, used map[string]bool) {
		states++
		from := 0
		if len(state) > 0 {
			from = state[len(state)-1] + 1
		}
		for next := from; next < len(parts); next++ {
			free := true
			for name := range use[next] {
				free = free && !used[name]
			}
			if free != legal(state, next) {
				t.Fatalf("%v and %s: counters say %v", names(pick(parts, state)), parts[next].Name, free)
			}
			if free {
				more := maps.Clone(used)
				maps.Copy(more, use[next])
				walk(append(slices.Clone(state), next), more)
			}
		}
	}
	walk(nil, map[string]bool{})
	// 2319 states of instances (the shared device report, 6.3) and the whole card.
	if states != 2320 {
		t.Errorf("%d states", states)
	}
}

func pick(parts []Part, at []int) (out []Part) {
	for _, i := range at {
		out = append(out, parts[i])
	}
	return out
}
