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
		return grade
	case v.Kind.Links.Bonded(set, r.Prefer.Bond):
		return 100
	}
	return grade / 2
}
