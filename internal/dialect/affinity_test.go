package dialect

import (
	"fmt"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"

	"github.com/tangram-dev/tangram/api/names"
	"github.com/tangram-dev/tangram/api/v1alpha1"
	"github.com/tangram-dev/tangram/core/model"
)

func annotated(pairs ...string) *v1.Pod {
	p := podOf(container("a", "nvidia.com/gpu=1 nvidia.com/gpumem=1000"))
	for i := 0; i < len(pairs); i += 2 {
		p.Annotations[pairs[i]] = pairs[i+1]
	}
	return p
}

func TestPlacementWords(t *testing.T) {
	tests := []struct {
		name            string
		pod             *v1.Pod
		devices, nodes  model.Placement
		alone           bool
		wantErrorPrefix string
	}{
		{name: "nothing said", pod: annotated()},
		{name: "ours is for both", pod: annotated(names.AnnotationPlacement, "spread"), devices: model.Spread, nodes: model.Spread},
		{name: "HAMi's node", pod: annotated(hamiNodePolicy, "binpack"), nodes: model.Binpack},
		{name: "HAMi's devices", pod: annotated(hamiDevicePolicy, "spread"), devices: model.Spread},
		{name: "a list of HAMi's", pod: annotated(hamiDevicePolicy, "numa, spread,binpack,topology-aware"), devices: model.Spread},
		{name: "HAMi's mutex", pod: annotated(hamiDevicePolicy, "mutex,binpack"), devices: model.Binpack, alone: true},
		{name: "ours goes first", pod: annotated(names.AnnotationPlacement, "binpack", hamiNodePolicy, "spread", hamiDevicePolicy, "spread"), devices: model.Binpack, nodes: model.Binpack},
		{name: "empty words say nothing", pod: annotated(names.AnnotationPlacement, "", hamiNodePolicy, "", hamiDevicePolicy, "")},
		{name: "invalid", pod: annotated(names.AnnotationPlacement, "tight"), wantErrorPrefix: `metadata.annotations[tangram.dev/placement]: "tight" is not binpack or spread`},
		{name: "invalid for nodes", pod: annotated(hamiNodePolicy, "mutex"), wantErrorPrefix: `metadata.annotations[hami.io/node-scheduler-policy]: "mutex"`},
		{name: "invalid for devices", pod: annotated(hamiDevicePolicy, "binpack,best"), wantErrorPrefix: `metadata.annotations[hami.io/gpu-scheduler-policy]: "best"`},
		{name: "a hole in the list", pod: annotated(hamiDevicePolicy, "binpack,,spread"), wantErrorPrefix: `metadata.annotations[hami.io/gpu-scheduler-policy]`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r, err := Request(tt.pod)
			if tt.wantErrorPrefix != "" {
				if err == nil || !strings.HasPrefix(err.Error(), tt.wantErrorPrefix) {
					t.Errorf("got %v", err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if r.Placement != tt.devices || r.NodePlacement != tt.nodes || (len(r.Affinity) > 0) != tt.alone {
				t.Errorf("got %s on devices, %s on nodes, %v", r.Placement, r.NodePlacement, r.Affinity)
			}
		})
	}
}

func TestAffinityWords(t *testing.T) {
	tests := []struct {
		name, text string
		want       string
		wantErr    string
	}{
		{"one rule", "same-device=app:db", "[same-device=app:db]", ""},
		{"several", "same-node=app:db+tier:gold, different-device=example.com/team:x", "[same-node=app:db+tier:gold different-device=example.com/team:x]", ""},
		{"labels are sorted, once each", "same-node=tier:gold+app:db+app:db", "[same-node=app:db+tier:gold]", ""},
		{"a label without value", "same-node=app:", "[same-node=app:]", ""},
		{"no other pod", "different-device=*", "[different-device=*]", ""},
		{"no such rule", "near=app:db", "", `"near=app:db": is not same-device=`},
		{"no labels", "same-device", "", `"same-device": is not same-device=`},
		{"empty labels", "same-device=", "", `"same-device=": "" is not a label`},
		{"no key", "same-device=:db", "", `":db" is not a label`},
		{"two values", "same-device=app:a:b", "", `"app:a:b" is not a label`},
		{"with every pod", "same-device=*", "", "* is for different-device"},
		{"a hole", "same-device=app:db,", "", "has an empty entry"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r, err := Request(annotated(names.AnnotationAffinity, tt.text))
			if tt.wantErr != "" {
				if err == nil || !strings.HasPrefix(err.Error(), "metadata.annotations[tangram.dev/device-affinity]: ") || !strings.Contains(err.Error(), tt.wantErr) {
					t.Errorf("got %v, want %s", err, tt.wantErr)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if got := fmt.Sprint(r.Affinity); got != tt.want {
				t.Errorf("got %s, want %s", got, tt.want)
			}
			if err := r.Validate(); err != nil {
				t.Error(err)
			}
		})
	}
}

// TestClaimsKeepAffinity: the labels and rules of a bound pod are read the same way as
// before it was bound, and an annotation that was edited into something invalid is no
// rule.
func TestClaimsKeepAffinity(t *testing.T) {
	p := annotated(names.AnnotationAffinity, "same-node=app:web,different-device=app:web", hamiDevicePolicy, "mutex")
	p.Labels = map[string]string{"tier": "gold", "app": "web"}
	r, err := Request(p)
	if err != nil {
		t.Fatal(err)
	}
	p.Spec.NodeName = "n"
	claims, _ := Claims(p)
	if got, want := fmt.Sprint(claims[0].Labels, claims[0].Apart), fmt.Sprint(r.Labels)+" [different-device=* different-device=app:web]"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	edited := p.DeepCopy()
	edited.Annotations[names.AnnotationAffinity] = "nonsense"
	if claims, _ = Claims(edited); len(claims) != 1 || len(claims[0].Apart) != 0 {
		t.Errorf("got %+v", claims)
	}
	if SameCompany(p, edited) || !SameCompany(p, p.DeepCopy()) {
		t.Error("rules make a difference")
	}
}

func TestTelemetryWords(t *testing.T) {
	small, large := int32(42), int64(4242)
	device := func(index int32, uuid string) v1alpha1.Device {
		return v1alpha1.Device{Index: index, UUID: uuid, Vendor: "nvidia", Model: "A100", MemoryMiB: 81920}
	}
	gn := &v1alpha1.GPUNode{Spec: v1alpha1.GPUNodeSpec{Devices: []v1alpha1.Device{device(1, "GPU-1"), device(0, "GPU-0"), device(2, "GPU-2")}}}
	node := nodeOf(nil, "nvidia.com/gpu=3")
	inv, err := Inventory(node, gn)
	if err != nil {
		t.Fatal(err)
	}
	if got := Telemetry(inv, gn); got != nil {
		t.Errorf("nothing was measured: got %v", got)
	}
	gn.Status.Devices = []v1alpha1.DeviceStatus{
		{Index: 1, UUID: "GPU-1", Health: v1alpha1.Healthy, UtilizationPercent: &small, MemoryUsedMiB: &large},
		{Index: 2, UUID: "GPU-old", Health: v1alpha1.Healthy, PowerWatts: &small},
	}
	got := Telemetry(inv, gn)
	if want := (model.Telemetry{Utilization: model.Measured(42), MemoryUsed: model.Measured(4242)}); len(got) != 3 || got[1] != want || got[0] != (model.Telemetry{}) || got[2] != (model.Telemetry{}) {
		t.Errorf("got %+v", got)
	}
	gn.Status.Devices[0].Index = 9
	if got := Telemetry(inv, gn); got != nil {
		t.Errorf("a GPUNode that contradicts itself measures nothing: got %v", got)
	}
}
