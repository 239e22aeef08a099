package publish

import (
	"maps"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/tangram-dev/tangram/api/v1alpha1"
	"github.com/tangram-dev/tangram/internal/agent/device"
)

// TestLabels: GPU Feature Discovery's words, the requirement documents' and Node Feature
// Discovery's.
func TestLabels(t *testing.T) {
	serving := func(s *v1alpha1.Sharing) *Options {
		return &Options{Mode: v1alpha1.Serving, Sharing: s, MIGStrategy: "none", Machine: "DGX H200 (rev 2)"}
	}
	linked := inventory(2)
	linked.Links = []device.Link{{Between: []int{0, 1}, Class: "NVSwitch"}}
	linked.Devices[0].Fabric = "00000000-aa.7"
	single := inventory(2)
	for i := range single.Devices {
		single.Devices[i].MIG.Enabled = true
		single.Devices[i].MIG.Instances = []device.Instance{{Profile: "1g.18gb", ProfileID: 19, MemoryMiB: 16384}, {Profile: "1g.18gb", ProfileID: 19, MemoryMiB: 16384, Start: 1}}
	}
	mixedModels := inventory(3)
	mixedModels.Devices[0].Model, mixedModels.Devices[0].MemoryMiB = "Tesla T4", 15360
	amd := &device.Inventory{Devices: []device.Device{{Vendor: "amd", Model: "AMD Instinct MI300X", MemoryMiB: 196608}}}
	for _, tt := range []struct {
		name string
		o    *Options
		inv  *device.Inventory
		want string // space-separated; a word that ends in - must be absent
	}{
		{"observing", &Options{Mode: v1alpha1.Observing}, inventory(2), `accelerator=nvidia-tesla-h200 gpu-count=2 gpu-memory=143771Mi gpu-interconnect=pcie
			feature.node.kubernetes.io/pci-10de.present=true nvidia.com/gpu.count=2 nvidia.com/gpu.product=NVIDIA-H200 nvidia.com/gpu.memory=143771
			nvidia.com/gpu.family=hopper nvidia.com/gpu.compute.major=9 nvidia.com/gpu.compute.minor=0 nvidia.com/mig.capable=true
			nvidia.com/cuda.driver-version.major=580 nvidia.com/cuda.driver-version.minor=159 nvidia.com/cuda.driver-version.revision=03 nvidia.com/cuda.driver-version.full=580.159.03
			nvidia.com/cuda.runtime-version.major=13 nvidia.com/cuda.runtime-version.minor=0 nvidia.com/cuda.runtime-version.full=13.0
			nvidia.com/gpu.replicas- nvidia.com/gpu.sharing-strategy- nvidia.com/mps.capable- nvidia.com/mig.strategy- nvidia.com/gpu.clique- nvidia.com/gpu.machine-`},
		{"serving whole GPUs", serving(nil), linked, `gpu-interconnect=nvlink nvidia.com/gpu.clique=00000000-aa.7 nvidia.com/gpu.machine=DGX-H200--rev-2
			nvidia.com/gpu.replicas=1 nvidia.com/gpu.sharing-strategy=none nvidia.com/mps.capable=false nvidia.com/mig.strategy=none nvidia.com/gpu.product=NVIDIA-H200`},
		{"requirement document 001", serving(&v1alpha1.Sharing{Strategy: v1alpha1.TimeSlicing, Replicas: 4}), inventory(8),
			`nvidia.com/gpu.product=NVIDIA-H200-SHARED nvidia.com/gpu.replicas=4 nvidia.com/gpu.sharing-strategy=time-slicing nvidia.com/gpu.count=8 gpu-count=8`},
		{"MPS, renamed", serving(&v1alpha1.Sharing{Strategy: v1alpha1.MPS, Replicas: 2, Renamed: true}), inventory(1),
			`nvidia.com/gpu.product=NVIDIA-H200 nvidia.com/gpu.replicas=2 nvidia.com/gpu.sharing-strategy=mps nvidia.com/mps.capable=true`},
		{"single MIG", &Options{Mode: v1alpha1.Serving, MIGStrategy: "single"}, single,
			`nvidia.com/gpu.product=NVIDIA-H200-MIG-1g.18gb nvidia.com/gpu.count=4 nvidia.com/gpu.memory=16384 nvidia.com/gpu.replicas=0 nvidia.com/mig.strategy=single`},
		{"mixed MIG", &Options{Mode: v1alpha1.Serving, MIGStrategy: "mixed"}, single,
			`nvidia.com/gpu.product=NVIDIA-H200 nvidia.com/gpu.count=2 nvidia.com/mig-1g.18gb.count=4 nvidia.com/mig-1g.18gb.memory=16384 nvidia.com/mig-1g.18gb.multiprocessors=16
			nvidia.com/mig-1g.18gb.product=NVIDIA-H200-MIG-1g.18gb nvidia.com/mig-1g.18gb.slices.gi=1`},
		{"mixed models", serving(nil), mixedModels, `accelerator=nvidia-tesla-h200 gpu-count=2 nvidia.com/gpu.product=NVIDIA-H200 nvidia.com/gpu.memory=143771`},
		{"AMD", &Options{Mode: v1alpha1.Observing}, amd, `accelerator=amd-instinct-mi300x gpu-memory=192Gi amd.com/gpu.product-name=AMD-Instinct-MI300X
			feature.node.kubernetes.io/pci-10de.present- nvidia.com/gpu.count-`},
		{"no devices", serving(nil), &device.Inventory{}, `accelerator- gpu-count-`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got := labelsOf(tt.o, tt.inv)
			for _, word := range strings.Fields(tt.want) {
				key, want, _ := strings.Cut(strings.TrimSuffix(word, "-"), "=")
				if value, there := got[key]; value != want || there == strings.HasSuffix(word, "-") {
					t.Errorf("%s is %q, want %q", key, value, want)
				}
			}
			for key, value := range got {
				if problems := append(validation.IsQualifiedName(key), validation.IsValidLabelValue(value)...); len(problems) > 0 || !ours(key) {
					t.Errorf("%s=%s: %v", key, value, problems)
				}
			}
		})
	}
}

// TestLabelRule: whose labels are touched.
func TestLabelRule(t *testing.T) {
	s := newServer(t, "n")
	n := s.nodes["n"]
	s.label(n, "nvidia.com/gpu.count", "9", "nfd-master")
	s.label(n, "nvidia.com/gpu.memory", "1", Manager)
	s.label(n, "accelerator", "mine", "kubectl-label")
	s.label(n, "gpu-count", "2", "kubectl-label")
	s.label(n, "nvidia.com/gpu.family", "old", Manager)
	s.label(n, "nvidia.com/gfd.timestamp", "1", "nfd-master")
	s.label(n, "kubernetes.io/arch", "amd64", Manager) // not of a family that the agent writes
	want := map[string]string{"nvidia.com/gpu.count": "2", "nvidia.com/gpu.memory": "2", "accelerator": "x", "gpu-count": "2", "gpu-memory": "1Gi"}
	taken := map[string]bool{}
	got := patchLabels(n, want, false, taken, nil)
	if !maps.Equal(got, map[string]any{"nvidia.com/gpu.memory": "2", "gpu-memory": "1Gi", "nvidia.com/gpu.family": nil}) {
		t.Errorf("observing: %v", got)
	}
	got = patchLabels(n, want, true, taken, nil)
	if !maps.Equal(got, map[string]any{"nvidia.com/gpu.memory": "2", "gpu-memory": "1Gi", "nvidia.com/gpu.family": nil, "nvidia.com/gpu.count": "2"}) {
		t.Errorf("serving: %v", got)
	}
	if got = patchLabels(n, want, true, taken, nil); got["nvidia.com/gpu.count"] != nil {
		t.Errorf("fights for a label: %v", got)
	}
	n.ManagedFields = nil // of a node that was created empty
	got = patchLabels(n, want, false, taken, map[string]string{"nvidia.com/gpu.memory": "1", "accelerator": "not that"})
	if !maps.Equal(got, map[string]any{"nvidia.com/gpu.memory": "2", "gpu-memory": "1Gi"}) {
		t.Errorf("from memory: %v", got)
	}
}

// TestLabelsFollow: labels follow the hardware also after a restart, and a label that
// another program sets from then on is theirs.
func TestLabelsFollow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t, "n")
		labels := func() (out map[string]string) {
			synctest.Wait()
			s.do(func() { out = maps.Clone(s.nodes["n"].Labels) })
			return out
		}
		w := run(t, s)
		w.SetInventory(inventory(4), nil)
		if got := labels(); got["gpu-count"] != "4" {
			t.Errorf("%v", got)
		}
		w.stop()
		w = run(t, s) // another agent
		w.SetInventory(inventory(3), nil)
		if got := labels(); got["gpu-count"] != "3" || got["nvidia.com/gpu.count"] != "3" {
			t.Errorf("%v", got)
		}
		s.do(func() { s.label(s.nodes["n"], "nvidia.com/gpu.count", "7", "nfd-master") })
		time.Sleep(heartbeatTo + time.Second)
		w.SetInventory(inventory(2), nil)
		if got := labels(); got["gpu-count"] != "2" || got["nvidia.com/gpu.count"] != "7" {
			t.Errorf("%v", got)
		}
		s.do(func() { s.label(s.nodes["n"], "nvidia.com/gpu.count", "", "") }) // GPU Feature Discovery is gone
		time.Sleep(heartbeatTo + time.Second)
		if got := labels(); got["nvidia.com/gpu.count"] != "2" {
			t.Errorf("%v", got)
		}
	})
}

// TestMixedModelsAreTold once.
func TestMixedModelsAreTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := run(t, newServer(t, "n"))
		inv := inventory(3)
		inv.Devices[2].Model = "Tesla T4"
		for range 3 {
			w.SetInventory(inv, nil)
			w.SetHealth(nil)
			synctest.Wait()
			time.Sleep(heartbeatTo)
		}
		if got, want := w.events.take(), "Warning MixedGPUModels: the node has GPUs of 2 models; its labels describe NVIDIA H200 alone, its GPUNode describes all"; got != want {
			t.Errorf("events %q", got)
		}
	})
}
