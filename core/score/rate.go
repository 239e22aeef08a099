package score

import (
	"slices"

	"github.com/tangram-dev/tangram/core/ledger"
	"github.com/tangram-dev/tangram/core/model"
)

// Rate scores the placement of a request on a set of a node's free devices, in all
// objectives but those of the whole fleet, which are neutral here: the planner computes
// them. The set must be one that place.Fit returned for the view.
func Rate(r *model.Request, v ledger.View, set model.Mask) Card {
	var c Card
	for o := range objectives {
		c[o] = neutral
		if rate := objectives[o].rate; rate != nil {
			c[o] = rate(r, v, set)
		}
	}
	return c
}

// modelOf is the model of the set's first device.
func modelOf(v ledger.View, set model.Mask) model.GPUModel {
	for slot := range set.Slots() {
		return v.Node.Devices[slot].Model
	}
	return v.Node.Devices[0].Model
}

// neutral is the score of a node that an objective does not distinguish. If that holds
// for all nodes, the other objectives decide.
const neutral = 50

// utilization is the direction the user asked for: the used part of the node's devices for
// Binpack, the free part for Spread, neutral for Auto, where fragmentation decides. Usage
// is counted before the placement, of shared devices by their fullness. Seed 003's curve,
// best at 60 to 80 % use, means to fill partly used nodes: Binpack.
func utilization(r *model.Request, v ledger.View, _ model.Mask) int {
	devices := v.Devices(r.Vendor)
	if r.NodePlacement == model.Auto || devices == 0 {
		return neutral
	}
	milli := 0
	for slot := range devices.Slots() {
		milli += v.Fullness(slot, v.Usage(slot))
	}
	used := milli / (10 * devices.Count())
	if r.NodePlacement == model.Spread {
		return 100 - used
	}
	return used
}

// priority compares the tenant's priority with the hardware: better GPUs for higher
// values. Any hardware suits a request without one.
func priority(r *model.Request, v ledger.View, set model.Mask) int {
	if r.TenantPriority == 0 {
		return neutral
	}
	return closeness(r.TenantPriority, Grade(modelOf(v, set)))
}

// typeMatch compares the device with the models the user prefers: 100 for one of them,
// 70 for a compatible one, 0 for another, 50 without a preference.
func typeMatch(r *model.Request, v ledger.View, set model.Mask) int {
	if len(r.UseModels) == 0 && len(r.PreferModels) == 0 {
		return neutral
	}
	m, best := modelOf(v, set), 0
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

// workload prefers the hardware that suits the kind of work (seed 003, 1.1):
// training wants fast, linked devices; inference mid-range ones; development
// entry-level ones.
func workload(r *model.Request, v ledger.View, set model.Mask) int {
	if r.Workload == model.AnyWorkload {
		return neutral
	}
	grade := Grade(modelOf(v, set))
	switch r.Workload {
	case model.Training:
		links := 50
		if devices := v.Devices(r.Vendor); devices.Count() > 1 {
			links = v.Kind.Links.Grade(devices)
		}
		return (grade + links) / 2
	case model.Inference:
		return closeness(40, grade)
	case model.Development:
		return closeness(20, grade)
	}
	return neutral
}

// closeness is 100 when two grades are equal, 0 when they are opposite.
func closeness(a, b int) int { return 100 - max(a-b, b-a) }
