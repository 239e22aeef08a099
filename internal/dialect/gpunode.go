package dialect

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"

	"github.com/tangram-dev/tangram/api/v1alpha1"
	"github.com/tangram-dev/tangram/core/mig"
	"github.com/tangram-dev/tangram/core/model"
)

var linkClasses = map[v1alpha1.LinkClass]model.LinkClass{
	"SYS": model.SYS, "NODE": model.NODE, "PHB": model.PHB, "PXB": model.PXB, "PIX": model.PIX,
	"NVLink": model.NVLink, "NVSwitch": model.NVSwitch,
}

var healths = map[v1alpha1.Health]model.Health{
	v1alpha1.Healthy: model.Healthy, v1alpha1.Suspect: model.Suspect, v1alpha1.Degraded: model.Degraded, v1alpha1.Failed: model.Failed,
}

// fromGPUNode takes the devices from a GPUNode; how many may be sold is still
// kubelet's word.
func fromGPUNode(node *v1.Node, gn *v1alpha1.GPUNode) *model.Node {
	n := base(node)
	states := map[int32]v1alpha1.DeviceStatus{}
	for _, s := range gn.Status.Devices {
		states[s.Index] = s
	}
	for _, d := range gn.Spec.Devices {
		numa := model.NUMAUnknown
		if d.NUMA != nil {
			numa = int(*d.NUMA)
		}
		device := model.Device{
			Index: int(d.Index), UUID: d.UUID, Vendor: model.Vendor(d.Vendor), Model: model.ParseModel(d.Model),
			Memory: model.MiB(d.MemoryMiB), NUMA: numa,
		}
		if s := states[d.Index]; s.UUID == "" || s.UUID == d.UUID { // else of a card that was replaced
			device.Health = healths[s.Health]
		}
		// One replica means that the device is not time-sliced.
		if n := labelNumber(node, replicasLabel); n > 1 {
			device.Tenants = int(min(n, model.MaxDevices))
		}
		if d.MIG != nil { // the agent turns MIG mode on and off as needed
			device.MIG, device.MIGSlices = cuts(device, d.MIG)
		}
		n.Devices = append(n.Devices, device)
	}
	slices.SortStableFunc(n.Devices, func(a, b model.Device) int { return cmp.Compare(a.Index, b.Index) })
	for _, l := range gn.Spec.Links {
		between := make([]int, len(l.Between))
		for i, index := range l.Between {
			between[i] = int(index)
		}
		n.Links = append(n.Links, model.Link{Between: between, Class: linkClasses[l.Class], Count: int(l.Count)})
	}
	return n
}

// cuts are the MIG profiles of a device: what its GPUNode lists (NVML's own words),
// else the catalog's for its model.
func cuts(d model.Device, m *v1alpha1.MIG) ([]model.MIGProfile, int) {
	if len(m.Profiles) == 0 {
		if g := mig.Lookup(d.Model, d.Memory); g != nil {
			return g.Profiles(), g.Slices()
		}
		return nil, 0
	}
	var out []model.MIGProfile
	memorySlices := 0
	for _, p := range m.Profiles {
		starts := make([]int, len(p.Starts))
		for i, s := range p.Starts {
			starts[i] = int(s)
			memorySlices = max(memorySlices, int(s+p.Size))
		}
		out = append(out, model.MIGProfile{ID: int(p.ID), Name: p.Name, Memory: model.MiB(p.MemoryMiB), Size: int(p.Size), Starts: starts, Media: strings.HasSuffix(p.Name, "+me")})
	}
	return out, memorySlices
}

// checkGPUNode finds what the CRD's own rules cannot (status and spec are written
// by different requests, so no rule sees both), and what older rules let in.
func checkGPUNode(gn *v1alpha1.GPUNode) error {
	for i, d := range gn.Spec.Devices {
		// A UUID goes into records, which allow no other characters.
		if strings.Trim(d.UUID, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._:/-") != "" {
			return fmt.Errorf("spec.devices[%d].uuid: %q may hold letters, digits and -_.:/ only", i, d.UUID)
		}
	}
	for i, s := range gn.Status.Devices {
		if !slices.ContainsFunc(gn.Spec.Devices, func(d v1alpha1.Device) bool { return d.Index == s.Index }) {
			return fmt.Errorf("status.devices[%d].index: no device has index %d", i, s.Index)
		}
		if _, ok := healths[s.Health]; !ok {
			return fmt.Errorf("status.devices[%d].health: %q is not a state", i, s.Health)
		}
	}
	for i, l := range gn.Spec.Links {
		if _, ok := linkClasses[l.Class]; !ok {
			return fmt.Errorf("spec.links[%d].class: %q is not a class", i, l.Class)
		}
	}
	return nil
}
