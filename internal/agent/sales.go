package agent

import (
	"slices"

	"github.com/tangram-dev/tangram/api/names"
	"github.com/tangram-dev/tangram/api/v1alpha1"
	"github.com/tangram-dev/tangram/internal/agent/config"
	"github.com/tangram-dev/tangram/internal/agent/device"
	"github.com/tangram-dev/tangram/internal/agent/grant"
	"github.com/tangram-dev/tangram/internal/agent/sharing"
)

// slicePrefix begins the resources of MIG instances.
const slicePrefix = "nvidia.com/mig-"

// replicated is how the settings sell turns, and by what; nil when they do not.
func replicated(c *config.Config) (*config.Replicated, sharing.Mode) {
	switch {
	case c.Sharing.MPS != nil:
		return c.Sharing.MPS, sharing.MPS
	case c.Sharing.TimeSlicing != nil:
		return c.Sharing.TimeSlicing, sharing.TimeSlicing
	}
	return nil, ""
}

// sales are what a node with this inventory sells under the settings.
func sales(c *config.Config, onDemand bool, inv *device.Inventory) []grant.Sale {
	whole := grant.Sale{Resource: names.ResourceNVIDIA, Turns: c.Agent.SharesPerGPU, Cuttable: onDemand}
	if c.Flags.MIGStrategy == config.MIGSingle {
		whole.Any = slices.ContainsFunc(inv.Devices, func(d device.Device) bool { return d.MIG != nil && d.MIG.Enabled })
	}
	out := []grant.Sale{whole}
	if c.Flags.MIGStrategy == config.MIGMixed {
		for _, profile := range profilesOf(inv) {
			out = append(out, grant.Sale{Resource: slicePrefix + profile, Profile: profile, OnDemand: onDemand})
		}
	}
	turns, _ := replicated(c)
	if turns == nil {
		return out
	}
	for i := range out {
		if r := turns.Find(out[i].Resource); r != nil {
			out[i].Resource, out[i].Turns, out[i].OnDemand = turns.Sold(r.Name), r.Replicas, false
		}
	}
	return out
}

// profilesOf are the MIG profiles of all devices, as resources spell them, sorted.
func profilesOf(inv *device.Inventory) (out []string) {
	for _, d := range inv.Devices {
		if d.MIG == nil {
			continue
		}
		for _, p := range d.MIG.Profiles {
			out = append(out, device.ProfileName(p.Name))
		}
		for _, i := range d.MIG.Instances {
			out = append(out, device.ProfileName(i.Profile))
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// turnsSold are the turns of each resource, as package sharing makes them real.
func turnsSold(c *config.Config) map[string]sharing.Turns {
	turns, mode := replicated(c)
	if turns == nil {
		return nil
	}
	out := map[string]sharing.Turns{}
	for _, r := range turns.Resources {
		out[turns.Sold(r.Name)] = sharing.Turns{Mode: mode, Replicas: r.Replicas, Percents: r.Percents}
	}
	return out
}

// oneOnly says whether a container may have one device of a resource only.
func oneOnly(c *config.Config) func(resource string) bool {
	turns, _ := replicated(c)
	return func(resource string) bool {
		if turns == nil || !turns.FailRequestsGreaterThanOne {
			return false
		}
		return slices.ContainsFunc(turns.Resources, func(r config.Resource) bool { return turns.Sold(r.Name) == resource })
	}
}

// published is what a GPUNode says of all that; nil when nothing of it is shared.
func published(c *config.Config) *v1alpha1.Sharing {
	if c.Agent.Mode != config.Serve {
		return nil
	}
	if turns, mode := replicated(c); turns != nil {
		if r := turns.Find(names.ResourceNVIDIA); r != nil {
			strategy := v1alpha1.TimeSlicing
			if mode == sharing.MPS {
				strategy = v1alpha1.MPS
			}
			return &v1alpha1.Sharing{
				Strategy: strategy, Replicas: int32(r.Replicas), Renamed: turns.RenameByDefault, OnePerContainer: turns.FailRequestsGreaterThanOne,
			}
		}
	}
	if n := c.Agent.SharesPerGPU; n > 0 {
		strategy := map[config.Isolation]v1alpha1.SharingStrategy{
			config.IsolationMPS: v1alpha1.MPS, config.IsolationHAMi: v1alpha1.HAMiCore, config.IsolationNone: v1alpha1.TimeSlicing,
		}[c.Agent.Isolation]
		return &v1alpha1.Sharing{Strategy: strategy, MaxShares: int32(n)}
	}
	return nil
}
