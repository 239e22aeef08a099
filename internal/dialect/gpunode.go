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
// kubelet's word. The error names what had to be left out.
func fromGPUNode(node *v1.Node, gn *v1alpha1.GPUNode) (*model.Node, error) {
	var problem error
	note := func(err error) {
		if problem == nil {
			problem = err
		}
	}
	n := base(node)
	for i, d := range gn.Spec.Devices {
		device := deviceFrom(node, &d)
		if d.MIG != nil { // the agent turns MIG mode on and off as needed
			device.MIG, device.MIGSlices = cuts(device, d.MIG)
			if len(d.MIG.Instances) > 0 {
				var err error
				if device.MIG, err = existing(device, d.MIG.Instances); err != nil {
					note(fmt.Errorf("spec.devices[%d].mig.%w", i, err))
				}
				device.Fixed, device.Replicated = true, false // instances are sold one by one
			}
		}
		n.Devices = append(n.Devices, device)
	}
	slices.SortStableFunc(n.Devices, func(a, b model.Device) int { return cmp.Compare(a.Index, b.Index) })
	for i, l := range gn.Spec.Links {
		class, ok := linkClasses[l.Class]
		if !ok {
			note(fmt.Errorf("spec.links[%d].class: %q is not a class", i, l.Class))
			continue
		}
		between := make([]int, len(l.Between))
		for j, index := range l.Between {
			between[j] = int(index)
			if !slices.ContainsFunc(n.Devices, func(d model.Device) bool { return d.Index == int(index) }) {
				note(fmt.Errorf("spec.links[%d].between: no device has index %d", i, index))
				ok = false
			}
		}
		if ok {
			n.Links = append(n.Links, model.Link{Between: between, Class: class, Count: int(l.Count)})
		}
	}
	addPublished(n, node)
	note(setHealth(n, gn))
	return n, problem
}

// deviceFrom is a device as a GPUNode lists it, with what the node's labels say of
// sharing, but for its cuts.
func deviceFrom(node *v1.Node, d *v1alpha1.Device) model.Device {
	out := model.Device{
		Index: int(d.Index), UUID: d.UUID, Vendor: model.Vendor(d.Vendor), Model: model.ParseModel(d.Model),
		Memory: model.MiB(d.MemoryMiB), NUMA: model.NUMAUnknown,
	}
	if d.NUMA != nil {
		out.NUMA = int(*d.NUMA)
	}
	switch out.Vendor {
	case model.Ascend:
		out.Model = ascendModel(d.Model)
	case model.NVIDIA:
		// One replica means that the device is not time-sliced.
		if n := labelNumber(node, replicasLabel); n > 1 {
			out.Tenants = int(min(n, model.MaxDevices))
		}
		replicasOf(node).apply(&out)
	}
	return out
}

// setHealth marks the devices of which a GPUNode says that they are not healthy. It
// does so for devices that came from elsewhere too: whatever else the GPUNode gets
// wrong, a sick device must not be used. The error names an entry that is about no
// device or says no known state; the latter counts as failed.
func setHealth(n *model.Node, gn *v1alpha1.GPUNode) error {
	var problem error
	for i, s := range gn.Status.Devices {
		if !slices.ContainsFunc(gn.Spec.Devices, func(d v1alpha1.Device) bool { return d.Index == s.Index }) && problem == nil {
			problem = fmt.Errorf("status.devices[%d].index: no device has index %d", i, s.Index)
		}
		if s.UUID != "" && !slices.ContainsFunc(gn.Spec.Devices, func(d v1alpha1.Device) bool { return d.UUID == s.UUID }) {
			continue // of a card that was replaced
		}
		health, known := healths[s.Health]
		if !known {
			health = model.Failed
			if problem == nil {
				problem = fmt.Errorf("status.devices[%d].health: %q is not a state", i, s.Health)
			}
		}
		for j := range n.Devices {
			d := &n.Devices[j]
			same := d.Index == int(s.Index)
			if s.UUID != "" && d.UUID != "" {
				same = s.UUID == d.UUID
			}
			if same {
				d.Health = max(d.Health, health)
			}
		}
	}
	return problem
}

// addPublished adds to a GPUNode's inventory what device plugins of other families
// publish on the node: cards that are unhealthy or cordoned, the sharing modes they
// offer, and how many whole cards they sell where allocatable does not say.
func addPublished(n *model.Node, node *v1.Node) {
	for _, v := range vocabularies {
		if v.devices == nil {
			continue
		}
		reg, err := v.devices(node)
		if err != nil || reg == nil || reg.more || len(reg.devices) == 0 {
			continue // not needed: the GPUNode has the devices
		}
		for _, sick := range reg.devices {
			for i := range n.Devices {
				if d := &n.Devices[i]; sick.UUID != "" && sick.UUID == d.UUID {
					d.Health = max(d.Health, sick.Health)
				}
			}
		}
		n.Attributes = append(n.Attributes, reg.attributes...)
		if vendor := reg.devices[0].Vendor; n.Sellable[vendor] == 0 {
			n.Sellable[vendor] = reg.sellable
		}
	}
	slices.SortFunc(n.Attributes, func(a, b model.Attribute) int { return cmp.Compare(a.Key, b.Key) })
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

// existing are the profiles of instances that exist, with the starts they have. On
// error none are: what cannot be understood is not sold.
func existing(d model.Device, instances []v1alpha1.MIGInstance) ([]model.MIGProfile, error) {
	var out []model.MIGProfile
	g, err := mig.New(d.MIGSlices, d.MIG)
	if err != nil {
		return nil, fmt.Errorf("instances: no profiles are known of the device: %w", err)
	}
	state := mig.State{}
	for i, in := range instances {
		at := g.Find(in.Profile)
		if in.ProfileID != nil {
			at = slices.IndexFunc(d.MIG, func(p model.MIGProfile) bool { return p.ID == int(*in.ProfileID) })
		}
		if at < 0 {
			return nil, fmt.Errorf("instances[%d].profile: the device has no profile %q", i, in.Profile)
		}
		next, ok := g.Take(state, at, int(in.Start))
		if !ok {
			return nil, fmt.Errorf("instances[%d].start: %s cannot be at %d, beside those before it", i, in.Profile, in.Start)
		}
		state = next
		p := d.MIG[at]
		j := slices.IndexFunc(out, func(o model.MIGProfile) bool { return o.ID == p.ID })
		if j < 0 {
			p.Starts = nil
			out = append(out, p)
			j = len(out) - 1
		}
		out[j].Starts = append(out[j].Starts, int(in.Start))
	}
	for i := range out {
		slices.Sort(out[i].Starts)
	}
	return out, nil
}

// checkUUIDs finds what older rules of the CRD let in: a UUID goes into records,
// which allow no other characters.
func checkUUIDs(gn *v1alpha1.GPUNode) error {
	for i, d := range gn.Spec.Devices {
		if !recordable(d.UUID) {
			return fmt.Errorf("spec.devices[%d].uuid: %q may hold 128 letters, digits and -_.:/ only", i, d.UUID)
		}
	}
	return nil
}

// recordable says whether a record can name a device's UUID.
func recordable(uuid string) bool {
	return len(uuid) <= 128 && strings.Trim(uuid, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._:/-") == ""
}
