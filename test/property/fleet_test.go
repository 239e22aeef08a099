package property

import (
	"encoding/json"
	"fmt"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"pgregory.net/rapid"

	"github.com/tangram-dev/tangram/api/v1alpha1"
	"github.com/tangram-dev/tangram/core/model"
)

// machine is a node as its owner sees it. What it publishes depends on which of its
// devices are sick.
type machine struct {
	name     string
	families []string
	// devices is how many of them have a health that is published, by index from 0,
	// and vendors whose they are.
	devices int
	vendors map[model.Vendor]bool
	publish func(sick map[int]bool) (*v1.Node, *v1alpha1.GPUNode)
}

func pick[T any](t *rapid.T, label string, from ...T) T {
	return rapid.SampledFrom(from).Draw(t, label)
}

func number(t *rapid.T, label string, from, to int) int {
	return rapid.IntRange(from, to).Draw(t, label)
}

// families are the ways a node may describe its devices, one or two on a node.
var families = []string{
	"plain", "GFD", "seeds", "GPUNode", "GPUNode", "GPUNode cut", "GPUNode instances", "HAMi", "Volcano vGPU", "Volcano", "cGPU", "Ascend", "AI cores", "replicas", "turns", "vGPU", "static MIG",
}

// drawMachine makes up a node. Everything random is drawn here, so that publish is a
// function.
func drawMachine(t *rapid.T, name string) machine {
	m := machine{name: name, vendors: map[model.Vendor]bool{}}
	var parts []published
	hasGPUNode := false
	for range number(t, "families", 1, 2) {
		family := pick(t, "family", families...)
		if strings.HasPrefix(family, "GPUNode") {
			if hasGPUNode {
				continue
			}
			hasGPUNode = true
		}
		m.families = append(m.families, family)
		part, healthy, vendor := drawFamily(t, name, family)
		parts = append(parts, part)
		m.devices = max(m.devices, healthy)
		m.vendors[vendor] = healthy > 0
	}
	m.publish = func(sick map[int]bool) (*v1.Node, *v1alpha1.GPUNode) {
		node := &v1.Node{
			ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{}, Annotations: map[string]string{}},
			Status:     v1.NodeStatus{Allocatable: v1.ResourceList{}},
		}
		gn := &v1alpha1.GPUNode{ObjectMeta: metav1.ObjectMeta{Name: name}}
		for _, part := range parts {
			part(node, gn, sick)
		}
		if !hasGPUNode {
			gn = nil
		}
		return node, gn
	}
	return m
}

// published is what a family puts on a node.
type published func(*v1.Node, *v1alpha1.GPUNode, map[int]bool)

// drawFamily returns what a family puts on a node, and how many devices' health it
// publishes, and of whom.
func drawFamily(t *rapid.T, name, family string) (published, int, model.Vendor) {
	count := number(t, "devices", 1, 4)
	offer := func(n *v1.Node, r string, amount int) {
		n.Status.Allocatable[v1.ResourceName(r)] = *resource.NewQuantity(int64(amount), resource.DecimalSI)
	}
	simple := func(f func(*v1.Node)) (published, int, model.Vendor) {
		return func(n *v1.Node, _ *v1alpha1.GPUNode, _ map[int]bool) { f(n) }, 0, ""
	}
	uuid := func(i int) string { return fmt.Sprintf("GPU-%s-%d", name, i) }
	memory := pick(t, "memory", 16384, 24577, 40960, 81920)
	tenants := pick(t, "tenants", 0, 1, 2, 10)
	switch family {
	case "plain":
		r := pick(t, "vendor", "nvidia.com/gpu", "amd.com/gpu", "gpu.intel.com/i915")
		return simple(func(n *v1.Node) { offer(n, r, count) })
	case "GFD":
		return simple(func(n *v1.Node) {
			offer(n, "nvidia.com/gpu", count)
			n.Labels["nvidia.com/gpu.product"], n.Labels["nvidia.com/gpu.memory"] = "NVIDIA-A100-SXM4-40GB", fmt.Sprint(memory)
		})
	case "seeds":
		return simple(func(n *v1.Node) {
			offer(n, "nvidia.com/gpu", count)
			n.Labels["accelerator"], n.Labels["gpu-memory"], n.Labels["gpu-interconnect"] = "nvidia-tesla-v100", "32Gi", "nvlink"
		})
	case "Volcano":
		return simple(func(n *v1.Node) {
			offer(n, "volcano.sh/gpu-number", count)
			offer(n, "volcano.sh/gpu-memory", count*memory)
		})
	case "cGPU":
		return simple(func(n *v1.Node) { offer(n, "aliyun.com/gpu-count", count); offer(n, "aliyun.com/gpu-mem", count*16) })
	case "Ascend":
		return simple(func(n *v1.Node) {
			offer(n, "huawei.com/Ascend910B3", count)
			offer(n, "huawei.com/Ascend910B3-memory", count*memory)
		})
	case "AI cores":
		return simple(func(n *v1.Node) { offer(n, "huawei.com/npu-core", count*8) })
	case "replicas":
		replicas := number(t, "replicas", 2, 4)
		return simple(func(n *v1.Node) {
			offer(n, "nvidia.com/gpu", count*replicas)
			n.Labels["nvidia.com/gpu.replicas"], n.Labels["nvidia.com/gpu.count"] = fmt.Sprint(replicas), fmt.Sprint(count)
			n.Labels["nvidia.com/gpu.product"] = "Tesla-T4-SHARED"
		})
	case "turns", "vGPU":
		r := map[string]string{"turns": "nvidia.com/gpu.shared", "vGPU": "nvidia.com/vgpu"}[family]
		replicas := number(t, "replicas", 1, 4)
		labelled := rapid.Bool().Draw(t, "labelled")
		return simple(func(n *v1.Node) {
			offer(n, r, count*replicas)
			if labelled {
				n.Labels["nvidia.com/gpu.replicas"] = fmt.Sprint(replicas)
			}
		})
	case "static MIG":
		small, large := number(t, "1g", 0, 7), number(t, "3g", 0, 2)
		return simple(func(n *v1.Node) { offer(n, "nvidia.com/mig-1g.5gb", small); offer(n, "nvidia.com/mig-3g.20gb", large) })
	case "HAMi":
		mode := pick(t, "mode", "hami-core", "mig", "mps", "")
		return func(n *v1.Node, _ *v1alpha1.GPUNode, sick map[int]bool) {
			var cards []map[string]any
			for i := range count {
				cards = append(cards, map[string]any{"id": uuid(i), "index": i, "count": tenants, "devmem": memory, "type": "NVIDIA-NVIDIA A10", "mode": mode, "health": !sick[i]})
			}
			text, _ := json.Marshal(cards)
			n.Annotations["hami.io/node-nvidia-register"] = string(text)
			offer(n, "nvidia.com/gpu", count*max(1, tenants))
		}, count, model.NVIDIA
	case "Volcano vGPU":
		return func(n *v1.Node, _ *v1alpha1.GPUNode, sick map[int]bool) {
			text := ""
			for i := range count {
				text += fmt.Sprintf("%s,%d,%d,NVIDIA-Tesla V100,%v,hami-core:", uuid(i), tenants, memory, !sick[i])
			}
			n.Annotations["volcano.sh/node-vgpu-register"] = text
			offer(n, "volcano.sh/vgpu-number", count*max(1, tenants))
		}, count, model.NVIDIA
	}
	return drawGPUNode(t, family, uuid, count)
}

// drawGPUNode is the agent's word: links, health, and how devices can be or are cut.
func drawGPUNode(t *rapid.T, family string, uuid func(int) string, count int) (published, int, model.Vendor) {
	vendor := "nvidia"
	if family == "GPUNode" {
		vendor = pick(t, "vendor", "nvidia", "nvidia", "amd", "ascend")
	}
	var cut *v1alpha1.MIG
	switch family {
	case "GPUNode cut":
		cut = &v1alpha1.MIG{} // as the catalog says
		if rapid.Bool().Draw(t, "own profiles") {
			cut.Profiles = []v1alpha1.MIGProfile{
				{Name: "1g.5gb", ID: 19, MemoryMiB: 4864, Starts: []int32{0, 1, 2, 3}, Size: 1},
				{Name: "1g.5gb+me", ID: 20, MemoryMiB: 4864, Starts: []int32{0, 1, 2, 3}, Size: 1},
				{Name: "2g.10gb", ID: 14, MemoryMiB: 9984, Starts: []int32{0, 2}, Size: 2},
			}
		}
	case "GPUNode instances":
		cut = &v1alpha1.MIG{Instances: pick(t, "instances",
			[]v1alpha1.MIGInstance{{Profile: "3g.20gb", Start: 4}, {Profile: "1g.5gb", Start: 0}, {Profile: "1g.5gb", Start: 2}},
			[]v1alpha1.MIGInstance{{Profile: "1g.5gb", Start: 6}, {Profile: "1g.5gb+me", Start: 5}, {Profile: "4g.20gb", Start: 0}},
			[]v1alpha1.MIGInstance{{Profile: "7g.40gb", Start: 0}},
			[]v1alpha1.MIGInstance{{Profile: "4g.20gb", Start: 0}, {Profile: "3g.20gb", Start: 0}}, // contradicts itself
		)}
	}
	resources := map[string]v1.ResourceName{"nvidia": "nvidia.com/gpu", "amd": "amd.com/gpu", "ascend": "huawei.com/Ascend910B3"}
	sold := number(t, "sold", 0, count)
	var links []v1alpha1.Link
	if count > 1 && rapid.Bool().Draw(t, "linked") {
		links = append(links, v1alpha1.Link{Between: []int32{0, int32(number(t, "peer", 1, count-1))}, Class: "NVLink", Count: 2})
	}
	typo := number(t, "typo", 0, 5) == 0 // a status of a device that is not there
	name := "NVIDIA A100-SXM4-40GB"
	if vendor == "ascend" {
		name = "Ascend 910B3"
	}
	return func(n *v1.Node, gn *v1alpha1.GPUNode, sick map[int]bool) {
		n.Status.Allocatable[resources[vendor]] = *resource.NewQuantity(int64(sold), resource.DecimalSI)
		gn.Spec.Links = links
		for i := range count {
			gn.Spec.Devices = append(gn.Spec.Devices, v1alpha1.Device{
				Index: int32(i), UUID: uuid(i), Vendor: vendor, Model: name, MemoryMiB: 40960, MIG: cut,
			})
			if sick[i] {
				gn.Status.Devices = append(gn.Status.Devices, v1alpha1.DeviceStatus{Index: int32(i), Health: v1alpha1.Failed})
			}
		}
		if typo {
			gn.Status.Devices = append(gn.Status.Devices, v1alpha1.DeviceStatus{Index: 15, Health: v1alpha1.Failed})
		}
	}, count, model.Vendor(vendor)
}
