package reserve

import (
	"slices"

	"github.com/tangram-dev/tangram/core/cluster"
	"github.com/tangram-dev/tangram/core/memo"
	"github.com/tangram-dev/tangram/core/model"
)

// Saved is nodes that are kept for a gang from At on; At is 0 when that is not known. Until
// is not 0 while they are being freed for it.
type Saved struct {
	Gang  cluster.ID     `json:"gang"`
	At    int64          `json:"at,omitempty"`
	Until int64          `json:"until,omitempty"`
	Short bool           `json:"short,omitempty"`
	Nodes []model.NodeID `json:"nodes"`
}

// Save returns a copy of all reservations, in their order, which counts.
func (b *Book) Save() (out []Saved) {
	for _, r := range b.list {
		out = append(out, Saved{r.gang, r.At(), r.until, r.short, slices.Clone(r.nodes)})
	}
	return out
}

// Restore adds reservations that another book had.
func (b *Book) Restore(list []Saved) {
	for _, s := range list {
		if b.cluster.Gang(s.Gang) == nil || len(s.Nodes) == 0 || b.Of(s.Gang) != nil {
			continue
		}
		at := s.At
		if at == 0 {
			at = memo.Never
		}
		b.add(&Reservation{gang: s.Gang, at: at, until: s.Until, short: s.Short, nodes: slices.Sorted(slices.Values(s.Nodes))})
	}
}
