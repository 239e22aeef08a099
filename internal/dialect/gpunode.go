package dialect

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	v1 "k8s.io/api/core/v1"

	"github.com/tangram-dev/tangram/api/names"
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

// fromGPUNode takes the devices from a GPUNode; allocatable says how many are sold. The error names what was ignored.
func fromGPUNode(node *v1.Node, gn *v1alpha1.GPUNode) (*model.Node, error) {
	var problem error
	note := func(err error) {
		if problem == nil {
			problem = err
		}
	}
	shared, err := sharedBy(node, gn)
	note(err)
	n := base(node, shared)
	for i, d := range gn.Spec.Devices {
		device := deviceFrom(&d)
		if d.MIG != nil {
			if err := cut(&device, d.MIG, gn); err != nil {
				note(fmt.Errorf("spec.devices[%d].mig.%w", i, err))
			}
		}
		if device.Vendor == model.NVIDIA {
			shared.apply(&device)
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
	addPublished(n, node, serves(gn))
	note(setHealth(n, gn))
	note(setCordons(n, gn))
	return n, problem
}

// deviceFrom is a device as a GPUNode lists it, but for its cuts and how it is shared.
func deviceFrom(d *v1alpha1.Device) model.Device {
	out := model.Device{
		Index: int(d.Index), UUID: d.UUID, Vendor: model.Vendor(d.Vendor), Model: model.ParseModel(d.Model),
		Memory: model.MiB(d.MemoryMiB), NUMA: model.NUMAUnknown,
	}
	if d.NUMA != nil {
		out.NUMA = int(*d.NUMA)
	}
	if out.Vendor == model.Ascend {
		out.Model = ascendModel(d.Model)
	}
	return out
}

// cut sets how a device can be cut, and whether it is sold in no other way. An agent that serves cuts
// devices for pods, so only instances that it did not make stay. Beside an agent that observes,
// devices are not cut.
func cut(d *model.Device, m *v1alpha1.MIG, gn *v1alpha1.GPUNode) error {
	d.MIG, d.MIGSlices = cuts(*d, m)
	stays := slices.ContainsFunc(m.Instances, func(in v1alpha1.MIGInstance) bool { return !in.Owned || !serves(gn) })
	switch {
	case stays:
		d.Fixed = true // instances are sold one by one
		var err error
		d.MIG, err = existing(*d, m.Instances)
		return err
	case gn.Spec.Agent != nil && gn.Spec.Agent.Mode == v1alpha1.Observing:
		d.MIG, d.MIGSlices, d.Fixed = nil, 0, m.Enabled
	}
	return nil
}

// setCordons marks the devices that operators, or gpu-controller (names.CordonedBy), keep
// new pods off, by index or UUID. The error names an entry that is no device of the GPUNode.
func setCordons(n *model.Node, gn *v1alpha1.GPUNode) error {
	var problem error
	for i, id := range gn.Spec.Cordoned {
		id = strings.TrimPrefix(id, names.CordonedBy)
		if problem == nil && !slices.ContainsFunc(gn.Spec.Devices, func(d v1alpha1.Device) bool { return id == d.UUID || id == strconv.Itoa(int(d.Index)) }) {
			problem = fmt.Errorf("spec.cordoned[%d]: no device has index or uuid %q", i, id)
		}
		for j := range n.Devices {
			if d := &n.Devices[j]; id != "" && (id == d.UUID || id == strconv.Itoa(d.Index)) {
				d.Cordoned = true
			}
		}
	}
	return problem
}

// setHealth marks the devices that a GPUNode reports as not healthy, also in an inventory from
// elsewhere: an unhealthy device must not be used even if the GPUNode is invalid. The error names an
// unknown device or state; an unknown state counts as failed.
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

// addPublished adds to a GPUNode's inventory what other device plugins publish on the node: cards that
// are unhealthy or cordoned, sharing modes, and how many whole cards they sell where neither
// allocatable nor an agent that serves says it.
func addPublished(n *model.Node, node *v1.Node, serves bool) {
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
					d.Health, d.Cordoned = max(d.Health, sick.Health), d.Cordoned || sick.Cordoned
				}
			}
		}
		n.Attributes = append(n.Attributes, reg.attributes...)
		if vendor := reg.devices[0].Vendor; n.Sellable[vendor] == 0 && !serves {
			n.Sellable[vendor] = reg.sellable
		}
	}
	slices.SortFunc(n.Attributes, func(a, b model.Attribute) int { return cmp.Compare(a.Key, b.Key) })
}

// cuts are the MIG profiles of a device: those its GPUNode lists (from NVML), else the catalog's for its model.
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

// existing are the profiles of existing instances, with their starts; on error none, so that none is sold.
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

// checkUUIDs finds UUIDs that older versions of the CRD accepted and a record cannot hold.
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
