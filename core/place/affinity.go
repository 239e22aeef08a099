package place

import (
	"github.com/tangram-dev/tangram/core/explain"
	"github.com/tangram-dev/tangram/core/ledger"
	"github.com/tangram-dev/tangram/core/model"
)

// AntiAffinity returns a holder's anti-affinity rules: they also apply to requests placed
// after it.
func AntiAffinity(rules []model.AffinityRule) []model.AffinityRule {
	var out []model.AffinityRule
	for _, rule := range rules {
		if rule.Kind.IsAnti() {
			out = append(out, rule)
		}
	}
	return out
}

// byAffinity restricts devices to those on which the request's affinity rules hold, and
// the anti-affinity rules of the holders already there. As with Kubernetes' inter-pod
// affinity, a request that matches its own affinity rule goes anywhere while no other
// holder matches it, so that the first of a group can be placed.
func byAffinity(r *model.Request, v ledger.View, devices model.Mask) (model.Mask, *explain.Refusal) {
	need := r.Distinct()
	refuse := func(code explain.Code, rule string, left model.Mask) (model.Mask, *explain.Refusal) {
		return 0, &explain.Refusal{Code: code, Need: int64(need), Best: int64(left.Count()), Devices: devices.Count(), Detail: rule}
	}
	left := devices
	for _, rule := range r.Affinity {
		if rule.Kind.IsAnti() {
			continue
		}
		theirs, here, anywhere := v.Matching(rule)
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
	for _, rule := range AntiAffinity(r.Affinity) {
		theirs, here, _ := v.Matching(rule)
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

// affinityMatters says whether nodes of one bucket may answer a request differently
// because of the holders on them.
func affinityMatters(l *ledger.Ledger, r *model.Request) bool {
	return len(r.Affinity) > 0 || l.KeptApart(r.Labels)
}
