package simulated

import (
	"errors"
	"strings"
	"testing"

	"github.com/tangram-dev/tangram/internal/agent/device"
	"github.com/tangram-dev/tangram/lab/fleet"
)

// What the agent reads must be what the fleet's GPUNodes have said so far: records of
// running pods name these devices.
func TestInventoryIsTheFleets(t *testing.T) {
	f := fleet.Default()
	s, err := New(f, Options{})
	if err != nil {
		t.Fatal(err)
	}
	nodes := f.GPUNodes()
	if got := s.Nodes(); len(got) != len(nodes) {
		t.Fatalf("nodes %v, want %d", got, len(nodes))
	}
	for i, want := range nodes {
		if s.Nodes()[i] != want.Name {
			t.Fatalf("node %d is %s, want %s", i, s.Nodes()[i], want.Name)
		}
		inv := inventory(t, s.Backend(want.Name))
		if inv.Driver == "" || len(inv.Devices) != len(want.Spec.Devices) || len(inv.Links) != len(want.Spec.Links) {
			t.Fatalf("%s: %+v", want.Name, inv)
		}
		for j, d := range want.Spec.Devices {
			got := inv.Devices[j]
			if got.Index != int(d.Index) || got.UUID != d.UUID || got.Vendor != d.Vendor || got.Model != d.Model || got.MemoryMiB != d.MemoryMiB ||
				got.SMs != int(d.SMs) || got.NUMA != int(*d.NUMA) || got.PCIBusID != d.PCIBusID || (got.MIG == nil) != (d.MIG == nil) {
				t.Errorf("%s: device %+v, want %+v", want.Name, got, d)
			}
			if got.Serial == "" || got.ComputeCapability == "" || got.PCIeGen == 0 || got.PCIeWidth == 0 || got.PCIDeviceID == "" {
				t.Errorf("%s: device %+v lacks something", want.Name, got)
			}
			if got.MIG != nil && len(got.MIG.Profiles) != len(d.MIG.Profiles) {
				t.Errorf("%s: %d profiles, want %d", want.Name, len(got.MIG.Profiles), len(d.MIG.Profiles))
			}
		}
		for j, l := range want.Spec.Links {
			if got := inv.Links[j]; got.Class != string(l.Class) || got.Count != int(l.Count) || len(got.Between) != len(l.Between) {
				t.Errorf("%s: link %+v, want %+v", want.Name, got, l)
			}
		}
	}
}

func TestInventoryIsTheCallers(t *testing.T) {
	s := newFleet(t, Options{})
	b := s.Backend("h-0")
	inv := inventory(t, b)
	inv.Devices[0].MIG.Profiles[0].Starts[0] = 99
	inv.Devices[0].UUID = "GPU-other"
	inv.Links[0].Between[0] = 99
	if again := inventory(t, b); again.Devices[0].MIG.Profiles[0].Starts[0] == 99 || again.Devices[0].UUID == "GPU-other" || again.Links[0].Between[0] == 99 {
		t.Error("a change of the answer changed the hardware")
	}
}

func TestFleet(t *testing.T) {
	s := newFleet(t, Options{})
	if got, want := strings.Join(s.Nodes(), " "), "h-0 h-1 t-0 amd-0"; got != want {
		t.Errorf("nodes %s, want %s: those with GPUs", got, want)
	}
	if s.Backend("cpu-0") != nil || s.Backend("other") != nil {
		t.Error("there is hardware for nodes without GPUs")
	}
	if links := inventory(t, s.Backend("h-0")).Devices[0].NVLinks; links != 18 {
		t.Errorf("an H100 has %d NVLinks", links)
	}
	if links := inventory(t, s.Backend("t-0")).Devices[0].NVLinks; links != 0 {
		t.Errorf("a T4 has %d NVLinks", links)
	}
	if err := s.SetFaults("other", nil); !errors.Is(err, device.ErrNotFound) {
		t.Errorf("faults of an unknown node: %v", err)
	}
	s.nodes["t-0"].setLoad([]Use{{Device: -1, Utilization: 50}, {Device: 2, Utilization: 50}})
	if _, err := New(parse(t), Options{Speed: -1}); err == nil {
		t.Error("a negative speed is accepted")
	}
}

func TestClosedBackend(t *testing.T) {
	s := newFleet(t, Options{})
	b := s.Backend("h-0")
	if err := b.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := b.Inventory(t.Context()); err == nil {
		t.Error("a closed back end answers")
	}
	if _, err := b.Sample(t.Context()); err == nil {
		t.Error("a closed back end is sampled")
	}
	if err := b.Watch(t.Context(), func(device.Event) {}); err == nil {
		t.Error("a closed back end is watched")
	}
	inventory(t, s.Backend("h-0")) // another use of the same hardware
}
