package fleet

import (
	"reflect"
	"slices"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/tangram-dev/tangram/api/v1alpha1"
)

// checkObjects checks what the API server would refuse: names, labels, and the
// rules of the GPUNode CRD.
func checkObjects(t *testing.T, f *Fleet) {
	t.Helper()
	names := map[string]bool{}
	for _, n := range f.Nodes() {
		if names[n.Name] || len(validation.IsDNS1123Subdomain(n.Name)) > 0 {
			t.Errorf("node name %q is bad or taken", n.Name)
		}
		names[n.Name] = true
		for k, v := range n.Labels {
			if len(validation.IsQualifiedName(k)) > 0 || len(validation.IsValidLabelValue(v)) > 0 {
				t.Errorf("node %s: label %q = %q", n.Name, k, v)
			}
		}
	}
	uuids := map[string]bool{}
	for _, n := range f.GPUNodes() {
		if !names[n.Name] {
			t.Errorf("gpunode %s has no node", n.Name)
		}
		count := int32(len(n.Spec.Devices))
		if count < 1 || count > MaxGPUs {
			t.Errorf("gpunode %s has %d devices", n.Name, count)
		}
		for i, d := range n.Spec.Devices {
			if d.Index != int32(i) || uuids[d.UUID] || d.MemoryMiB < 1 || d.MemoryMiB > maxMemory ||
				len(d.Model) < 1 || len(d.Model) > 128 || *d.NUMA < 0 || *d.NUMA >= maxNUMA {
				t.Errorf("gpunode %s: device %+v", n.Name, d)
			}
			uuids[d.UUID] = true
		}
		for _, l := range n.Spec.Links {
			between := slices.Compact(slices.Sorted(slices.Values(l.Between)))
			if len(between) != len(l.Between) || len(between) < 2 || between[0] < 0 || between[len(between)-1] >= count {
				t.Errorf("gpunode %s: link %+v", n.Name, l)
			}
		}
	}
}

func TestDefaultFleet(t *testing.T) {
	f := Default()
	checkObjects(t, f)
	if nodes, _ := f.Size(); nodes != 16 {
		t.Errorf("%d nodes, want 16", nodes)
	}
	if !reflect.DeepEqual(f.Nodes(), Default().Nodes()) || !reflect.DeepEqual(f.GPUNodes(), Default().GPUNodes()) {
		t.Error("two calls give different objects")
	}
}

func find[T any](t *testing.T, items []T, is func(T) bool) T {
	t.Helper()
	i := slices.IndexFunc(items, is)
	if i < 0 {
		t.Fatal("not found")
	}
	return items[i]
}

func TestNodeSaysWhatItsGPUsAre(t *testing.T) {
	tests := []struct {
		node      string
		labels    map[string]string
		resources map[v1.ResourceName]string
	}{
		{
			node: "a100-3",
			labels: map[string]string{
				"accelerator": "nvidia-tesla-a100", "gpu-count": "8", "gpu-memory": "80Gi", "gpu-interconnect": "nvlink",
				"nvidia.com/gpu.product": "NVIDIA-A100-SXM4-80GB", "nvidia.com/gpu.count": "8", "nvidia.com/gpu.memory": "81920",
				"nvidia.com/mig.capable": "true", "topology.kubernetes.io/zone": "zone-a",
				"tangram.dev/pool": "a100", "topology.kubernetes.io/rack": "a100-rack-1", "network.topology.nvidia.com/block": "a100-block-0",
				"kubernetes.io/hostname": "a100-3",
			},
			resources: map[v1.ResourceName]string{"nvidia.com/gpu": "8", "nvidia.com/gpu-memory": "640Gi", "pods": "110"},
		},
		{
			// The node of seed 003: 8 x 32Gi.
			node: "dgx1-0",
			labels: map[string]string{
				"accelerator": "nvidia-tesla-v100", "gpu-count": "8", "gpu-memory": "32Gi", "gpu-interconnect": "nvlink",
			},
			resources: map[v1.ResourceName]string{"nvidia.com/gpu": "8", "nvidia.com/gpu-memory": "256Gi"},
		},
		{
			node: "t4-0",
			labels: map[string]string{
				"accelerator": "nvidia-tesla-t4", "gpu-count": "2", "gpu-interconnect": "pcie",
				"nvidia.com/gpu.product": "Tesla-T4", "nvidia.com/mig.capable": "false",
			},
			resources: map[v1.ResourceName]string{"nvidia.com/gpu": "2"},
		},
	}
	nodes := Default().Nodes()
	for _, tt := range tests {
		t.Run(tt.node, func(t *testing.T) {
			n := find(t, nodes, func(n *v1.Node) bool { return n.Name == tt.node })
			for k, want := range tt.labels {
				if n.Labels[k] != want {
					t.Errorf("label %s = %q, want %q", k, n.Labels[k], want)
				}
			}
			for k, want := range tt.resources {
				capacity, allocatable := n.Status.Capacity[k], n.Status.Allocatable[k]
				if capacity.String() != want || allocatable.String() != want {
					t.Errorf("%s = %s of %s, want %s", k, &allocatable, &capacity, want)
				}
			}
		})
	}
}

// A bare node has what a kubelet and the file say, and nothing that an agent finds out.
func TestBareNodes(t *testing.T) {
	f := &Fleet{Pools: []Pool{
		{Name: "plain", Count: 1, Zone: "z", GPU: &GPU{Model: "T4", Count: 2}, Labels: map[string]string{"team": "a", "gpu-count": "1"}},
		{Name: "own", Count: 1, GPU: &GPU{Model: "T4", Count: 2, Accelerator: "mine"}},
	}}
	bare, full := f.BareNodes(), f.Nodes()
	common := func(name string, more ...string) map[string]string {
		labels := map[string]string{"kubernetes.io/hostname": name + "-0", "kubernetes.io/os": "linux", "kubernetes.io/arch": "amd64", "tangram.dev/pool": name}
		for i := 0; i < len(more); i += 2 {
			labels[more[i]] = more[i+1]
		}
		return labels
	}
	for i, want := range []map[string]string{
		common("plain", "topology.kubernetes.io/zone", "z", "team", "a", "gpu-count", "1"),
		common("own", "accelerator", "mine"),
	} {
		if !reflect.DeepEqual(bare[i].Labels, want) {
			t.Errorf("labels %v, want %v", bare[i].Labels, want)
		}
		for key, value := range want {
			if full[i].Labels[key] != value {
				t.Errorf("the full node has %s=%q", key, full[i].Labels[key])
			}
		}
		bare[i].Labels = full[i].Labels
		if !reflect.DeepEqual(bare[i], full[i]) {
			t.Errorf("more than labels differs: %+v and %+v", bare[i], full[i])
		}
	}
}

func TestVendorsResources(t *testing.T) {
	f := &Fleet{Pools: []Pool{
		{Name: "amd", Count: 1, GPU: &GPU{Model: "MI300X", Count: 8}},
		{Name: "intel", Count: 1, GPU: &GPU{Model: "Max-1550", Count: 4}},
		{Name: "own", Count: 1, GPU: &GPU{Model: "Something New", Count: 2, MemoryMiB: 1024}},
		{Name: "cpu", Count: 1},
	}}
	checkObjects(t, f)
	want := []v1.ResourceList{}
	for _, n := range f.Nodes() {
		list := n.Status.Allocatable
		for _, name := range []v1.ResourceName{v1.ResourceCPU, v1.ResourceMemory, v1.ResourcePods, v1.ResourceEphemeralStorage, "nvidia.com/gpu-memory"} {
			delete(list, name)
		}
		want = append(want, list)
	}
	for i, expected := range []map[v1.ResourceName]int64{{"amd.com/gpu": 8}, {"gpu.intel.com/i915": 4}, {"nvidia.com/gpu": 2}, {}} {
		if len(want[i]) != len(expected) {
			t.Errorf("pool %d sells %v, want %v", i, want[i], expected)
		}
		for name, count := range expected {
			q := want[i][name]
			if q.Value() != count {
				t.Errorf("pool %d: %s = %s, want %d", i, name, &q, count)
			}
		}
	}
}

func TestLayouts(t *testing.T) {
	tests := []struct {
		name        string
		layout      string
		count, numa int
		want        []v1alpha1.Link
	}{
		{"one GPU has no links", linksNVSwitch, 1, 1, nil},
		{"a switch joins all", linksNVSwitch, 4, 2, []v1alpha1.Link{{Between: []int32{0, 1, 2, 3}, Class: "NVSwitch"}}},
		{"NVLink joins neighbours, PCIe the NUMA node", linksNVLink, 5, 2, []v1alpha1.Link{
			{Between: []int32{0, 1}, Class: "NVLink", Count: 2},
			{Between: []int32{2, 3}, Class: "NVLink", Count: 2},
			{Between: []int32{0, 1, 2}, Class: "PHB"},
			{Between: []int32{3, 4}, Class: "PHB"},
		}},
		{"PCIe, a GPU alone on its NUMA node", linksPCIe, 3, 2, []v1alpha1.Link{{Between: []int32{0, 1}, Class: "PHB"}}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := layOut(tt.layout, tt.count, tt.numa, 2); !reflect.DeepEqual(got, tt.want) {
				t.Errorf("layOut = %+v\nwant %+v", got, tt.want)
			}
		})
	}
}

// Slices are memory slices: no profile may start where it does not fit.
func TestMIGProfilesFit(t *testing.T) {
	for _, p := range products() {
		slices := int32(8)
		if p.short == "A30" {
			slices = 4
		}
		ids := map[int32]bool{}
		for _, profile := range p.profiles {
			if ids[profile.ID] {
				t.Errorf("%s: two profiles with id %d", p.short, profile.ID)
			}
			ids[profile.ID] = true
			if profile.MemoryMiB > p.memoryMiB {
				t.Errorf("%s: %s has more memory than the GPU", p.short, profile.Name)
			}
			for _, start := range profile.Starts {
				if start+profile.Size > slices {
					t.Errorf("%s: %s at %d does not fit", p.short, profile.Name, start)
				}
			}
		}
	}
}
