package fleet

import (
	"crypto/sha256"
	"fmt"
	"maps"
	"strconv"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tangram-dev/tangram/api/names"
	"github.com/tangram-dev/tangram/api/nodelabels"
	"github.com/tangram-dev/tangram/api/v1alpha1"
)

// LabelPool is the label of simulated Nodes and GPUNodes that names their pool.
const LabelPool = names.LabelPool

// KWOK plays the kubelet of every node that has the annotation with this value.
const (
	AnnotationSimulated = "kwok.x-k8s.io/node"
	Simulated           = "fake"
)

// Labels of simulated nodes beyond those that describe GPUs. Block and rack are those
// of the scheduler's default levels.
const (
	labelBlock = "network.topology.nvidia.com/block"
	labelRack  = "topology.kubernetes.io/rack"

	labelMIGCapable = "nvidia.com/mig.capable"
)

// kubeletVersion is what simulated nodes report; no kubelet stands behind it.
const kubeletVersion = "v1.36.3-simulated"

// Nodes returns the fleet's Node objects, Ready, in pool and number order, with the
// labels that describe their GPUs. The same fleet always gives equal objects; the
// caller owns them.
func (f *Fleet) Nodes() []*v1.Node {
	return f.nodes(func(p Pool, labels map[string]string) {
		if p.GPU != nil {
			p.GPU.addLabels(labels)
		}
	})
}

// BareNodes are Nodes as a kubelet registers them: without the labels that describe
// GPUs, which an agent adds. What the file itself sets is there, also about GPUs: agents
// leave labels alone that others have set.
func (f *Fleet) BareNodes() []*v1.Node {
	own := map[string]string{}
	for _, p := range f.Pools {
		if p.GPU != nil {
			own[p.Name] = p.GPU.Accelerator
		}
	}
	return f.nodes(func(p Pool, labels map[string]string) {
		if value := own[p.Name]; value != "" {
			labels[names.LabelAccelerator] = value
		}
	})
}

// nodes makes the Node objects; describe adds generated labels, which the pool's own
// override.
func (f *Fleet) nodes(describe func(Pool, map[string]string)) []*v1.Node {
	var nodes []*v1.Node
	for _, p := range f.Pools {
		p = p.completed()
		for i := range p.Count {
			labels := p.generatedLabels(i)
			describe(p, labels)
			maps.Copy(labels, p.Labels)
			nodes = append(nodes, p.node(i, labels))
		}
	}
	return nodes
}

// GPUNodes returns the GPUNode objects of the nodes that have GPUs, in the order
// of Nodes. The same fleet always gives equal objects; the caller owns them.
func (f *Fleet) GPUNodes() []*v1alpha1.GPUNode {
	var nodes []*v1alpha1.GPUNode
	for _, p := range f.Pools {
		if p.GPU == nil {
			continue
		}
		p = p.completed()
		for i := range p.Count {
			nodes = append(nodes, p.gpuNode(i))
		}
	}
	return nodes
}

func (p Pool) nodeName(i int) string { return fmt.Sprintf("%s-%d", p.Name, i) }

func (p Pool) node(i int, labels map[string]string) *v1.Node {
	name := p.nodeName(i)
	capacity := v1.ResourceList{
		v1.ResourceCPU: p.CPU.DeepCopy(), v1.ResourceMemory: p.Memory.DeepCopy(),
		v1.ResourcePods: *resource.NewQuantity(defaultPods, resource.DecimalSI),
		// Some operators ask for it, and every kubelet reports it.
		v1.ResourceEphemeralStorage: *resource.NewQuantity(defaultStorage, resource.BinarySI),
	}
	if p.GPU != nil {
		p.GPU.addResources(capacity)
	}
	for name, amount := range p.Resources {
		capacity[name] = amount.DeepCopy()
	}
	annotations := map[string]string{AnnotationSimulated: Simulated}
	maps.Copy(annotations, p.Annotations)
	return &v1.Node{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Node"},
		ObjectMeta: metav1.ObjectMeta{
			Name:        name,
			Labels:      labels,
			Annotations: annotations,
		},
		Spec: v1.NodeSpec{Taints: append([]v1.Taint(nil), p.Taints...)},
		Status: v1.NodeStatus{
			Capacity:    capacity,
			Allocatable: capacity.DeepCopy(),
			// KWOK requires it of a node with heartbeats.
			Phase:      v1.NodeRunning,
			Conditions: conditions(),
			Addresses:  []v1.NodeAddress{{Type: v1.NodeHostName, Address: name}},
			NodeInfo: v1.NodeSystemInfo{
				Architecture: "amd64", OperatingSystem: "linux", OSImage: "simulated by KWOK",
				KernelVersion: "none", ContainerRuntimeVersion: "none", KubeletVersion: kubeletVersion,
			},
		},
	}
}

func conditions() []v1.NodeCondition {
	return []v1.NodeCondition{
		{Type: v1.NodeReady, Status: v1.ConditionTrue, Reason: "KubeletReady", Message: "simulated"},
		{Type: v1.NodeMemoryPressure, Status: v1.ConditionFalse, Reason: "KubeletHasSufficientMemory"},
		{Type: v1.NodeDiskPressure, Status: v1.ConditionFalse, Reason: "KubeletHasNoDiskPressure"},
		{Type: v1.NodePIDPressure, Status: v1.ConditionFalse, Reason: "KubeletHasSufficientPID"},
		{Type: v1.NodeNetworkUnavailable, Status: v1.ConditionFalse, Reason: "RouteCreated"},
	}
}

// generatedLabels are those that say what and where the node is.
func (p Pool) generatedLabels(i int) map[string]string {
	labels := map[string]string{
		v1.LabelHostname: p.nodeName(i), v1.LabelOSStable: "linux", v1.LabelArchStable: "amd64",
		LabelPool: p.Name,
	}
	if p.Zone != "" {
		labels[v1.LabelTopologyZone] = p.Zone
	}
	if p.RackSize > 0 {
		labels[labelRack] = fmt.Sprintf("%s-rack-%d", p.Name, i/p.RackSize)
	}
	if p.BlockSize > 0 {
		labels[labelBlock] = fmt.Sprintf("%s-block-%d", p.Name, i/p.BlockSize)
	}
	return labels
}

// addLabels adds the seeds' labels and those of the vendor's feature discovery.
func (g *GPU) addLabels(labels map[string]string) {
	labels[names.LabelAccelerator] = g.Accelerator
	labels[names.LabelGPUCount] = strconv.Itoa(g.Count)
	labels[names.LabelGPUMemory] = nodelabels.Memory(g.MemoryMiB)
	labels[names.LabelInterconnect] = g.interconnect()
	switch g.Vendor {
	case vendorNVIDIA:
		labels[names.LabelNVIDIAProduct] = labelValue(g.Model)
		labels[names.LabelNVIDIACount] = strconv.Itoa(g.Count)
		labels[names.LabelNVIDIAMemory] = strconv.FormatInt(g.MemoryMiB, 10)
		labels[labelMIGCapable] = strconv.FormatBool(g.MIG)
	case vendorAMD:
		labels[names.LabelAMDProduct] = labelValue(g.Model)
	}
}

// interconnect is the value of the seeds' label.
func (g *GPU) interconnect() string {
	var classes []string
	for _, l := range g.Links {
		classes = append(classes, string(l.Class))
	}
	return nodelabels.Interconnect(classes...)
}

// addResources adds what the vendor's device plugin would publish, and for NVIDIA
// the seeds' total of device memory, so that manifests that request it fit.
func (g *GPU) addResources(list v1.ResourceList) {
	count := *resource.NewQuantity(int64(g.Count), resource.DecimalSI)
	switch g.Vendor {
	case vendorNVIDIA:
		list[names.ResourceNVIDIA] = count
		list[names.ResourceGPUMemory] = *resource.NewQuantity(int64(g.Count)*g.MemoryMiB<<20, resource.BinarySI)
	case vendorAMD:
		list[names.ResourceAMD] = count
	case vendorIntel:
		list[names.ResourceIntel] = count
	}
}

func (p Pool) gpuNode(i int) *v1alpha1.GPUNode {
	name := p.nodeName(i)
	node := &v1alpha1.GPUNode{
		TypeMeta:   metav1.TypeMeta{APIVersion: v1alpha1.GroupVersion.String(), Kind: "GPUNode"},
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{LabelPool: p.Name}},
	}
	for index := range p.GPU.Count {
		node.Spec.Devices = append(node.Spec.Devices, p.GPU.device(name, index))
	}
	for _, l := range p.GPU.Links {
		node.Spec.Links = append(node.Spec.Links, *l.DeepCopy())
	}
	return node
}

func (g *GPU) device(node string, index int) v1alpha1.Device {
	numa := int32(numaOf(index, g.Count, g.NUMANodes))
	d := v1alpha1.Device{
		Index: int32(index), UUID: deviceUUID(node, index), Vendor: g.Vendor, Model: g.Model,
		MemoryMiB: g.MemoryMiB, SMs: g.SMs, NUMA: &numa,
		PCIBusID: fmt.Sprintf("0000:%02x:00.0", 0x10+8*index),
	}
	if known, ok := findProduct(g.Model); ok && g.MIG {
		d.MIG = &v1alpha1.MIG{Profiles: known.profiles}
	}
	return d
}

// deviceUUID is stable: a fleet created again has the same devices.
func deviceUUID(node string, index int) string {
	h := sha256.Sum256(fmt.Appendf(nil, "%s/%d", node, index))
	return fmt.Sprintf("GPU-%x-%x-%x-%x-%x", h[0:4], h[4:6], h[6:8], h[8:10], h[10:16])
}

// labelValue makes a product name a valid label value, as feature discovery does.
func labelValue(s string) string { return nodelabels.Value(s) }
