package grant

import (
	"slices"
	"strings"

	"github.com/tangram-dev/tangram/internal/agent/device"
	"github.com/tangram-dev/tangram/internal/agent/records"
)

// Sale is one way in which a node sells its GPUs.
type Sale struct {
	Resource string
	// Turns is how many containers may have a turn on, or an amount of, each device; 0
	// sells whole ones.
	Turns int
	// Profile sells MIG instances of this profile, as the resource spells it (1g.10gb.me)
	// or NVML does; empty for GPUs. Any: all instances that exist, whatever their
	// profile (migStrategy single).
	Profile string
	Any     bool
	// OnDemand sells every place an instance of the profile may be made at, on devices
	// that no other program has cut; on those, what exists. Cuttable is the same for a sale of
	// whole GPUs: what is cut by the agent itself is whole again when the cuts are gone.
	OnDemand, Cuttable bool
}

// Offers are what a node sells: one offer for each sale, empty when it has nothing for
// it. The health of a GPU is that of every turn and instance on it. A GPU in MIG mode,
// or with instances, is not sold whole or in turns, unless the agent itself cuts it on
// demand: owned are the UUIDs of instances that it made. What is sold both ways is given
// one way at a time; the scheduler knows, and Allocate refuses the other.
func Offers(inv *device.Inventory, sales []Sale, owned map[string]bool, healthy func(uuid string) bool) []device.Offer {
	out := make([]device.Offer, 0, len(sales))
	for _, s := range sales {
		o := device.Offer{Resource: s.Resource}
		for i := range inv.Devices {
			d := &inv.Devices[i]
			for _, id := range s.ids(d, owned) {
				o.Devices = append(o.Devices, device.Sold{ID: id.String(), Healthy: healthy(d.UUID), NUMA: d.NUMA})
			}
		}
		out = append(out, o)
	}
	return out
}

func (s Sale) ids(d *device.Device, owned map[string]bool) (out []records.ID) {
	cut, foreign := false, false
	if d.MIG != nil {
		cut = d.MIG.Enabled || len(d.MIG.Instances) > 0
		foreign = slices.ContainsFunc(d.MIG.Instances, func(i device.Instance) bool { return !owned[i.UUID] })
	}
	switch {
	case s.Profile == "" && !s.Any:
		if !cut || s.Cuttable && !foreign {
			out = s.times(d.UUID)
		}
	case d.MIG == nil:
	case s.OnDemand && !foreign:
		for _, p := range d.MIG.Profiles {
			if s.sells(p.Name) {
				for _, start := range p.Starts {
					out = append(out, records.ID{UUID: d.UUID, Kind: records.NewSlice, Profile: p.Name, Start: start})
				}
			}
		}
	default:
		for _, i := range d.MIG.Instances {
			if s.sells(i.Profile) && i.UUID != "" {
				out = append(out, s.times(i.UUID)...)
			}
		}
	}
	return out
}

// times is one ID for a whole device, or one for each turn.
func (s Sale) times(uuid string) (out []records.ID) {
	if s.Turns == 0 {
		kind := records.Whole
		if strings.HasPrefix(uuid, "MIG-") {
			kind = records.Slice
		}
		return []records.ID{{UUID: uuid, Kind: kind}}
	}
	for n := range s.Turns {
		out = append(out, records.ID{UUID: uuid, Kind: records.Turn, Turn: n})
	}
	return out
}

func (s Sale) sells(profile string) bool { return s.Any || device.SameProfile(profile, s.Profile) }
