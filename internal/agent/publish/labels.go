package publish

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	v1 "k8s.io/api/core/v1"

	"github.com/tangram-dev/tangram/api/names"
	"github.com/tangram-dev/tangram/api/nodelabels"
	"github.com/tangram-dev/tangram/api/v1alpha1"
	"github.com/tangram-dev/tangram/internal/agent/device"
)

// Labels of GPU Feature Discovery and Node Feature Discovery beside those of api/names.
const (
	nvidia       = "nvidia.com/"
	pciPresent   = "feature.node.kubernetes.io/pci-10de.present"
	sharedSuffix = "-SHARED"
)

// labelsOf are the labels that describe a node's devices. Where models differ they are
// those of the model of most devices (the lowest index among equals): a label has one
// value, and what is true of each device is in the GPUNode. What another device plugin
// decides (replicas, strategies) is said only where this agent serves or knows it.
func labelsOf(o *Options, inv *device.Inventory) map[string]string {
	out := map[string]string{}
	if inv == nil || len(inv.Devices) == 0 {
		return out
	}
	d, count := mostFrequent(inv)
	out[names.LabelAccelerator] = nodelabels.Accelerator(d.Vendor, d.Model)
	out[names.LabelGPUCount] = strconv.Itoa(count)
	out[names.LabelGPUMemory] = nodelabels.Memory(d.MemoryMiB)
	var classes []string
	for _, l := range inv.Links {
		classes = append(classes, l.Class)
	}
	out[names.LabelInterconnect] = nodelabels.Interconnect(classes...)
	switch d.Vendor {
	case "nvidia":
		nvidiaLabels(out, o, inv, d, count)
	case "amd":
		out[names.LabelAMDProduct] = nodelabels.Value(d.Model)
	}
	maps.DeleteFunc(out, func(_, value string) bool { return value == "" })
	return out
}

// mostFrequent is a device of the model that most devices have, and how many have it.
func mostFrequent(inv *device.Inventory) (*device.Device, int) {
	count := map[string]int{}
	for i := range inv.Devices {
		count[inv.Devices[i].Model]++
	}
	best := &inv.Devices[0]
	for i := range inv.Devices {
		if d := &inv.Devices[i]; count[d.Model] > count[best.Model] {
			best = d
		}
	}
	return best, count[best.Model]
}

func nvidiaLabels(out map[string]string, o *Options, inv *device.Inventory, d *device.Device, count int) {
	out[pciPresent] = "true"
	product := nodelabels.Value(d.Model)
	out[nvidia+"gpu.machine"] = nodelabels.Value(o.Machine)
	out[nvidia+"gpu.family"] = family(d)
	out[nvidia+"gpu.clique"] = clique(d.Fabric)
	if major, minor, ok := strings.Cut(d.ComputeCapability, "."); ok {
		out[nvidia+"gpu.compute.major"], out[nvidia+"gpu.compute.minor"] = nodelabels.Value(major), nodelabels.Value(minor)
	}
	out[nvidia+"mig.capable"] = strconv.FormatBool(d.MIG != nil)
	versions(out, nvidia+"cuda.driver-version.", inv.Driver, "major", "minor", "revision")
	versions(out, nvidia+"cuda.runtime-version.", inv.CUDA, "major", "minor")
	out[names.LabelNVIDIACount] = strconv.Itoa(count)
	out[names.LabelNVIDIAMemory] = strconv.FormatInt(d.MemoryMiB, 10)
	if s := o.Sharing; s != nil || o.Mode == v1alpha1.Serving {
		replicas, strategy := sharing(s)
		if replicas > 1 && !s.Renamed {
			product += sharedSuffix
		}
		if replicas == 1 && allCut(inv) {
			replicas = 0
		}
		out[nvidia+"gpu.replicas"], out[nvidia+"gpu.sharing-strategy"] = strconv.Itoa(replicas), strategy
		out[nvidia+"mps.capable"] = strconv.FormatBool(strategy == "mps")
		out[nvidia+"mig.strategy"] = o.MIGStrategy
	}
	out[names.LabelNVIDIAProduct] = product
	switch o.MIGStrategy {
	case "mixed":
		mixedLabels(out, inv)
	case "single":
		singleLabels(out, inv, product)
	}
}

// sharing is how many replicas of a device are sold, and how, in the words of GPU
// Feature Discovery.
func sharing(s *v1alpha1.Sharing) (replicas int, strategy string) {
	if s == nil || s.Replicas == 0 {
		return 1, "none"
	}
	if s.Strategy == v1alpha1.MPS {
		return int(s.Replicas), "mps"
	}
	return int(s.Replicas), "time-slicing"
}

// allCut says whether all devices are in MIG mode.
func allCut(inv *device.Inventory) bool {
	return !slices.ContainsFunc(inv.Devices, func(d device.Device) bool { return d.MIG == nil || !d.MIG.Enabled })
}

// versions are the parts of a version such as 580.159.03, and all of it.
func versions(out map[string]string, prefix, version string, parts ...string) {
	if version == "" {
		return
	}
	for i, part := range strings.SplitN(version, ".", len(parts)) {
		out[prefix+parts[i]] = nodelabels.Value(part)
	}
	out[prefix+"full"] = nodelabels.Value(version)
}

// mixedLabels describe existing instances of each profile.
func mixedLabels(out map[string]string, inv *device.Inventory) {
	count := map[string]int{}
	for i := range inv.Devices {
		d := &inv.Devices[i]
		if d.MIG == nil {
			continue
		}
		for _, in := range d.MIG.Instances {
			count[in.Profile]++
			prefix := nvidia + "mig-" + nodelabels.Value(strings.ReplaceAll(in.Profile, "+", "."))
			if at := slices.IndexFunc(d.MIG.Profiles, func(p device.Profile) bool { return p.ID == in.ProfileID }); at >= 0 {
				p := d.MIG.Profiles[at]
				out[prefix+".multiprocessors"], out[prefix+".slices.gi"], out[prefix+".slices.ci"] = strconv.Itoa(p.SMs), strconv.Itoa(p.ComputeSlices), strconv.Itoa(p.ComputeSlices)
			}
			out[prefix+".count"] = strconv.Itoa(count[in.Profile])
			out[prefix+".memory"] = strconv.FormatInt(in.MemoryMiB, 10)
			out[prefix+".product"] = nodelabels.Value(d.Model + "-MIG-" + in.Profile)
			out[prefix+".replicas"], out[prefix+".sharing-strategy"] = "1", "none"
		}
	}
}

// singleLabels describe a node whose devices are all cut into equal instances, which are
// sold as GPUs.
func singleLabels(out map[string]string, inv *device.Inventory, product string) {
	if !allCut(inv) {
		return
	}
	var all []device.Instance
	for i := range inv.Devices {
		all = append(all, inv.Devices[i].MIG.Instances...)
	}
	if len(all) == 0 || slices.ContainsFunc(all, func(in device.Instance) bool { return in.Profile != all[0].Profile }) {
		return
	}
	out[names.LabelNVIDIAProduct] = nodelabels.Value(product + "-MIG-" + all[0].Profile)
	out[names.LabelNVIDIACount] = strconv.Itoa(len(all))
	out[names.LabelNVIDIAMemory] = strconv.FormatInt(all[0].MemoryMiB, 10)
}

// family is the architecture in the words of GPU Feature Discovery.
func family(d *device.Device) string {
	major, _, _ := strings.Cut(d.ComputeCapability, ".")
	switch {
	case major == "10" || major == "12":
		return "blackwell"
	case major == "13":
		return "rubin"
	case d.ComputeCapability == "7.5":
		return "turing"
	case d.ComputeCapability == "8.9":
		return "ada-lovelace"
	}
	return map[string]string{"3": "kepler", "5": "maxwell", "6": "pascal", "7": "volta", "8": "ampere", "9": "hopper"}[major]
}

// clique is an NVLink domain as a label value; one that is none is left out.
func clique(fabric string) string {
	if fabric == "" || nodelabels.Value(fabric) != fabric {
		return ""
	}
	return fabric
}

// ours says whether a label is of a family that the agent writes.
func ours(key string) bool {
	switch key {
	case names.LabelAccelerator, names.LabelGPUCount, names.LabelGPUMemory, names.LabelInterconnect, names.LabelAMDProduct, pciPresent:
		return true
	}
	return strings.HasPrefix(key, nvidia)
}

// patchLabels is the change of a node's labels; empty when there is none. The rule:
//
//   - A label that is missing is set, and one that has the wanted value is left.
//   - A label with another value is changed if this agent set it: the API server knows
//     that (managedFields; of objects that were created empty it does not, and then
//     the agent's own memory counts). So a label follows the hardware, also after a
//     restart.
//   - A label that another program set, GPU Feature Discovery or an operator, is theirs and
//     stays. Where this agent serves, NVIDIA's labels are the device plugin's to write:
//     it takes them over, each once in its life; if they are written back, they stay.
//   - A label that this agent set and that is no longer true is removed.
//
// taken are the labels that were taken over, and grows; wrote are the values that were
// written before.
func patchLabels(node *v1.Node, want map[string]string, serves bool, taken map[string]bool, wrote map[string]string) map[string]any {
	patch := map[string]any{}
	mine := managed(node)
	for key, value := range wrote {
		if have, there := node.Labels[key]; there && have == value {
			mine[key] = true
		}
	}
	for key, value := range want {
		have, there := node.Labels[key]
		switch {
		case there && have == value:
		case !there || mine[key]:
			patch[key] = value
		case serves && strings.HasPrefix(key, nvidia) && !taken[key]:
			taken[key] = true
			patch[key] = value
		}
	}
	for key := range node.Labels {
		if _, wanted := want[key]; !wanted && mine[key] && ours(key) {
			patch[key] = nil
		}
	}
	return patch
}

// managed are the labels of a node that the agent has set and no other program has changed
// since.
func managed(node *v1.Node) map[string]bool {
	out := map[string]bool{}
	for _, entry := range node.ManagedFields {
		if entry.Manager != Manager || entry.FieldsV1 == nil {
			continue
		}
		var fields struct {
			Metadata struct {
				Labels map[string]json.RawMessage `json:"f:labels"`
			} `json:"f:metadata"`
		}
		if err := json.Unmarshal(entry.FieldsV1.GetRawBytes(), &fields); err != nil {
			continue
		}
		for key := range fields.Metadata.Labels {
			out[strings.TrimPrefix(key, "f:")] = true
		}
	}
	return out
}

// nodePatch is a merge patch of labels. The UID in it makes sure that it is not another
// node of the same name.
func nodePatch(node *v1.Node, labels map[string]any) ([]byte, error) {
	if node.UID == "" {
		return nil, fmt.Errorf("node %s has no UID", node.Name)
	}
	return json.Marshal(map[string]any{"metadata": map[string]any{"uid": node.UID, "labels": labels}})
}
