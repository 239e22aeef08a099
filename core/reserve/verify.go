package reserve

import (
	"fmt"
	"slices"

	"github.com/tangram-dev/tangram/core/cluster"
)

// Verify checks what the doc comment of the package promises. Cost: the reservations.
func (b *Book) Verify() error {
	seen := map[cluster.ID]bool{}
	for _, r := range b.list {
		switch {
		case b.cluster.Gang(r.gang) == nil:
			return fmt.Errorf("nodes are kept for gang %q, which is not known", r.gang)
		case seen[r.gang]:
			return fmt.Errorf("gang %q has two reservations", r.gang)
		case len(r.nodes) == 0:
			return fmt.Errorf("the reservation of gang %q has no nodes", r.gang)
		case !slices.IsSorted(r.nodes):
			return fmt.Errorf("the nodes kept for gang %q are not sorted", r.gang)
		}
		seen[r.gang] = true
	}
	for id := range b.grounds {
		if b.cluster.Gang(id) == nil {
			return fmt.Errorf("a search is remembered of gang %q, which is not known", id)
		}
	}
	for id := range b.Promises.at {
		if b.cluster.Gang(id) == nil {
			return fmt.Errorf("a start is promised to gang %q, which is not known", id)
		}
	}
	return nil
}
