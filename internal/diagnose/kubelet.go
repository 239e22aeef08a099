package diagnose

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/tangram-dev/tangram/api/names"
	"github.com/tangram-dev/tangram/api/nodelabels"
	"github.com/tangram-dev/tangram/core/model"
	"github.com/tangram-dev/tangram/internal/dialect"
)

// plugin: kubelet has GPUs from a device plugin.
func plugin(f *Facts) Result {
	var x finding
	do := "kubectl get pods -A -o wide --field-selector spec.nodeName=" + f.Node.Name + "; on the node: journalctl -u kubelet | grep -i device"
	for _, p := range f.Plugins {
		switch {
		case p.Waiting != "":
			x.add(Fail, "kubectl logs of "+p.Name, "device plugin %s waits: %s, %d restarts", p.Name, p.Waiting, p.Restarts)
		case !p.Ready:
			x.add(Fail, "kubectl logs of "+p.Name, "device plugin %s is not ready", p.Name)
		}
	}
	if f.GPUs != nil && f.GPUs.Serving && len(f.Plugins) > 0 {
		x.add(Fail, "remove one of them from the node: kubelet believes whichever registered last", "the agent serves, and so does %s", f.Plugins[0].Name)
	}
	switch {
	case f.sells():
		server := "a device plugin outside Kubernetes' pods"
		if f.GPUs != nil && f.GPUs.Serving {
			server = "gpu-agent"
		} else if len(f.Plugins) > 0 {
			server = f.Plugins[0].Name
		}
		return x.result("kubelet offers " + amounts(f.Node.Capacity) + ", from " + server)
	case f.GPUs != nil && len(f.GPUs.Devices) > 0 && len(f.Slices) > 0:
		return x.result("kubelet offers no extended resource of GPUs; they are offered as ResourceSlices")
	case f.GPUs != nil && len(f.GPUs.Devices) > 0:
		x.add(Fail, do+"; start a device plugin, or run the agent with --mode=serve", "kubelet offers no GPU, and the driver sees %d: pods cannot ask for them", len(f.GPUs.Devices))
	default:
		x.add(Unknown, do, "kubelet offers no GPU, and no agent says whether the node has any")
	}
	return x.result("")
}

func amounts(list map[string]int64) string {
	var parts []string
	for _, name := range slices.Sorted(maps.Keys(list)) {
		parts = append(parts, fmt.Sprintf("%s: %d", name, list[name]))
	}
	return cmp.Or(strings.Join(parts, ", "), "no GPU")
}

// capacity: what kubelet offers is what the GPUNode has.
func capacity(f *Facts) Result {
	var x finding
	do := "restart the device plugin; on the node: nvidia-smi -L; kubectl describe node " + f.Node.Name
	want, healthy := map[string]int64{}, map[string]int64{}
	for _, d := range f.GPUs.Devices {
		name := string(dialect.ResourceOf(model.Vendor(d.Vendor)))
		if name == "" || d.Cut {
			continue // sold by product, or in slices: the check mig
		}
		each := int64(1)
		if f.GPUs.Replicas > 1 {
			each = int64(f.GPUs.Replicas)
			if f.GPUs.Renamed {
				name += ".shared"
			}
		}
		want[name] += each
		if severity(d) == OK {
			healthy[name] += each
		}
	}
	if !f.sells() {
		if len(want) == 0 || len(f.Slices) > 0 {
			return x.result("kubelet offers none, as the check plugin says")
		}
		return unknown("kubelet offers no GPU: see the check plugin")
	}
	for _, name := range slices.Sorted(maps.Keys(want)) {
		have, offered := f.Node.Capacity[name], f.Node.Allocatable[name]
		labelled, _ := strconv.ParseInt(f.Node.Labels["nvidia.com/gpu.replicas"], 10, 64)
		switch {
		case have == want[name] || labelled > 1 && have == want[name]*labelled:
		case have == 0:
			x.add(Fail, do, "kubelet offers no %s, the GPUNode has %d", name, want[name])
		case have < want[name]:
			x.add(Fail, do, "kubelet offers %d %s, the GPUNode has %d: devices are missing in the plugin", have, name, want[name])
		default:
			x.add(Warn, "a device is gone, or devices are sold in turns that no label tells (nvidia.com/gpu.replicas); "+do, "kubelet offers %d %s, the GPUNode has %d", have, name, want[name])
		}
		if labelled <= 1 && offered < min(have, healthy[name]) {
			x.add(Warn, "the device plugin calls devices unhealthy that the agent does not: look at its log", "%d of %d %s are allocatable, %d are healthy", offered, have, name, healthy[name])
		}
	}
	return x.result("as the GPUNode says: " + amounts(want))
}

// labels: those that describe GPUs say what the GPUNode says.
func labels(f *Facts) Result {
	if f.GPUs == nil || len(f.GPUs.Devices) == 0 {
		if f.Node.Labels[names.LabelNVIDIAProduct] == "" && f.Node.Labels[names.LabelAccelerator] == "" && f.sells() {
			return Result{State: Warn, Seen: "no label says which GPUs the node has", Do: "run gpu-agent, or GPU Feature Discovery; or kubectl label node " + f.Node.Name + " accelerator=nvidia-a100"}
		}
		return noGPUNode()
	}
	// Where models differ, labels describe the most frequent.
	byModel := map[string]int{}
	for _, d := range f.GPUs.Devices {
		byModel[d.Model]++
	}
	best := slices.MaxFunc(f.GPUs.Devices, func(a, b Device) int { return byModel[a.Model] - byModel[b.Model] })
	want := map[string]string{
		names.LabelAccelerator: nodelabels.Accelerator(best.Vendor, best.Model),
		names.LabelGPUCount:    itoa(byModel[best.Model]),
	}
	if best.Vendor == "nvidia" {
		want[names.LabelNVIDIAProduct] = nodelabels.Value(best.Model)
		want[names.LabelNVIDIACount] = itoa(byModel[best.Model])
		want[names.LabelNVIDIAMemory] = strconv.FormatInt(best.MemoryMiB, 10)
	}
	var x finding
	for _, key := range slices.Sorted(maps.Keys(want)) {
		have, there := f.Node.Labels[key]
		switch {
		case !there:
			x.add(Warn, "the agent writes it: look at its log; pods that select by it do not come here", "label %s is missing, %s is true", key, want[key])
		case have == want[key], key == names.LabelNVIDIAProduct && strings.HasPrefix(have, want[key]):
		case key == names.LabelNVIDIAMemory && near(have, best.MemoryMiB):
		default:
			x.add(Warn, "kubectl label node "+f.Node.Name+" "+key+"-, and the agent writes it anew; it leaves labels of others alone", "label %s is %q, %q is true", key, have, want[key])
		}
	}
	if len(byModel) > 1 {
		x.add(OK, "", "%d models on one node: labels describe the %d of %s", len(byModel), byModel[best.Model], best.Model)
	}
	return x.result(fmt.Sprintf("%d labels say what the GPUNode says", len(want)))
}

// near: programs round a device's memory differently.
func near(label string, mib int64) bool {
	n, err := strconv.ParseInt(label, 10, 64)
	return err == nil && n*100 > mib*95 && n*95 < mib*100
}
