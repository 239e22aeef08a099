package dra

import (
	"fmt"
	"slices"
	"strings"

	"github.com/tangram-dev/tangram/internal/agent/device"
)

// Driver is the driver's name, and the domain of its attributes.
const Driver = "gpu.tangram.dev"

// Part is what can be given to a claim: a GPU, or a place for a MIG instance on one.
type Part struct {
	// Name is the device's name in the pool, by NVIDIA's pattern: gpu-3, or
	// gpu-3-mig-1g18gb-19-4 for profile ID 19 at memory slice 4.
	Name string
	GPU  *device.Device
	// Profile is the MIG instance's; nil for the whole GPU.
	Profile *device.Profile
	Start   int
	// Instance is the UUID of an instance that another program has cut and that is given
	// as it is; empty otherwise.
	Instance string
	// Shares is how many claims may have the GPU at once, by amount; 0: one has all of it.
	Shares int
}

// Cuts say what the agent may do with a GPU.
type Cuts struct {
	// Shares is how many claims may have a GPU at once, by amounts of memory and compute;
	// 0: one has all of it.
	Shares int
	// OnDemand: instances are cut as claims need them.
	OnDemand bool
	// Instances are the UUIDs of instances, and Modes those of GPUs whose MIG mode, are
	// the agent's own making.
	Instances, Modes map[string]bool
}

// Parts are all that a node has to give, in the order of its GPUs. Only NVIDIA's: what
// else a simulated node has, no back end can hand out.
func Parts(inv *device.Inventory, cuts Cuts) (out []Part) {
	for i := range inv.Devices {
		out = append(out, cuts.of(&inv.Devices[i])...)
	}
	return out
}

// of are what one device has to give.
func (c Cuts) of(d *device.Device) (out []Part) {
	if d.Vendor != "" && d.Vendor != "nvidia" {
		return nil
	}
	whole := Part{Name: fmt.Sprintf("gpu-%d", d.Minor), GPU: d, Shares: c.Shares}
	if d.MIG == nil {
		return []Part{whole}
	}
	foreign := slices.ContainsFunc(d.MIG.Instances, func(i device.Instance) bool { return !c.Instances[i.UUID] })
	// The agent turns MIG mode off only where it turned it on; a GPU in that mode is not whole.
	if !d.MIG.Enabled || c.Modes[d.UUID] && !foreign {
		out = append(out, whole)
	}
	for i := range d.MIG.Profiles {
		p := &d.MIG.Profiles[i]
		for _, start := range p.Starts {
			part := Part{Name: whole.Name + "-mig-" + label(p.Name) + fmt.Sprintf("-%d-%d", p.ID, start), GPU: d, Profile: p, Start: start}
			k := slices.IndexFunc(d.MIG.Instances, func(i device.Instance) bool { return i.ProfileID == p.ID && i.Start == start && i.UUID != "" })
			switch {
			case k >= 0 && !c.Instances[d.MIG.Instances[k].UUID]:
				part.Instance = d.MIG.Instances[k].UUID
			case foreign && k < 0, !c.OnDemand && k < 0, d.MIG.Fixed && !d.MIG.Enabled:
				continue // it does not exist, and will not be cut
			}
			out = append(out, part)
		}
	}
	return out
}

// label is a profile's name as part of a device's: 1g18gb, 1g18gb-me.
func label(profile string) string {
	return strings.ToLower(strings.NewReplacer(".", "", "+", "-").Replace(profile))
}
