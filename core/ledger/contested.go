package ledger

import "github.com/tangram-dev/tangram/core/model"

// Contested is a claim that is counted on another device than its record names, because
// claims with precedence leave no room there.
type Contested struct {
	Holder model.HolderID
	// Index is the first such device.
	Index int
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
			out = append(out, Contested{claim.Holder, c.index})
		}
	}
	return out
}
