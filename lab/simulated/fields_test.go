package simulated

import (
	"reflect"
	"testing"

	"github.com/tangram-dev/tangram/lab/fleet"
)

// unsimulated are fields of the agent's inventory that simulated hardware does not have.
var unsimulated = map[string]string{
	"Device.Fabric":            "a fleet file describes no NVLink domains across nodes",
	"MIG.Fixed":                "simulated devices change MIG mode at once",
	"Instance.ComputeInstance": "0: an instance has one",
}

// TestEveryFieldIsSimulated: simulated devices leave no field of the agent's inventory empty.
func TestEveryFieldIsSimulated(t *testing.T) {
	f, err := fleet.Parse("fleet.yaml", []byte("pools: [{name: a, count: 1, gpu: {model: A100-80GB, count: 8, mig: true, links: [{between: [6, 7], class: NVLink, count: 4}]}}]"))
	if err != nil {
		t.Fatal(err)
	}
	hardware, err := New(f, Options{})
	if err != nil {
		t.Fatal(err)
	}
	backend := hardware.Backend("a-0")
	inv, err := backend.Inventory(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	// The first device has the number 0 of everything, which looks like a field that is not set.
	uuid := inv.Devices[7].UUID
	if err := backend.SetMIG(t.Context(), uuid, true); err != nil {
		t.Fatal(err)
	}
	const profile, start = 9, 4 // 3g.40gb
	if _, err := backend.CreateInstance(t.Context(), uuid, profile, start); err != nil {
		t.Fatal(err)
	}
	if inv, err = backend.Inventory(t.Context()); err != nil {
		t.Fatal(err)
	}
	mig := inv.Devices[7].MIG
	for _, part := range []any{*inv, inv.Devices[7], *mig, mig.Profiles[len(mig.Profiles)-1], mig.Instances[0], inv.Links[0]} {
		for f, v := range reflect.ValueOf(part).Fields() {
			name := reflect.TypeOf(part).Name() + "." + f.Name
			empty := v.IsZero() || v.Kind() == reflect.Slice && v.Len() == 0
			switch _, listed := unsimulated[name]; {
			case empty && !listed:
				t.Errorf("device.%s is not set by lab/simulated (node.go; lab/fleet/hardware.go)", name)
			case !empty && listed:
				t.Errorf("device.%s is set by lab/simulated, and listed here as not", name)
			}
		}
	}
}
