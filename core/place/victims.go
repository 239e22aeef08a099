package place

import (
	"cmp"
	"slices"

	"github.com/tangram-dev/tangram/core/ledger"
	"github.com/tangram-dev/tangram/core/model"
)

// Victims selects holders of lower priority to evict from a node so that a request fits
// there, in addition to holders that leave anyway; ok is false when evicting all of
// them would not be enough. The set is minimal: without any one of the evictions the
// request does not fit. Candidates are taken by ascending priority, the youngest first.
func Victims(l *ledger.Ledger, r *model.Request, id model.NodeID, leaving []model.HolderID) (victims []model.HolderID, ok bool) {
	gone := map[model.HolderID]bool{}
	for _, h := range leaving {
		gone[h] = true
	}
	fits := func() bool {
		v, there := l.ViewWith(id, func(h model.HolderID) bool { return gone[h] }, nil)
		if !there {
			return false
		}
		_, refusal := Fit(r, v)
		return refusal == nil
	}
	if fits() {
		return nil, true
	}
	candidates := slices.DeleteFunc(l.Claims(id), func(c ledger.Claim) bool { return c.Vendor == "" || c.Priority >= r.Priority || gone[c.Holder] })
	slices.SortFunc(candidates, func(a, b ledger.Claim) int {
		return cmp.Or(cmp.Compare(a.Priority, b.Priority), cmp.Compare(b.Since, a.Since), cmp.Compare(a.Holder, b.Holder))
	})
	for _, c := range candidates {
		gone[c.Holder] = true
		victims = append(victims, c.Holder)
		if fits() {
			ok = true
			break
		}
	}
	if !ok {
		return nil, false
	}
	// Reprieve victims that turn out not to be needed, the highest priority first.
	for i := len(victims) - 1; i >= 0; i-- {
		gone[victims[i]] = false
		if fits() {
			victims = slices.Delete(victims, i, i+1)
		} else {
			gone[victims[i]] = true
		}
	}
	return victims, true
}
