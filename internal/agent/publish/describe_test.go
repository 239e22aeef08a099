package publish

import (
	"math"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/tangram-dev/tangram/api/v1alpha1"
	"github.com/tangram-dev/tangram/internal/agent/device"
)

// hostile is what a broken driver may report; test/e2e asks a real API server whether it
// takes what is made of it.
func hostile() *device.Inventory {
	long := strings.Repeat("é", 200)
	inv := &device.Inventory{Driver: long, CUDA: "\xff\xfe", Links: []device.Link{{Between: []int{0, 0, 99}, Class: "NVLink"}, {Between: []int{0, 1, 1}, Class: "NVLink", Count: 1 << 40}, {Between: []int{0, 1}, Class: "Telepathy"}}}
	for i := range 20 {
		inv.Devices = append(inv.Devices, device.Device{Index: i, UUID: strings.Repeat("u", i+1), Vendor: "nvidia", Model: long, MemoryMiB: 1 << 40, SMs: -1, NUMA: 1 << 20, PCIeGen: -4,
			PCIBusID: long, ComputeCapability: long, Fabric: long, MIG: &device.MIG{
				Profiles:  []device.Profile{{ID: -1}, {ID: 1, Name: long, Size: 9}, {ID: 2, Name: long, Size: 1, Starts: []int{-1}}},
				Instances: []device.Instance{{Profile: "1g", Start: 9}, {Profile: "1g", Start: 1, UUID: "no uuid"}}}})
	}
	inv.Devices[1].UUID = inv.Devices[0].UUID
	inv.Devices[2].Index = 0
	inv.Devices[3].Vendor = "ACME"
	inv.Devices[4].UUID, inv.Devices[4].Model, inv.Devices[4].MemoryMiB = "not a uuid", " ", -7
	return inv
}

func TestHostileDriver(t *testing.T) {
	o := &Options{Version: strings.Repeat("v", 1000), Mode: v1alpha1.Serving}
	spec, left := specOf(o, hostile(), nil)
	if len(spec.Devices) == 0 || len(spec.Devices) > maxDevices || len(left) == 0 {
		t.Fatalf("%d devices, left out: %v", len(spec.Devices), left)
	}
	for _, word := range []string{"index twice", "UUID u twice", `"ACME" is not a vendor`, "has devices 0 to 15"} {
		if !strings.Contains(strings.Join(left, "; "), word) {
			t.Errorf("%q is not said: %v", word, left)
		}
	}
	for _, d := range spec.Devices {
		if len(d.Model) > maxName || d.Model == "" || !utf8.ValidString(d.Model) || d.MemoryMiB < 1 || d.MemoryMiB > maxMemoryMiB || d.SMs < 0 || d.NUMA != nil || strings.Contains(d.UUID, " ") {
			t.Errorf("%+v", d)
		}
	}
	s := &state{inventory: hostile(), health: map[string]*Health{"u": {State: "?", Reason: strings.Repeat("é", 5000)}},
		samples: map[string]*device.Sample{"u": {UUID: "u", Values: map[device.Field]float64{device.Utilization: math.NaN(), device.Temperature: math.Inf(1), device.Power: -5, device.MemoryUsed: 1e300}}}}
	status := statusOf(s, spec.Devices)
	if d := status.Devices[0]; d.UtilizationPercent != nil || d.TemperatureCelsius != nil || *d.PowerWatts != 0 || *d.MemoryUsedMiB != maxMemoryMiB || len(d.Reason) > maxReason || d.Health != v1alpha1.Failed {
		t.Errorf("%+v", d)
	}
}
