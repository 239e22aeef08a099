package scenario

import (
	"fmt"
	"strconv"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/tangram-dev/tangram/api/names"
	"github.com/tangram-dev/tangram/api/v1alpha1"
)

// resources sell the GPUs of each vendor.
var resources = map[string]v1.ResourceName{
	"nvidia": names.ResourceNVIDIA, "amd": names.ResourceAMD, "intel": names.ResourceIntel,
}

// node makes a Node and its GPUNode, which is nil for agent=no.
func (l *line) node(name string) (*v1.Node, *v1alpha1.GPUNode, error) {
	gpus := l.number("gpus", 0)
	vendor := l.text("vendor", "nvidia")
	sells, ok := resources[vendor]
	if !ok {
		l.fail("vendor: %q is not nvidia, amd or intel", vendor)
	}
	node := &v1.Node{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Node"},
		ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID("node-" + name), Labels: l.pairs("label")},
		Spec:       v1.NodeSpec{Taints: l.taints(), Unschedulable: l.yes("cordoned", false)},
		Status: v1.NodeStatus{
			Allocatable: v1.ResourceList{
				v1.ResourceCPU:    l.quantity("cpu", l.text("cpu", "64")),
				v1.ResourceMemory: l.quantity("ram", l.text("ram", "512Gi")),
				v1.ResourcePods:   resource.MustParse("110"),
			},
			Conditions: []v1.NodeCondition{{Type: v1.NodeReady, Status: v1.ConditionTrue, Reason: "KubeletReady"}},
		},
	}
	node.Labels[v1.LabelHostname] = name
	if gpus > 0 {
		node.Status.Allocatable[sells] = *resource.NewQuantity(int64(gpus), resource.DecimalSI)
	}
	for _, value := range l.all("allocatable") {
		name, amount, _ := strings.Cut(value, ":")
		node.Status.Allocatable[v1.ResourceName(name)] = l.quantity("allocatable", amount)
	}
	node.Status.Capacity = node.Status.Allocatable.DeepCopy()
	gn := l.gpuNode(name, vendor, gpus)
	if !l.yes("agent", gpus > 0) {
		gn = nil
	}
	return node, gn, l.done()
}

// taints reads taint=key=value:Effect.
func (l *line) taints() []v1.Taint {
	var out []v1.Taint
	for _, value := range l.all("taint") {
		rest, effect, _ := strings.Cut(value, ":")
		k, v, ok := strings.Cut(rest, "=")
		if !ok || effect == "" {
			l.fail("taint: %q is not key=value:Effect", value)
		}
		out = append(out, v1.Taint{Key: k, Value: v, Effect: v1.TaintEffect(effect)})
	}
	return out
}

func (l *line) gpuNode(name, vendor string, gpus int) *v1alpha1.GPUNode {
	gn := &v1alpha1.GPUNode{
		TypeMeta:   metav1.TypeMeta{APIVersion: v1alpha1.GroupVersion.String(), Kind: "GPUNode"},
		ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID("gpunode-" + name)},
	}
	model := l.text("model", "NVIDIA A100-SXM4-80GB")
	memory := l.number("memory", 81920)
	numa := l.number("numa", 0)
	instances := l.instances()
	for i := range gpus {
		d := v1alpha1.Device{Index: int32(i), UUID: uuidOf(name, i), Vendor: vendor, Model: model, MemoryMiB: int64(memory)}
		if numa > 0 {
			n := int32(i * numa / gpus)
			d.NUMA = &n
		}
		if len(instances) > 0 {
			d.MIG = &v1alpha1.MIG{Instances: instances}
		}
		gn.Spec.Devices = append(gn.Spec.Devices, d)
	}
	for _, value := range l.all("link") {
		gn.Spec.Links = append(gn.Spec.Links, l.link(value, gpus))
	}
	return gn
}

// instances reads mig=3g.40gb@4,1g.10gb@0: how each device is cut.
func (l *line) instances() []v1alpha1.MIGInstance {
	var out []v1alpha1.MIGInstance
	text := l.text("mig", "")
	if text == "" {
		return nil
	}
	for part := range strings.SplitSeq(text, ",") {
		profile, at, _ := strings.Cut(part, "@")
		start, err := strconv.ParseInt(at, 10, 32)
		if err != nil {
			l.fail("mig: %q is not profile@start", part)
		}
		out = append(out, v1alpha1.MIGInstance{Profile: profile, Start: int32(start)})
	}
	return out
}

// uuidOf names a device so that stories can.
func uuidOf(node string, index int) string { return fmt.Sprintf("GPU-%s-%d", node, index) }

// link reads NVLinkx2:0-3 or PIX:0,2 or NVSwitch:all.
func (l *line) link(value string, gpus int) v1alpha1.Link {
	kind, list, _ := strings.Cut(value, ":")
	class, count, counted := strings.Cut(kind, "x")
	out := v1alpha1.Link{Class: v1alpha1.LinkClass(class)}
	if counted {
		n, err := strconv.ParseInt(count, 10, 32)
		if err != nil {
			l.fail("link: %q is not a number of links", count)
		}
		out.Count = int32(n)
	}
	if list == "all" {
		list = fmt.Sprintf("0-%d", gpus-1)
	}
	for part := range strings.SplitSeq(list, ",") {
		from, to, isRange := strings.Cut(part, "-")
		if !isRange {
			to = from
		}
		first, errFirst := strconv.ParseInt(from, 10, 32)
		last, errLast := strconv.ParseInt(to, 10, 32)
		if errFirst != nil || errLast != nil || last >= int64(gpus) {
			l.fail("link: %q does not name devices of the node", part)
			return out
		}
		for i := first; i <= last; i++ {
			out.Between = append(out.Between, int32(i))
		}
	}
	return out
}

// setHealth sets a device's state in a GPUNode's status, as an agent would.
func setHealth(gn *v1alpha1.GPUNode, index int32, health v1alpha1.Health) {
	statusOf(gn, index).Health = health
}
