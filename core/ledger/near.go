package ledger

import (
	"slices"

	"github.com/tangram-dev/tangram/core/model"
)

// Near says whether a holder with a label is in the view's domain at a depth (on its
// node, for model.NodeDepth), and whether there is one anywhere.
func (v View) Near(label model.Label, depth int) (near, anywhere bool) {
	if v.labels == nil {
		return false, false
	}
	for n := range v.labels.at[label] { // any will do
		if n.inv == nil {
			continue
		}
		anywhere = true
		if sameDomain(n.inv, v.Node, depth) {
			return true, true
		}
	}
	return false, anywhere
}

func sameDomain(a, b *model.Node, depth int) bool {
	if depth == model.NodeDepth {
		return a.ID == b.ID
	}
	return depth < len(a.Domains) && depth < len(b.Domains) && a.Domains[depth] != "" && slices.Equal(a.Domains[:depth+1], b.Domains[:depth+1])
}

// Around lists the nodes, sorted, of the domains at a depth that have a holder with a
// label; at most limit of them.
func (l *Ledger) Around(label model.Label, depth, limit int) []model.NodeID {
	var out []model.NodeID
	for n := range l.labels.at[label] {
		if n.inv == nil {
			continue
		}
		if depth == model.NodeDepth {
			out = append(out, n.id)
		} else if d, ok := l.domains.Of(n.id, depth); ok {
			out = append(out, l.domains.Nodes(d)...)
		}
	}
	slices.Sort(out)
	out = slices.Compact(out)
	return out[:min(len(out), limit)]
}
