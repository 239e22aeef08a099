package diagnose

import (
	"slices"
	"strings"
)

// node: the Node is ready.
func node(f *Facts) Result {
	var x finding
	n := &f.Node
	switch n.Ready {
	case "True":
	case "":
		x.add(Fail, "kubectl describe node "+n.Name, "the Node has no condition Ready: no kubelet has reported")
	default:
		x.add(Fail, "on the node: journalctl -u kubelet -n 100; systemctl status kubelet", "Ready is %s since %s: %s", n.Ready, strings.TrimSuffix(f.ago(n.ReadySince), " ago"), n.ReadyMessage)
	}
	for _, p := range n.Pressures {
		x.add(Warn, "kubectl describe node "+n.Name, "%s", p)
	}
	if n.ReadySince.IsZero() {
		return x.result("Ready")
	}
	return x.result("Ready since " + strings.TrimSuffix(f.ago(n.ReadySince), " ago"))
}

// cordons: nothing keeps pods off by intention.
func cordons(f *Facts) Result {
	var x finding
	n := &f.Node
	switch {
	case n.Isolated != "":
		x.add(Warn, "repair the cause, and do not uncordon the node: it is put back into service by itself when it is well", "gpu-controller has isolated the node: %s", n.Isolated)
		if n.OwnCordon {
			x.add(Warn, "kubectl uncordon "+n.Name+", when the node is well", "the node was cordoned before that, and stays so")
		}
	case n.Unschedulable:
		x.add(Warn, "kubectl uncordon "+n.Name, "the node is cordoned")
	}
	if n.Maintenance != "" {
		x.add(Warn, "kubectl annotate node "+n.Name+" tangram.dev/maintenance-", "maintenance: %s", n.Maintenance)
	}
	if f.GPUs == nil {
		return x.result("the node is not cordoned")
	}
	for _, entry := range f.GPUs.Cordoned {
		id, ours := strings.CutPrefix(entry, "gpu-controller:")
		if !hasDevice(f.GPUs, id) {
			x.add(Warn, uncordonDevice(n.Name), "spec.cordoned names %q, which no device of the node is", entry)
			continue
		}
		if ours {
			x.add(Warn, "it ends when the device's cause does; see the checks above", "gpu-controller has cordoned device %s", id)
		} else {
			x.add(Warn, uncordonDevice(n.Name), "device %s is cordoned", id)
		}
	}
	return x.result("neither the node nor a device is cordoned")
}

func uncordonDevice(node string) string {
	return "kubectl edit gpunode " + node + " and remove the entry of spec.cordoned"
}

func hasDevice(g *GPUs, id string) bool {
	return slices.ContainsFunc(g.Devices, func(d Device) bool { return d.UUID == id || id == itoa(d.Index) })
}
