package dialect

import (
	"fmt"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"

	"github.com/tangram-dev/tangram/api/v1alpha1"
	"github.com/tangram-dev/tangram/core/explain"
	"github.com/tangram-dev/tangram/core/ledger"
	"github.com/tangram-dev/tangram/core/model"
	"github.com/tangram-dev/tangram/core/place"
)

// agentNode is a GPUNode of four A100s whose agent is in a mode; none when it is empty.
func agentNode(mode v1alpha1.AgentMode, sharing *v1alpha1.Sharing) *v1alpha1.GPUNode {
	gn := &v1alpha1.GPUNode{}
	gn.Name = "n"
	for i := range 4 {
		gn.Spec.Devices = append(gn.Spec.Devices, v1alpha1.Device{Index: int32(i), UUID: fmt.Sprintf("GPU-%d", i), Vendor: "nvidia", Model: "NVIDIA A100-SXM4-80GB", MemoryMiB: 81920})
	}
	if mode != "" {
		gn.Spec.Agent = &v1alpha1.Agent{Mode: mode}
	}
	gn.Spec.Sharing = sharing
	return gn
}

// TestSharingOfAnAgent: what an agent says of sharing goes before labels.
func TestSharingOfAnAgent(t *testing.T) {
	sliced := func(turns int32) *v1alpha1.Sharing {
		return &v1alpha1.Sharing{Strategy: v1alpha1.TimeSlicing, Replicas: turns}
	}
	type sold struct {
		tenants                    int
		replicated, one, noAmounts bool
	}
	labelled := nodeOf(map[string]string{replicasLabel: "3", sharingLabel: "time-slicing"}, "nvidia.com/gpu=12")
	tests := []struct {
		name     string
		node     *v1.Node
		mode     v1alpha1.AgentMode
		sharing  *v1alpha1.Sharing
		want     sold
		sellable int
		problem  string
	}{
		{"turns as whole GPUs", nodeOf(nil, "nvidia.com/gpu=16"), v1alpha1.Serving, sliced(4), sold{4, true, false, true}, 16, ""},
		{"64 turns of each", nodeOf(nil, "nvidia.com/gpu=256"), v1alpha1.Serving, sliced(64), sold{64, true, false, true}, 256, ""},
		{"failRequestsGreaterThanOne", nodeOf(nil, "nvidia.com/gpu=16"), v1alpha1.Serving,
			&v1alpha1.Sharing{Strategy: v1alpha1.TimeSlicing, Replicas: 4, OnePerContainer: true}, sold{4, true, true, true}, 16, ""},
		{"MPS gives one for each container", nodeOf(nil, "nvidia.com/gpu=16"), v1alpha1.Serving,
			&v1alpha1.Sharing{Strategy: v1alpha1.MPS, Replicas: 4}, sold{4, true, true, true}, 16, ""},
		{"renamed", nodeOf(nil, "nvidia.com/gpu.shared=16"), v1alpha1.Serving,
			&v1alpha1.Sharing{Strategy: v1alpha1.TimeSlicing, Replicas: 4, Renamed: true}, sold{4, false, false, true}, 0, ""},
		{"one replica is a whole GPU", nodeOf(nil, "nvidia.com/gpu=4"), v1alpha1.Serving, sliced(1), sold{0, false, false, true}, 4, ""},
		{"shares by amount", nodeOf(nil, "nvidia.com/gpu=40"), v1alpha1.Serving,
			&v1alpha1.Sharing{Strategy: v1alpha1.HAMiCore, MaxShares: 10}, sold{10, false, false, false}, 40, ""},
		{"a serving agent that does not share overrules labels", labelled, v1alpha1.Serving, nil, sold{0, false, false, true}, 12, ""},
		{"sharing overrules labels of another device plugin", labelled, v1alpha1.Observing, sliced(4), sold{4, true, false, false}, 12, ""},
		{"labels where another plugin serves", labelled, v1alpha1.Observing, nil, sold{3, true, false, false}, 12, ""},
		{"labels without an agent", labelled, "", nil, sold{3, true, false, false}, 12, ""},
		{"turns and amounts", nodeOf(nil, "nvidia.com/gpu=16"), v1alpha1.Serving,
			&v1alpha1.Sharing{Strategy: v1alpha1.MPS, Replicas: 4, MaxShares: 10}, sold{4, true, true, true}, 16, "spec.sharing.maxShares"},
		{"negative", nodeOf(nil, "nvidia.com/gpu=4"), v1alpha1.Serving, sliced(-1), sold{0, false, false, true}, 4, "spec.sharing"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			inv, err := Inventory(tt.node, agentNode(tt.mode, tt.sharing))
			if (err == nil) != (tt.problem == "") || err != nil && !strings.Contains(err.Error(), tt.problem) {
				t.Errorf("problem %v, want %q", err, tt.problem)
			}
			if len(inv.Devices) != 4 || inv.Sellable[model.NVIDIA] != tt.sellable {
				t.Errorf("%d devices, %d sellable", len(inv.Devices), inv.Sellable[model.NVIDIA])
			}
			for _, d := range inv.Devices {
				if got := (sold{d.Tenants, d.Replicated, d.OnePerContainer, d.NoAmounts}); got != tt.want {
					t.Errorf("device %d: %+v, want %+v", d.Index, got, tt.want)
				}
			}
		})
	}
}

// TestTurnsOfAnAgent: requirement document 001 as our agent serves it. A pod of one turn
// does not get a GPU alone, turns are counted one by one, and a container of two is
// refused where the agent would refuse it.
func TestTurnsOfAnAgent(t *testing.T) {
	gn := agentNode(v1alpha1.Serving, &v1alpha1.Sharing{Strategy: v1alpha1.TimeSlicing, Replicas: 4, OnePerContainer: true})
	inv, err := Inventory(nodeOf(nil, "nvidia.com/gpu=16"), gn)
	if err != nil {
		t.Fatal(err)
	}
	s := &onTurns{T: t, ledger: ledger.New(), inv: inv}
	if err := s.ledger.SetNode(inv); err != nil {
		t.Fatal(err)
	}
	for range 16 {
		if _, err := s.bind("nvidia.com/gpu=1"); err != nil {
			t.Fatal(err)
		}
	}
	v, _ := s.ledger.View(inv.ID)
	for slot := range inv.Devices {
		if u := v.Usage(slot); u.Tenants != 4 {
			t.Errorf("device %d has %d tenants", slot, u.Tenants)
		}
	}
	if _, err := s.bind("nvidia.com/gpu=1"); err == nil {
		t.Error("a seventeenth turn")
	}
	s.ledger.Drop("pod-1")
	s.ledger.Drop("pod-2")
	if _, err := s.bind("nvidia.com/gpu=2"); err == nil {
		t.Error("two turns in one container")
	}
	if cards, err := s.bind("nvidia.com/gpu=1", "nvidia.com/gpu=1"); err != nil || len(cards) != 2 {
		t.Errorf("one for each of two containers: %v, %v", cards, err)
	}
}

// TestCutByTheAgent: instances that a serving agent made do not fix a device; others do,
// and all do where the agent only looks.
func TestCutByTheAgent(t *testing.T) {
	instances := func(owned ...bool) []v1alpha1.MIGInstance {
		var out []v1alpha1.MIGInstance
		for i, o := range owned {
			out = append(out, v1alpha1.MIGInstance{Profile: "1g.10gb", Start: int32(i), Owned: o})
		}
		return out
	}
	tests := []struct {
		name      string
		mode      v1alpha1.AgentMode
		enabled   bool
		instances []v1alpha1.MIGInstance
		fixed     bool
		starts    int // of 1g.10gb; an A100 has 7
	}{
		{"cut on demand", v1alpha1.Serving, false, nil, false, 7},
		{"MIG mode left on", v1alpha1.Serving, true, nil, false, 7},
		{"own instances", v1alpha1.Serving, true, instances(true, true), false, 7},
		{"one that the agent did not make", v1alpha1.Serving, true, instances(true, false), true, 2},
		{"an agent that looks on cuts nothing", v1alpha1.Observing, false, nil, false, 0},
		{"in MIG mode without instances", v1alpha1.Observing, true, nil, true, 0},
		{"owned by an agent that serves no more", v1alpha1.Observing, true, instances(true), true, 1},
		{"no agent", "", false, nil, false, 7},
		{"no agent, instances", "", true, instances(false), true, 1},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			gn := agentNode(tt.mode, nil)
			gn.Spec.Devices[0].MIG = &v1alpha1.MIG{Enabled: tt.enabled, Instances: tt.instances}
			inv, err := Inventory(nodeOf(nil, "nvidia.com/gpu=4"), gn)
			if err != nil {
				t.Fatal(err)
			}
			d, starts := inv.Devices[0], 0
			for _, p := range d.MIG {
				if p.Name == "1g.10gb" {
					starts = len(p.Starts)
				}
			}
			if d.Fixed != tt.fixed || starts != tt.starts {
				t.Errorf("fixed %v with %d places for 1g.10gb, want %v with %d", d.Fixed, starts, tt.fixed, tt.starts)
			}
		})
	}
}

// TestCordons: by index or UUID; an entry that names no device is reported and the
// others count; also where the rest of the GPUNode does not.
func TestCordons(t *testing.T) {
	cordoned := func(gn *v1alpha1.GPUNode) (string, error) {
		inv, err := Inventory(nodeOf(nil, "nvidia.com/gpu=4"), gn)
		var out []int
		for _, d := range inv.Devices {
			if d.Cordoned {
				out = append(out, d.Index)
			}
		}
		return fmt.Sprint(out), err
	}
	gn := agentNode(v1alpha1.Serving, nil)
	gn.Spec.Cordoned = []string{"GPU-1", "3"}
	if got, err := cordoned(gn); got != "[1 3]" || err != nil {
		t.Errorf("%s, %v", got, err)
	}
	gn.Spec.Cordoned = []string{"GPU-1", "GPU-9", "03", ""}
	if got, err := cordoned(gn); got != "[1]" || err == nil || !strings.Contains(err.Error(), `spec.cordoned[1]: no device has index or uuid "GPU-9"`) {
		t.Errorf("%s, %v", got, err)
	}
	gn.Spec.Cordoned = []string{"2"}
	gn.Spec.Devices[1].UUID = "GPU-0" // twice
	if got, err := cordoned(gn); got != "[2]" || err == nil {
		t.Errorf("%s, %v", got, err)
	}
}

// TestKeptOff: no vocabulary gives a device that is not healthy, or is cordoned, to a
// pod, and the refusal says which of the two it is.
func TestKeptOff(t *testing.T) {
	turns := &v1alpha1.Sharing{Strategy: v1alpha1.TimeSlicing, Replicas: 4}
	renamed := &v1alpha1.Sharing{Strategy: v1alpha1.TimeSlicing, Replicas: 4, Renamed: true}
	amounts := &v1alpha1.Sharing{Strategy: v1alpha1.MPS, MaxShares: 4}
	cut := &v1alpha1.MIG{Enabled: true, Instances: []v1alpha1.MIGInstance{{Profile: "1g.10gb", Start: 0}}}
	for _, tt := range []struct {
		name, allocatable, asks string
		sharing                 *v1alpha1.Sharing
		mig                     *v1alpha1.MIG
	}{
		{"whole", "nvidia.com/gpu=4", "nvidia.com/gpu=1", nil, nil},
		{"turns as whole GPUs", "nvidia.com/gpu=16", "nvidia.com/gpu=1", turns, nil},
		{"renamed turns", "nvidia.com/gpu.shared=16", "nvidia.com/gpu.shared=1", renamed, nil},
		{"MIG on demand", "nvidia.com/gpu=4", "nvidia.com/mig-1g.10gb=1", nil, &v1alpha1.MIG{}},
		{"MIG instances", "nvidia.com/mig-1g.10gb=4", "nvidia.com/mig-1g.10gb=1", nil, cut},
		{"shares", "nvidia.com/gpu=16", "nvidia.com/gpu=1 nvidia.com/gpumem=1000", amounts, nil},
	} {
		for _, state := range []v1alpha1.Health{v1alpha1.Healthy, v1alpha1.Suspect, v1alpha1.Degraded, v1alpha1.Failed, "cordoned"} {
			t.Run(tt.name+"/"+string(state), func(t *testing.T) {
				gn := agentNode(v1alpha1.Serving, tt.sharing)
				for i := range gn.Spec.Devices {
					gn.Spec.Devices[i].MIG = tt.mig
					if state == "cordoned" {
						gn.Spec.Cordoned = append(gn.Spec.Cordoned, gn.Spec.Devices[i].UUID)
					} else {
						gn.Status.Devices = append(gn.Status.Devices, v1alpha1.DeviceStatus{Index: int32(i), UUID: gn.Spec.Devices[i].UUID, Health: state})
					}
				}
				inv, err := Inventory(nodeOf(nil, tt.allocatable), gn)
				if err != nil {
					t.Fatal(err)
				}
				l := ledger.New()
				if err := l.SetNode(inv); err != nil {
					t.Fatal(err)
				}
				r, err := Request(podOf(container("main", tt.asks)))
				if err != nil {
					t.Fatal(err)
				}
				v, _ := l.View(inv.ID)
				_, refusal := place.Fit(r, v)
				want := explain.Unhealthy
				switch state {
				case v1alpha1.Healthy:
					if refusal != nil {
						t.Errorf("refused: %s", refusal)
					}
					return
				case "cordoned":
					want = explain.DevicesCordoned
				}
				if refusal == nil || refusal.Code != want {
					t.Errorf("got %v, want %v", refusal, want)
				}
			})
		}
	}
}
