package dialect

import (
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tangram-dev/tangram/api/names"
	"github.com/tangram-dev/tangram/api/record"
	"github.com/tangram-dev/tangram/api/v1alpha1"
	"github.com/tangram-dev/tangram/core/ledger"
	"github.com/tangram-dev/tangram/core/model"
	"github.com/tangram-dev/tangram/core/place"
)

// resources reads "nvidia.com/gpu=2 cpu=1".
func resources(text string) v1.ResourceList {
	out := v1.ResourceList{}
	for word := range strings.FieldsSeq(text) {
		name, value, _ := strings.Cut(word, "=")
		out[v1.ResourceName(name)] = resource.MustParse(value)
	}
	return out
}

func container(name, requests string) v1.Container {
	return v1.Container{Name: name, Resources: v1.ResourceRequirements{Requests: resources(requests)}}
}

func podOf(containers ...v1.Container) *v1.Pod {
	return &v1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "p", Namespace: "default", UID: "uid", Annotations: map[string]string{}}, Spec: v1.PodSpec{Containers: containers}}
}

func TestRequestCounts(t *testing.T) {
	always := v1.ContainerRestartPolicyAlways
	sidecar := container("side", "nvidia.com/gpu=1")
	sidecar.RestartPolicy = &always
	withInit := podOf(container("a", "nvidia.com/gpu=2"), container("b", ""))
	withInit.Spec.InitContainers = []v1.Container{sidecar, container("init", "nvidia.com/gpu=4")}
	limitsOnly := podOf(v1.Container{Name: "a", Resources: v1.ResourceRequirements{Limits: resources("amd.com/gpu=3")}})
	tests := []struct {
		name   string
		pod    *v1.Pod
		vendor model.Vendor
		count  int
		memory model.MiB
	}{
		{"one container", podOf(container("a", "nvidia.com/gpu=2 cpu=1")), model.NVIDIA, 2, 0},
		{"two containers", podOf(container("a", "nvidia.com/gpu=2"), container("b", "nvidia.com/gpu=1")), model.NVIDIA, 3, 0},
		{"init, sidecar and main", withInit, model.NVIDIA, 5, 0},
		{"limits only", limitsOnly, model.AMD, 3, 0},
		{"intel", podOf(container("a", "gpu.intel.com/i915=1")), model.Intel, 1, 0},
		{"memory of all GPUs together", podOf(container("a", "nvidia.com/gpu=4 nvidia.com/gpu-memory=128Gi")), model.NVIDIA, 4, 32 << 10},
		{"memory is rounded up", podOf(container("a", "nvidia.com/gpu=3 nvidia.com/gpu-memory=100Gi")), model.NVIDIA, 3, 34134},
		{"the larger memory counts", podOf(container("a", "nvidia.com/gpu=1 nvidia.com/gpu-memory=8Gi"), container("b", "nvidia.com/gpu=1 nvidia.com/gpu-memory=16Gi")), model.NVIDIA, 2, 16 << 10},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r, err := Request(tt.pod)
			if err != nil {
				t.Fatal(err)
			}
			if r.Vendor != tt.vendor || r.Count() != tt.count || r.MinMemory != tt.memory {
				t.Errorf("got %d %s of %d MiB, want %d %s of %d MiB", r.Count(), r.Vendor, r.MinMemory, tt.count, tt.vendor, tt.memory)
			}
			if err := r.Validate(); err != nil {
				t.Error(err)
			}
		})
	}
	for name, p := range map[string]*v1.Pod{"no GPU": podOf(container("a", "cpu=1")), "zero GPUs": podOf(container("a", "nvidia.com/gpu=0"))} {
		if r, err := Request(p); r != nil || err != nil {
			t.Errorf("%s: got %v, %v", name, r, err)
		}
	}
}

// TestRequestRefusals: each invalid request is rejected with the field's name.
func TestRequestRefusals(t *testing.T) {
	annotated := func(key, value string) *v1.Pod {
		p := podOf(container("a", "nvidia.com/gpu=1"))
		p.Annotations[key] = value
		return p
	}
	tests := []struct {
		name string
		pod  *v1.Pod
		want string
	}{
		{"fraction", podOf(container("a", "nvidia.com/gpu=1500m")), "spec.containers[0].resources.requests[nvidia.com/gpu]: 1500m is not a whole number"},
		{"negative", podOf(container("a", "nvidia.com/gpu=-1")), "spec.containers[0].resources.requests[nvidia.com/gpu]: -1 GPUs"},
		{"absurd", podOf(container("a", "nvidia.com/gpu=1M")), "spec.containers[0].resources.requests[nvidia.com/gpu]: 1M GPUs"},
		{"absurd in sum", podOf(container("a", "nvidia.com/gpu=60"), container("b", "nvidia.com/gpu=60")), "spec.containers: 120 GPUs in all"},
		{"two vendors in a container", podOf(container("a", "nvidia.com/gpu=1 amd.com/gpu=1")), "spec.containers[0].resources.requests[amd.com/gpu]: GPUs of two vendors"},
		{"two vendors in a pod", podOf(container("a", "amd.com/gpu=1"), container("b", "nvidia.com/gpu=1")), "spec.containers[1].resources.requests[nvidia.com/gpu]: GPUs of two vendors in one pod, the other is spec.containers[0].resources.requests[amd.com/gpu]"},
		{"memory without GPU", podOf(container("a", "nvidia.com/gpu=1"), container("b", "nvidia.com/gpu-memory=8Gi")), "spec.containers[1].resources.requests[nvidia.com/gpu-memory]: the container asks for no nvidia.com/gpu"},
		{"memory of another vendor", podOf(container("a", "amd.com/gpu=1 nvidia.com/gpu-memory=8Gi")), "spec.containers[0].resources.requests[nvidia.com/gpu-memory]"},
		{"memory in no unit", podOf(container("a", "nvidia.com/gpu=1 nvidia.com/gpu-memory=16")), "spec.containers[0].resources.requests[nvidia.com/gpu-memory]: 16 is not an amount of memory"},
		{"empty model list", annotated(names.AnnotationUseModel, ""), "metadata.annotations[nvidia.com/use-gputype]"},
		{"brand is no model", annotated(names.AnnotationAvoidModel, "nvidia"), `metadata.annotations[nvidia.com/nouse-gputype]: "nvidia" does not name a GPU model`},
		{"index is no number", annotated(names.AnnotationUseIndex, "0,two"), `metadata.annotations[volcano.sh/gpu-index]: "two"`},
		{"index out of range", annotated(names.AnnotationUseIndex, "64"), `metadata.annotations[volcano.sh/gpu-index]: "64"`},
		{"hole in a list", annotated(names.AnnotationUseUUID, "GPU-a,"), "metadata.annotations[nvidia.com/use-gpuuuid]"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r, err := Request(tt.pod)
			if err == nil || !strings.HasPrefix(err.Error(), tt.want) {
				t.Errorf("got %v, %v\nwant an error that begins with %s", r, err, tt.want)
			}
		})
	}
}

func TestWishes(t *testing.T) {
	p := podOf(container("a", "nvidia.com/gpu=1"))
	p.Annotations[names.AnnotationUseModel] = "A100, V100"
	p.Annotations[names.AnnotationAvoidUUID] = "GPU-1"
	p.Annotations[names.AnnotationAvoidUnhealthy] = "GPU-2"
	p.Annotations[names.AnnotationUseIndex] = "0,2"
	p.Spec.NodeSelector = map[string]string{names.LabelAccelerator: "nvidia-tesla-v100", "disk": "ssd"}
	in := func(key string, values ...string) v1.NodeSelectorTerm {
		return v1.NodeSelectorTerm{MatchExpressions: []v1.NodeSelectorRequirement{{Key: key, Operator: v1.NodeSelectorOpIn, Values: values}}}
	}
	p.Spec.Affinity = &v1.Affinity{NodeAffinity: &v1.NodeAffinity{
		RequiredDuringSchedulingIgnoredDuringExecution:  &v1.NodeSelector{NodeSelectorTerms: []v1.NodeSelectorTerm{in(names.LabelGPUCount, "4", "8")}},
		PreferredDuringSchedulingIgnoredDuringExecution: []v1.PreferredSchedulingTerm{{Preference: in(names.LabelNVIDIAProduct, "Tesla-V100-SXM2-32GB")}},
	}}
	r, err := Request(p)
	if err != nil {
		t.Fatal(err)
	}
	if len(r.UseModels) != 2 || len(r.AvoidUUIDs) != 2 || len(r.UseIndexes) != 2 || len(r.PreferModels) != 2 {
		t.Errorf("got %+v", r)
	}
	if len(r.Attributes) != 2 || r.Attributes[0].Key != names.LabelAccelerator || r.Attributes[1].Key != names.LabelGPUCount {
		t.Errorf("attributes %+v", r.Attributes)
	}
	// Alternatives cannot be expressed and must not narrow anything.
	p.Spec.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms = []v1.NodeSelectorTerm{in(names.LabelGPUCount, "4"), in("disk", "ssd")}
	if r, _ = Request(p); len(r.Attributes) != 1 {
		t.Errorf("attributes %+v", r.Attributes)
	}
}

func nodeOf(labels map[string]string, allocatable string) *v1.Node {
	return &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n", Labels: labels}, Status: v1.NodeStatus{Allocatable: resources(allocatable)}}
}

func TestInventoryFromLabels(t *testing.T) {
	tests := []struct {
		name        string
		labels      map[string]string
		allocatable string
		devices     int
		model       string
		memory      model.MiB
		problem     string
	}{
		{"seed labels", map[string]string{"accelerator": "nvidia-tesla-v100", "gpu-memory": "32Gi", "gpu-interconnect": "nvlink"}, "nvidia.com/gpu=8", 8, "v100", 32 << 10, ""},
		{"GFD labels", map[string]string{"nvidia.com/gpu.product": "NVIDIA-A100-SXM4-80GB", "nvidia.com/gpu.memory": "81920"}, "nvidia.com/gpu=4", 4, "a100 80gb sxm4", 81920, ""},
		{"seed resource", nil, "nvidia.com/gpu=8 nvidia.com/gpu-memory=256Gi", 8, "", 32 << 10, ""},
		{"allocatable alone", nil, "amd.com/gpu=2", 2, "", 0, ""},
		{"none", nil, "cpu=8", 0, "", 0, ""},
		{"time-sliced beyond reason", nil, "nvidia.com/gpu=500", model.MaxDevices, "", 0, ""},
		{"broken label", map[string]string{"gpu-memory": "lots"}, "nvidia.com/gpu=1", 1, "", 0, `node "n": metadata.labels[gpu-memory]: "lots"`},
		{"broken GFD label", map[string]string{"nvidia.com/gpu.memory": "80Gi"}, "nvidia.com/gpu=1", 1, "", 0, `node "n": metadata.labels[nvidia.com/gpu.memory]: "80Gi"`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			inv, err := Inventory(nodeOf(tt.labels, tt.allocatable), nil)
			if (err == nil) != (tt.problem == "") || err != nil && !strings.HasPrefix(err.Error(), tt.problem) {
				t.Errorf("problem: got %v, want %q", err, tt.problem)
			}
			if err := inv.Validate(); err != nil {
				t.Fatal(err)
			}
			if len(inv.Devices) != tt.devices {
				t.Fatalf("got %d devices, want %d", len(inv.Devices), tt.devices)
			}
			if tt.devices > 0 && (inv.Devices[0].Model.String() != tt.model || inv.Devices[0].Memory != tt.memory) {
				t.Errorf("got %q of %d MiB, want %q of %d MiB", inv.Devices[0].Model, inv.Devices[0].Memory, tt.model, tt.memory)
			}
		})
	}
}

func TestInventoryFromGPUNode(t *testing.T) {
	zero := int32(0)
	gn := &v1alpha1.GPUNode{
		ObjectMeta: metav1.ObjectMeta{Name: "n"},
		Spec: v1alpha1.GPUNodeSpec{
			Devices: []v1alpha1.Device{
				{Index: 1, UUID: "GPU-1", Vendor: "nvidia", Model: "NVIDIA H200", MemoryMiB: 143771},
				{Index: 0, UUID: "GPU-0", Vendor: "nvidia", Model: "NVIDIA H200", MemoryMiB: 143771, NUMA: &zero},
			},
			Links: []v1alpha1.Link{{Between: []int32{0, 1}, Class: "NVSwitch", Count: 18}},
		},
		Status: v1alpha1.GPUNodeStatus{Devices: []v1alpha1.DeviceStatus{{Index: 1, Health: v1alpha1.Degraded}}},
	}
	node := nodeOf(map[string]string{"accelerator": "x"}, "nvidia.com/gpu=1")
	inv, err := Inventory(node, gn)
	if err != nil {
		t.Fatal(err)
	}
	first, second := inv.Devices[0], inv.Devices[1]
	if first.UUID != "GPU-0" || first.NUMA != 0 || second.NUMA != model.NUMAUnknown || second.Health != model.Degraded || inv.Sellable[model.NVIDIA] != 1 {
		t.Errorf("got %+v", inv)
	}

	replaced := gn.DeepCopy()
	replaced.Status.Devices[0].UUID = "GPU-old"
	if inv, err := Inventory(node, replaced); err != nil || inv.Devices[1].Health != model.Healthy {
		t.Errorf("a new card has its predecessor's health: %+v, %v", inv, err)
	}

	// Device 1 is Degraded in every case, and stays so.
	bad := map[string]struct {
		change  func(*v1alpha1.GPUNode)
		devices int
	}{
		"spec.devices[0].uuid": {func(g *v1alpha1.GPUNode) { g.Spec.Devices[0].UUID = "GPU\"1" }, 2},
		"devices[1].uuid":      {func(g *v1alpha1.GPUNode) { g.Spec.Devices[0].UUID = "GPU-0" }, 2},
		"devices[0].vendor":    {func(g *v1alpha1.GPUNode) { g.Spec.Devices[1].Vendor = "acme" }, 2},
		"links[0].between":     {func(g *v1alpha1.GPUNode) { g.Spec.Links[0].Between[0] = 7 }, 2},
		"spec.links[0].class":  {func(g *v1alpha1.GPUNode) { g.Spec.Links[0].Class = "Rope" }, 2},
		"status.devices[1].index": {func(g *v1alpha1.GPUNode) {
			g.Status.Devices = append(g.Status.Devices, v1alpha1.DeviceStatus{Index: 5})
		}, 2},
		"status.devices[0].health": {func(g *v1alpha1.GPUNode) { g.Status.Devices[0].Health = "Dead" }, 2},
		"spec.devices[1].mig.instances": {func(g *v1alpha1.GPUNode) {
			g.Spec.Devices[1].MIG = &v1alpha1.MIG{Instances: []v1alpha1.MIGInstance{{Profile: "9g.1gb"}}}
		}, 2},
	}
	two := nodeOf(nil, "nvidia.com/gpu=2")
	for field, tt := range bad {
		t.Run(field, func(t *testing.T) {
			g := gn.DeepCopy()
			tt.change(g)
			inv, err := Inventory(two, g)
			if err == nil || !strings.Contains(err.Error(), `GPUNode "n" contradicts itself`) || !strings.Contains(err.Error(), field) {
				t.Errorf("got %v", err)
			}
			if len(inv.Devices) != tt.devices || inv.Validate() != nil {
				t.Fatalf("got %+v", inv)
			}
			if inv.Devices[0].Health != model.Healthy || inv.Devices[1].Health == model.Healthy {
				t.Errorf("the sick device must stay so: %+v", inv.Devices)
			}
		})
	}
	t.Run("devices[1].index", func(t *testing.T) {
		g := gn.DeepCopy()
		g.Spec.Devices[0].Index, g.Status.Devices = 0, nil
		if inv, err := Inventory(two, g); err == nil || !strings.Contains(err.Error(), "devices[1].index") || inv.Devices[0].UUID != "" {
			t.Errorf("an index that is there twice: got %+v, %v", inv, err)
		}
	})
}

// TestFamiliesBesideAGPUNode: a GPUNode describes the devices, and what device
// plugins say of health, modes and whole cards counts beside it.
func TestFamiliesBesideAGPUNode(t *testing.T) {
	gn := &v1alpha1.GPUNode{ObjectMeta: metav1.ObjectMeta{Name: "n"}, Spec: v1alpha1.GPUNodeSpec{Devices: []v1alpha1.Device{
		{Index: 0, UUID: "GPU-0", Vendor: "nvidia", Model: "A10", MemoryMiB: 24576}, {Index: 1, UUID: "GPU-1", Vendor: "nvidia", Model: "A10", MemoryMiB: 24576},
		{Index: 2, UUID: "GPU-2", Vendor: "nvidia", Model: "A10", MemoryMiB: 24576}, {Index: 3, Vendor: "ascend", Model: "Ascend 910B3", MemoryMiB: 65536},
	}}}
	node := nodeOf(nil, "volcano.sh/gpu-number=3 huawei.com/Ascend910B3=1")
	node.Annotations = map[string]string{
		hamiRegister: `[{"id":"GPU-0","devmem":1,"health":true,"mode":"mps"},{"id":"GPU-1","index":1,"devmem":1,"health":false,"mode":"mps"},{"id":"GPU-2","index":2,"devmem":1,"health":true,"mode":"mps"}]`,
		hamiCordon:   "GPU-2",
	}
	inv, err := Inventory(node, gn)
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range []model.Health{model.Healthy, model.Failed, model.Healthy, model.Healthy} {
		if inv.Devices[i].Health != want || inv.Devices[i].Cordoned != (i == 2) || i < 3 && inv.Devices[i].Memory != 24576 {
			t.Errorf("device %d: %+v", i, inv.Devices[i])
		}
	}
	if mode, _ := inv.Attribute(hamiMode); mode != "mps" || inv.Sellable[model.NVIDIA] != 3 || inv.Sellable[model.Ascend] != 1 {
		t.Errorf("mode %q, sellable %v", mode, inv.Sellable)
	}
}

// TestFamiliesOfOneNode: in any order of families, unhealthy cards stay unhealthy, MIG
// instances are added, and other vendors' devices are renumbered.
func TestFamiliesOfOneNode(t *testing.T) {
	register := map[string]string{hamiRegister: `[{"id":"GPU-a","index":0,"devmem":24576,"health":false},{"id":"GPU-b","index":1,"devmem":24576,"health":true}]`}
	tests := []struct {
		name, allocatable string
		devices, sick     int
		check             func(model.Node) bool
	}{
		{"HAMi and Volcano", "nvidia.com/gpu=20 volcano.sh/gpu-number=2 volcano.sh/gpu-memory=49152", 2, 1, func(n model.Node) bool { return n.Devices[0].Health == model.Failed }},
		{"HAMi and AMD", "amd.com/gpu=1", 3, 1, func(n model.Node) bool { return n.Devices[2].Vendor == model.AMD && n.Devices[2].Index == 2 }},
		{"HAMi and MIG", "nvidia.com/gpu=20 nvidia.com/mig-1g.5gb=2 nvidia.com/gpu.shared=2", 4, 1, func(n model.Node) bool { return n.Devices[3].Fixed && !n.Devices[1].Fixed }},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			node := nodeOf(nil, tt.allocatable)
			node.Annotations = register
			inv, err := Inventory(node, nil)
			if err != nil {
				t.Fatal(err)
			}
			sick := 0
			for _, d := range inv.Devices {
				if d.Health != model.Healthy {
					sick++
				}
			}
			if len(inv.Devices) != tt.devices || sick != tt.sick || !tt.check(*inv) {
				t.Errorf("got %+v", inv.Devices)
			}
		})
	}
}

func TestExistingInstances(t *testing.T) {
	id := int32(19)
	in := func(list ...v1alpha1.MIGInstance) []v1alpha1.MIGInstance { return list }
	tests := []struct {
		name      string
		model     string
		instances []v1alpha1.MIGInstance
		want      map[string][]int
		problem   string
	}{
		{"mixed", "A100-80GB", in(v1alpha1.MIGInstance{Profile: "3g.40gb", Start: 4}, v1alpha1.MIGInstance{Profile: "1g.10gb", Start: 2}, v1alpha1.MIGInstance{Profile: "1g.10gb", Start: 0}), map[string][]int{"3g.40gb": {4}, "1g.10gb": {0, 2}}, ""},
		{"spelled as a resource", "A100-80GB", in(v1alpha1.MIGInstance{Profile: "1g.10gb.me", Start: 6}), map[string][]int{"1g.10gb+me": {6}}, ""},
		{"by id", "A100-80GB", in(v1alpha1.MIGInstance{Profile: "whatever", ProfileID: &id, Start: 6}), map[string][]int{"1g.10gb": {6}}, ""},
		{"overlap", "A100-80GB", in(v1alpha1.MIGInstance{Profile: "4g.40gb"}, v1alpha1.MIGInstance{Profile: "1g.10gb", Start: 3}), nil, "spec.devices[0].mig.instances[1].start"},
		{"illegal start", "A100-80GB", in(v1alpha1.MIGInstance{Profile: "2g.20gb", Start: 1}), nil, "spec.devices[0].mig.instances[0].start"},
		{"unknown profile", "A100-80GB", in(v1alpha1.MIGInstance{Profile: "1g.5gb"}), nil, "spec.devices[0].mig.instances[0].profile"},
		{"unknown model", "T4", in(v1alpha1.MIGInstance{Profile: "1g.5gb"}), nil, "spec.devices[0].mig.instances: no profiles are known"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			gn := &v1alpha1.GPUNode{ObjectMeta: metav1.ObjectMeta{Name: "n"}, Spec: v1alpha1.GPUNodeSpec{Devices: []v1alpha1.Device{
				{Vendor: "nvidia", Model: tt.model, MemoryMiB: 81920, MIG: &v1alpha1.MIG{Instances: tt.instances}},
			}}}
			inv, err := Inventory(nodeOf(nil, "nvidia.com/gpu=1"), gn)
			if (err == nil) != (tt.problem == "") || err != nil && !strings.Contains(err.Error(), tt.problem) {
				t.Errorf("problem: got %v, want %q", err, tt.problem)
			}
			got := map[string][]int{}
			for _, p := range inv.Devices[0].MIG {
				got[p.Name] = p.Starts
			}
			if !inv.Devices[0].Fixed || !maps.EqualFunc(got, tt.want, slices.Equal[[]int]) {
				t.Errorf("got %v, want %v; what cannot be understood is sold in no way", got, tt.want)
			}
		})
	}
}

// bound is a pod bound to node n with a record.
func bound(text string, containers ...v1.Container) *v1.Pod {
	p := podOf(containers...)
	p.Spec.NodeName = "n"
	p.CreationTimestamp = metav1.NewTime(time.Unix(100, 0))
	p.Status.Conditions = []v1.PodCondition{{Type: v1.PodScheduled, Status: v1.ConditionTrue, LastTransitionTime: metav1.NewTime(time.Unix(200, 0))}}
	if text != "" {
		p.Annotations[names.AnnotationDevices] = text
	}
	return p
}

func TestClaims(t *testing.T) {
	two := container("main", "nvidia.com/gpu=2")
	rec := func(node, container, resource, devices string) string {
		return `{"version":1,"node":"` + node + `","containers":[{"name":"` + container + `","resource":"` + resource + `","devices":[` + devices + `]}]}`
	}
	good := rec("n", "main", "nvidia.com/gpu", `{"index":1},{"index":3,"uuid":"GPU-3"}`)
	tests := []struct {
		name    string
		pod     *v1.Pod
		devices int
		problem string
	}{
		{"proven", bound(good, two), 2, ""},
		{"no record", bound("", two), 0, ""},
		{"malformed", bound("{", two), 0, names.AnnotationDevices},
		{"too many", bound(rec("n", "main", "nvidia.com/gpu", `{"index":1},{"index":2},{"index":3}`), two), 0, "was given 3 devices, but asks for 2"},
		{"too few", bound(rec("n", "main", "nvidia.com/gpu", `{"index":1}`), two), 0, "was given 1 devices, but asks for 2"},
		{"another node", bound(rec("m", "main", "nvidia.com/gpu", `{"index":1},{"index":2}`), two), 0, `node: "m"`},
		{"another container", bound(rec("n", "other", "nvidia.com/gpu", `{"index":1},{"index":2}`), two), 0, `"main" asks for 2 GPUs and is not listed`},
		{"another vendor", bound(rec("n", "main", "amd.com/gpu", `{"index":1},{"index":2}`), two), 0, "was given amd.com/gpu"},
		{"one device for two containers", bound(`{"version":1,"node":"n","containers":[{"name":"a","resource":"nvidia.com/gpu","devices":[{"index":1}]},{"name":"b","resource":"nvidia.com/gpu","devices":[{"index":1}]}]}`,
			container("a", "nvidia.com/gpu=1"), container("b", "nvidia.com/gpu=1")), 0, "1 devices in all, but the pod holds 2"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			claims, err := Claims(tt.pod)
			if (err == nil) != (tt.problem == "") || err != nil && !strings.Contains(err.Error(), tt.problem) {
				t.Errorf("problem: got %v, want %q", err, tt.problem)
			}
			if len(claims) != 1 || claims[0].Count != 2 || len(claims[0].Devices) != tt.devices || claims[0].Since != 200 || claims[0].Assumed {
				t.Errorf("got %+v", claims)
			}
		})
	}
	if claims, err := Claims(bound("", container("a", "cpu=1"))); err != nil || len(claims) != 1 || claims[0].Host.CPU != 1000 || claims[0].Vendor != "" {
		t.Errorf("a pod without GPUs: got %v, %v", claims, err)
	}
	// It is one of the pods the node may have.
	if claims, err := Claims(bound("", container("a", ""))); err != nil || len(claims) != 1 || !claims[0].Extras.Equal(model.Extras{{Name: "pods", Amount: 1}}) || claims[0].Vendor != "" {
		t.Errorf("a pod that asks for nothing: got %v, %v", claims, err)
	}
	// A pod Tangram would have refused holds devices of both vendors all the same.
	claims, err := Claims(bound("", container("a", "nvidia.com/gpu=1 amd.com/gpu=2")))
	if err != nil || len(claims) != 2 || claims[0].Count != 1 || claims[1].Count != 2 || claims[0].Holder == claims[1].Holder {
		t.Errorf("two vendors: got %+v, %v", claims, err)
	}
}

// TestRecordProvesItself: Claims accepts what Record writes.
func TestRecordProvesItself(t *testing.T) {
	p := bound("", container("a", "nvidia.com/gpu=2"), container("b", "nvidia.com/gpu=1"))
	p.Spec.InitContainers = []v1.Container{container("init", "nvidia.com/gpu=4")}
	r, err := Request(p)
	if err != nil {
		t.Fatal(err)
	}
	inv, _ := Inventory(nodeOf(nil, "nvidia.com/gpu=8"), nil)
	set := model.Mask(0b10111)
	text, err := record.Encode(Record(r, inv, place.Grant{Set: set}))
	if err != nil {
		t.Fatal(err)
	}
	p.Annotations[names.AnnotationDevices] = text
	claims, err := Claims(p)
	if err != nil {
		t.Fatal(err)
	}
	l := ledger.New()
	_ = l.SetNode(inv)
	l.Put("n", claims[0])
	if _, got := l.Held("uid"); got != set {
		t.Errorf("recorded %b, held %b", set, got)
	}
	assumed := assumedClaim(p, r, inv, place.Grant{Set: set})
	if !assumed.Assumed || assumed.Count != claims[0].Count || len(assumed.Devices) != len(claims[0].Devices) {
		t.Errorf("assumed %+v, confirmed %+v", assumed, claims[0])
	}
}

// TestUnhealthyIDs: a node annotation takes devices out of use, by index or by UUID,
// with and without a GPUNode.
func TestUnhealthyIDs(t *testing.T) {
	agent := &v1alpha1.GPUNode{Spec: v1alpha1.GPUNodeSpec{Devices: []v1alpha1.Device{
		{Index: 0, UUID: "GPU-a", Vendor: "nvidia", Model: "T4", MemoryMiB: 15360}, {Index: 1, UUID: "GPU-b", Vendor: "nvidia", Model: "T4", MemoryMiB: 15360},
		{Index: 2, UUID: "NPU-c", Vendor: "ascend", Model: "Ascend 310P", MemoryMiB: 21527},
	}}}
	for _, tt := range []struct {
		name, ids string
		agent     *v1alpha1.GPUNode
		want      []int // unhealthy slots
	}{
		{"nothing said", "", nil, nil},
		{"index", "1", nil, []int{1}},
		{"several, with spaces", "0, 1", nil, []int{0, 1}},
		{"no such device", "7,GPU-x,nonsense", nil, nil},
		{"UUID, with a GPUNode", "GPU-b", agent, []int{1}},
		{"index, with a GPUNode", "0", agent, []int{0}},
		{"indexes are NVIDIA's", "2", agent, nil},
		{"another vendor's by UUID", "NPU-c", agent, []int{2}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			node := nodeOf(nil, "nvidia.com/gpu=2")
			node.Annotations = map[string]string{names.AnnotationAvoidUnhealthy: tt.ids}
			inv, err := Inventory(node, tt.agent)
			if err != nil {
				t.Fatal(err)
			}
			var got []int
			for slot, d := range inv.Devices {
				if d.Health != model.Healthy {
					got = append(got, slot)
				}
			}
			if !slices.Equal(got, tt.want) {
				t.Errorf("unhealthy: got %v, want %v", got, tt.want)
			}
		})
	}
}
