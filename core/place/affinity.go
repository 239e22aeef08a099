package place

import (
	"github.com/tangram-dev/tangram/core/explain"
	"github.com/tangram-dev/tangram/core/ledger"
	"github.com/tangram-dev/tangram/core/model"
)

// KeepApart are those of a holder's rules that bind others once it is there.
func KeepApart(rules []model.AffinityRule) []model.AffinityRule {
	var out []model.AffinityRule
	for _, rule := range rules {
		if rule.Kind.Apart() {
			out = append(out, rule)
		}
	}
	return out
}

// company restricts devices to those where the request's rules on others hold, and
// the rules of those already there. Rules work as Kubernetes' affinity between pods
// does: who wants to be with others goes anywhere when there are none yet and it is
// itself one of those it wants to be with, so that the first of a group has a place;
// and who wants to be apart is left alone later, too.
func company(r *model.Request, v ledger.View, devices model.Mask) (model.Mask, *explain.Refusal) {
	need := r.Distinct()
	refuse := func(code explain.Code, rule string, left model.Mask) (model.Mask, *explain.Refusal) {
		return 0, &explain.Refusal{Code: code, Need: int64(need), Best: int64(left.Count()), Devices: devices.Count(), Detail: rule}
	}
	left := devices
	for _, rule := range r.Affinity {
		if rule.Kind.Apart() {
			continue
		}
		theirs, here, anywhere := v.Company(rule)
		switch {
		case !anywhere && rule.Matches(r.Labels):
			continue
		case rule.Kind == model.SameDevice:
			left &= theirs
		case !here:
			left = 0
		}
		if left.Count() < need {
			return refuse(explain.NoCompany, rule.String(), left)
		}
	}
	for _, rule := range KeepApart(r.Affinity) {
		theirs, here, _ := v.Company(rule)
		if rule.Kind == model.DifferentNode && here {
			theirs = left
		}
		if left &^= theirs; left.Count() < need {
			return refuse(explain.TooClose, rule.String(), left)
		}
	}
	kept, by := v.KeptFrom(r.Labels)
	if left &^= kept; left.Count() < need {
		return refuse(explain.TooClose, "another's rule "+by.String(), left)
	}
	return left, nil
}

// apart says whether nodes of one bucket may answer a request differently because of
// who is on them.
func apart(l *ledger.Ledger, r *model.Request) bool {
	return len(r.Affinity) > 0 || l.KeptApart(r.Labels)
}
