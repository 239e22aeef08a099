package dialect

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/tangram-dev/tangram/api/names"
	"github.com/tangram-dev/tangram/api/v1alpha1"
	"github.com/tangram-dev/tangram/core/ledger"
	"github.com/tangram-dev/tangram/core/model"
	"github.com/tangram-dev/tangram/core/topology"
)

// attributeLabels are the node labels that describe GPUs, and KAI's node pool, sorted. They become
// node attributes; pods select nodes by them.
var attributeLabels = []string{
	names.LabelAccelerator, names.LabelAMDProduct, names.LabelGPUCount, names.LabelInterconnect, names.LabelGPUMemory, labelNodePool,
	names.LabelNVIDIACount, names.LabelNVIDIAMemory, names.LabelNVIDIAProduct,
}

// kubeLabels begin labels by which kubelet and cloud providers describe nodes.
var kubeLabels = []string{
	v1.LabelHostname, v1.LabelArchStable, v1.LabelOSStable, v1.LabelInstanceTypeStable,
	"feature.node.kubernetes.io/", "cloud.google.com/gke-accelerator", "k8s.amazonaws.com/accelerator",
}

// DescribesHardware says whether a label describes a node, as agents, GPU vendors and cloud providers write it.
func DescribesHardware(label string) bool {
	domain, _, _ := strings.Cut(label, "/")
	return slices.Contains(attributeLabels, label) && label != labelNodePool ||
		slices.ContainsFunc(deviceFamilies, func(f family) bool { return f.vendors() && slices.Contains(f.domains, domain) }) ||
		slices.ContainsFunc(kubeLabels, func(l string) bool { return strings.HasPrefix(label, l) })
}

// Facts are what is known of a node beside its Node object.
type Facts struct {
	// GPUNode and Topology (a NodeResourceTopology) may be nil.
	GPUNode  *v1alpha1.GPUNode
	Topology *unstructured.Unstructured
	// Levels are the levels of domains; nil for the default ones.
	Levels topology.Levels
	// Tiers are the cluster's HyperNodes; may be nil.
	Tiers *Tiers
}

// Value returns a node's value for the label of a level: tiers are told by HyperNodes alone.
func (f *Facts) Value(node *v1.Node) func(label string) string {
	tiers := f.Tiers.Of(node)
	return func(label string) string {
		if IsTier(label) {
			return tiers[label]
		}
		return node.Labels[label]
	}
}

// Describe is Inventory, with the node's domains and what its kubelet requires of NUMA nodes.
func Describe(node *v1.Node, f Facts) (*model.Node, error) {
	inv, problem := Inventory(node, f.GPUNode)
	if f.Levels != nil {
		inv.Domains = f.Levels.PathOf(f.Value(node))
	}
	if f.Topology != nil {
		if err := align(inv, f.Topology); err != nil {
			problem = fmt.Errorf("NodeResourceTopology %q: %w", f.Topology.GetName(), err)
		}
	}
	return inv, problem
}

// Inventory describes a node's devices: from its GPUNode, else from labels and allocatable. It is
// always usable; the error names the field that had to be ignored.
func Inventory(node *v1.Node, gn *v1alpha1.GPUNode) (*model.Node, error) {
	n, err := devicesOf(node, gn)
	markUnhealthy(n, node)
	list := node.Status.Allocatable
	n.Host, n.Extras = host(list), extras(list, list.Pods().Value())
	return n, err
}

// markUnhealthy marks the devices that the node's annotation volcano.sh/gpu-unhealthy-ids lists, by
// UUID or NVIDIA's cards by index. Others are ignored, as Volcano does.
func markUnhealthy(n *model.Node, node *v1.Node) {
	for _, id := range split(node.Annotations[names.AnnotationAvoidUnhealthy], ",") {
		for i := range n.Devices {
			d := &n.Devices[i]
			if d.UUID == id || d.Vendor == model.NVIDIA && strconv.Itoa(d.Index) == id {
				d.Health = model.Failed
			}
		}
	}
}

func devicesOf(node *v1.Node, gn *v1alpha1.GPUNode) (*model.Node, error) {
	if gn == nil {
		return fromCluster(node)
	}
	inv, problem := fromGPUNode(node, gn)
	err := checkUUIDs(gn)
	if err == nil {
		err = ledger.Validate(inv)
	}
	if err != nil {
		// Which devices exist is unclear: labels and allocatable decide, without unhealthy and cordoned ones.
		derived, _ := fromCluster(node)
		_ = setHealth(derived, gn)
		_ = setCordons(derived, gn)
		return derived, fmt.Errorf("GPUNode %q contradicts itself, only what it says of health and cordons counts: %w", gn.Name, err)
	}
	if problem != nil {
		return inv, fmt.Errorf("GPUNode %q contradicts itself, the rest of it counts: %w", gn.Name, problem)
	}
	return inv, nil
}

// fromCluster derives devices from what device plugins publish on the node, else from labels and
// allocatable. Families that speak for all of a vendor's devices go before those that add some.
func fromCluster(node *v1.Node) (*model.Node, error) {
	n, problem := fromLabels(node)
	for _, more := range []bool{false, true} {
		for _, v := range vocabularies {
			if v.devices == nil {
				continue
			}
			reg, err := v.devices(node)
			if err != nil {
				problem = fmt.Errorf("node %q: %w", node.Name, err)
				continue
			}
			if reg == nil || len(reg.devices) == 0 || reg.more != more {
				continue
			}
			merged := merge(n, reg)
			if err := merged.Validate(); err != nil {
				problem = fmt.Errorf("node %q: %w", node.Name, err)
				continue
			}
			n = merged
		}
	}
	return n, problem
}

// merge replaces the devices of a registration's vendor. Those of others stay, and get another index
// where a registered device has theirs: it was assigned here.
func merge(n *model.Node, reg *registration) *model.Node {
	vendor := reg.devices[0].Vendor
	out := &model.Node{ID: n.ID, Sellable: maps.Clone(n.Sellable), Domains: n.Domains}
	next, moved := nextIndex(n.Devices), false
	if !reg.more { // else they have no indexes yet
		next = max(next, nextIndex(reg.devices))
	}
	for _, d := range n.Devices {
		if d.Vendor == vendor && !reg.more {
			continue
		}
		if !reg.more && slices.ContainsFunc(reg.devices, func(r model.Device) bool { return r.Index == d.Index }) {
			d.Index, next, moved = next, next+1, true
		}
		out.Devices = append(out.Devices, d)
	}
	for _, d := range reg.devices {
		if reg.more {
			d.Index, next = next, next+1
		} else if before := known(n, d); before != nil {
			d.Health, d.Cordoned = max(d.Health, before.Health), d.Cordoned || before.Cordoned
		}
		out.Devices = append(out.Devices, d)
	}
	slices.SortStableFunc(out.Devices, func(a, b model.Device) int { return cmp.Compare(a.Index, b.Index) })
	if reg.more || len(out.Devices) == len(n.Devices) && !moved {
		out.Links = n.Links // the same devices, described better
	}
	out.Attributes = append(slices.Clone(n.Attributes), reg.attributes...)
	slices.SortFunc(out.Attributes, func(a, b model.Attribute) int { return cmp.Compare(a.Key, b.Key) })
	if reg.sellable > 0 {
		out.Sellable[vendor] = reg.sellable
	}
	return out
}

// nextIndex is the first index above those of devices.
func nextIndex(devices []model.Device) (next int) {
	for _, d := range devices {
		next = max(next, d.Index+1)
	}
	return next
}

// known is a device as an earlier family reported it, or nil: what one family calls unhealthy or cordoned stays so.
func known(n *model.Node, d model.Device) *model.Device {
	for i := range n.Devices {
		o := &n.Devices[i]
		if o.Vendor == d.Vendor && (o.UUID != "" && o.UUID == d.UUID || (o.UUID == "" || d.UUID == "") && o.Index == d.Index) {
			return o
		}
	}
	return nil
}

// equalDevices are cards of which only number and memory are known; labels tell the rest where they can.
func equalDevices(node *v1.Node, vendor model.Vendor, count int, memory model.MiB) *registration {
	if memory == 0 {
		memory, _ = labelledMemory(node, vendor, count)
	}
	reg := &registration{sellable: count}
	for i := range count {
		reg.devices = append(reg.devices, model.Device{Index: i, Vendor: vendor, Model: labelledModel(node, vendor), Memory: memory, NUMA: model.NUMAUnknown})
	}
	return reg
}

// equalCards are NVIDIA's cards of which their number is known, and the memory of all of them
// together, in units of so many MiB; none when the number is impossible.
func equalCards(node *v1.Node, cards, memory, unit int64) (*registration, error) {
	if cards == 0 || cards > maxCount {
		return nil, nil
	}
	return equalDevices(node, model.NVIDIA, int(cards), model.MiB(memory/cards*unit)), nil
}

// base is what both sources share.
func base(node *v1.Node, shared replicas) *model.Node {
	n := &model.Node{ID: model.NodeID(node.Name), Sellable: map[model.Vendor]int{}, Domains: topology.DefaultLevels().Path(node.Labels)}
	for _, key := range attributeLabels {
		if value, ok := node.Labels[key]; ok {
			n.Attributes = append(n.Attributes, model.Attribute{Key: key, Value: value})
		}
	}
	for _, w := range whole {
		most := int64(model.MaxDevices)
		if w.Vendor == model.NVIDIA {
			most *= int64(shared.asWhole()) // counted once for every turn
		}
		if q, ok := node.Status.Allocatable[v1.ResourceName(w.Name)]; ok && q.Sign() > 0 {
			n.Sellable[w.Vendor] = int(min(q.Value(), most))
		}
	}
	return n
}

// fromLabels derives devices from what any cluster has: allocatable, the labels of GPU Feature
// Discovery and of the seeds. Devices get indexes but no UUIDs.
func fromLabels(node *v1.Node) (*model.Node, error) {
	turns := replicasOf(node)
	n := base(node, turns)
	var problem error
	for _, w := range whole {
		shared := replicas{}
		count := n.Sellable[w.Vendor]
		if w.Vendor == model.NVIDIA {
			if shared = turns; shared.turns > 0 {
				count = shared.cards
			}
		}
		if count = min(count, model.MaxDevices-len(n.Devices)); count == 0 {
			continue
		}
		memory, err := labelledMemory(node, w.Vendor, count)
		if err != nil {
			problem = err
		}
		var indexes []int
		for _, d := range equalDevices(node, w.Vendor, count, memory).devices {
			d.Index = len(n.Devices)
			shared.apply(&d)
			n.Devices = append(n.Devices, d)
			indexes = append(indexes, d.Index)
		}
		if node.Labels[names.LabelInterconnect] == "nvlink" && count > 1 {
			n.Links = append(n.Links, model.Link{Between: indexes, Class: model.NVLink, Count: 1})
		}
	}
	return n, problem
}

// labelledModel is the GPU model a node's labels name.
func labelledModel(node *v1.Node, v model.Vendor) model.GPUModel {
	product := map[model.Vendor]string{model.NVIDIA: names.LabelNVIDIAProduct, model.AMD: names.LabelAMDProduct}[v]
	return model.ParseModel(cmp.Or(node.Labels[product], node.Labels[names.LabelAccelerator]))
}

// labelledMemory is the memory of each device: GPU Feature Discovery's label in
// MiB, the seeds' label as a quantity, or the seeds' node resource shared out.
func labelledMemory(node *v1.Node, v model.Vendor, count int) (model.MiB, error) {
	if value := node.Labels[names.LabelNVIDIAMemory]; value != "" && v == model.NVIDIA {
		mib, err := strconv.ParseInt(value, 10, 64)
		if err == nil && mib > 0 {
			return model.MiB(mib), nil
		}
		return 0, fmt.Errorf("node %q: metadata.labels[%s]: %q is not an amount of MiB", node.Name, names.LabelNVIDIAMemory, value)
	}
	if value := node.Labels[names.LabelGPUMemory]; value != "" {
		q, err := ParseQuantity(value)
		if err == nil && q.Value() >= leastMemory {
			return model.MiB(q.Value() >> 20), nil
		}
		return 0, fmt.Errorf("node %q: metadata.labels[%s]: %q is not an amount of memory like 32Gi", node.Name, names.LabelGPUMemory, value)
	}
	if q, ok := node.Status.Allocatable[names.ResourceGPUMemory]; ok && v == model.NVIDIA {
		return model.MiB(q.Value() / int64(count) >> 20), nil
	}
	return 0, nil
}
