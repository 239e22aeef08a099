package ledger

import (
	"fmt"
	"maps"
	"slices"

	"github.com/tangram-dev/tangram/core/model"
)

// owners are the nodes, sorted, that list a device with a UUID. Devices without a UUID are
// not in it.
type owners map[string][]model.NodeID

func (o owners) add(inv *model.Node) {
	for _, d := range inv.Devices {
		if at, found := slices.BinarySearch(o[d.UUID], inv.ID); !found && d.UUID != "" {
			o[d.UUID] = slices.Insert(o[d.UUID], at, inv.ID)
		}
	}
}

func (o owners) remove(inv *model.Node) {
	for _, d := range inv.Devices {
		ids := o[d.UUID]
		at, found := slices.BinarySearch(ids, inv.ID)
		if !found {
			continue
		}
		if o[d.UUID] = slices.Delete(ids, at, at+1); len(ids) == 1 {
			delete(o, d.UUID)
		}
	}
}

func (o owners) audit(nodes []*node) error {
	again := owners{}
	for _, n := range nodes {
		again.add(n.inv)
	}
	if !maps.EqualFunc(o, again, slices.Equal[[]model.NodeID]) {
		return fmt.Errorf("owners %v, want %v", o, again)
	}
	return nil
}

// Owners returns the nodes that list a device with the UUID, sorted. More than
// one only when inventories contradict each other.
func (l *Ledger) Owners(uuid string) []model.NodeID { return l.owners[uuid] }
