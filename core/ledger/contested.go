package ledger

import "github.com/tangram-dev/tangram/core/model"

// Contested is a claim that is counted on another device than its record names, because
// claims with precedence leave no room there.
type Contested struct {
	Holder model.HolderID
	// Index is the first such device.
	Index int
	// Certain: this process itself gave the device to its present holders. Otherwise both
	// sides are known from their records only, and one of these may be forged.
	Certain bool
}

// Contested returns the claims on a node whose records are overruled, those with the
// highest precedence first. Assumed claims are not among them: they have no record yet.
func (l *Ledger) Contested(id model.NodeID) []Contested {
	n := l.nodes[id]
	if n == nil {
		return nil
	}
	var out []Contested
	for _, c := range n.contested {
		if claim := &n.claims[c.claim]; !claim.Assumed {
			out = append(out, Contested{claim.Holder, c.index, n.given(c)})
		}
	}
	return out
}

// given says whether this process gave a contested device to all its present holders.
func (n *node) given(c contest) bool {
	some := false
	for j := range n.claims {
		o := &n.claims[j]
		if j == c.claim || !n.byClaim[j].Has(c.slot) {
			continue
		}
		for _, p := range o.places() {
			if n.inv.Slot(p.Device.Index, p.Device.UUID) != c.slot {
				continue
			}
			if o.Assumed || !o.owns(p) {
				return false
			}
			some = true
		}
	}
	return some
}
