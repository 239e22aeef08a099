package score

import (
	"github.com/tangram-dev/tangram/core/ledger"
	"github.com/tangram-dev/tangram/core/model"
)

// topology is how well the devices are connected, the mean over their pairs. If the
// user stated a preference, a set that meets it gets the full score, and one that does
// not gets half.
func topology(r *model.Request, v ledger.View, set model.Mask) int {
	grade := v.Kind.Links.Grade(set)
	switch {
	case r.Prefer.Bond == (model.Bond{}):
	case v.Kind.Links.Bonded(set, r.Prefer.Bond):
		grade = 100
	default:
		grade /= 2
	}
	// A preferred domain shared with the request's group that is missed halves the score
	// again.
	if group, ok := r.Group(); ok && r.Prefer.Level.Name != "" {
		if near, anywhere := v.Near(group, r.Prefer.Level.Depth); anywhere && !near {
			grade /= 2
		}
	}
	return grade
}
