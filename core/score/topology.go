package score

import (
	"github.com/tangram-dev/tangram/core/ledger"
	"github.com/tangram-dev/tangram/core/model"
)

// topology is how well the devices are connected, the mean over their pairs. When the
// owner named what would be good enough, a set that is good enough is as good as any,
// and one that is not counts half: the owner has said that it matters.
func topology(r *model.Request, v ledger.View, set model.Mask) int {
	grade := v.Kind.Links.Grade(set)
	switch {
	case r.Prefer.Bond == (model.Bond{}):
	case v.Kind.Links.Bonded(set, r.Prefer.Bond):
		grade = 100
	default:
		grade /= 2
	}
	// Who wants to be in one domain with its group, and is not, counts half again.
	if group, ok := r.Group(); ok && r.Prefer.Level.Name != "" {
		if near, anywhere := v.Near(group, r.Prefer.Level.Depth); anywhere && !near {
			grade /= 2
		}
	}
	return grade
}
