package score

import (
	"slices"

	"github.com/tangram-dev/tangram/core/ledger"
	"github.com/tangram-dev/tangram/core/model"
)

// Rate fills the card of placing a request on a set of a node's free devices.
// The set must be one place.Fit returned for the view.
func Rate(r *model.Request, v ledger.View, set model.Mask) Card {
	var c Card
	first := 0
	for slot := range set.Slots() {
		first = slot
		break
	}
	m := v.Node.Devices[first].Model
	c[Utilization] = utilization(r, v)
	c[TypeMatch] = typeMatch(r, m)
	c[Topology] = topology(r, v, set)
	c[Fragmentation] = fragmentation(r, v, set)
	c[Priority] = closeness(r.Standing, Grade(m))
	c[Workload] = workload(r, v, m)
	return c
}

// utilization prefers nodes that are 60 to 80 % in use: warm, with room to
// breathe. Below, the score grows with use, so empty nodes are opened last;
// above, it falls to 0 at full. The use counted is that before the placement, as
// in seed 003: counting it after would keep the last device of every node empty.
func utilization(r *model.Request, v ledger.View) int {
	devices := v.Devices(r.Vendor)
	total, used := devices.Count(), (devices & v.Held).Count()
	switch {
	case total == 0:
		return 0
	case 10*used < 6*total: // 100 * use / 0.6
		return 1000 * used / (6 * total)
	case 10*used <= 8*total:
		return 100
	default: // 100 * (1-use) / 0.2
		return 500 * (total - used) / total
	}
}

// typeMatch compares the device with the models the owner named: 100 for one of
// them, 70 for a compatible one, 0 for another, 50 when the owner named none.
func typeMatch(r *model.Request, m model.GPUModel) int {
	if len(r.UseModels) == 0 && len(r.PreferModels) == 0 {
		return 50
	}
	best := 0
	for _, wishes := range [][]model.GPUModel{r.UseModels, r.PreferModels} {
		for _, wish := range wishes {
			switch {
			case m.Is(wish):
				return 100
			case slices.Contains(compatible[wish.Name()], m.Name()):
				best = 70
			}
		}
	}
	return best
}

// compatible are seed 003's models that can stand in for another.
var compatible = map[string][]string{
	"v100": {"a100"},
	"a100": {"v100"},
	"t4":   {"3080", "3090"},
}

// fragmentation is 100 when the placement costs the fleet nothing, less the more
// slots of 1, 2, 4, 8 and 16 devices it takes or breaks. Seed 003 scored the share of
// free memory, which is utilization again; what it means is that the rest stays
// sellable. A node's worth is what it can be sold as, summed over the slot sizes; the
// score falls with the worth lost, the same on all nodes: a single GPU should break a
// pair rather than an eight.
func fragmentation(r *model.Request, v ledger.View, set model.Mask) int {
	total := v.Devices(r.Vendor).Count()
	free := v.Free(r.Vendor)
	lost := worth(free.Count(), total) - worth((free&^set).Count(), total)
	return max(0, 100-100*lost/worth(8, 8))
}

// worth is what free devices of a node of the given size can be sold as, summed
// over slot sizes that fit the node.
func worth(free, total int) int {
	sum := 0
	for size := 1; size <= total && size <= 16; size *= 2 {
		sum += free / size * size
	}
	return sum
}

// workload prefers the hardware that suits the kind of work (seed 003, 1.1):
// training wants fast, linked devices; inference mid-range ones; development
// entry-level ones.
func workload(r *model.Request, v ledger.View, m model.GPUModel) int {
	switch r.Workload {
	case model.Training:
		links := 50
		if devices := v.Devices(r.Vendor); devices.Count() > 1 {
			links = v.Kind.Links.Grade(devices)
		}
		return (Grade(m) + links) / 2
	case model.Inference:
		return closeness(40, Grade(m))
	case model.Development:
		return closeness(20, Grade(m))
	}
	return 50
}

// closeness is 100 when two grades are equal, 0 when they are opposite.
func closeness(a, b int) int { return 100 - max(a-b, b-a) }
