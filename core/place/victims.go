package place

import (
	"cmp"
	"slices"

	"github.com/tangram-dev/tangram/core/ledger"
	"github.com/tangram-dev/tangram/core/model"
)

// Victims names holders of lower priority whose leaving would let a request fit on a
// node, beside those who leave anyway; ok is false when even all of them would not
// help. Nobody is named in vain: putting any one back would make the request not fit.
// The least important and youngest go first.
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
	// Spare whom we can, the most important first.
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
