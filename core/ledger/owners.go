package ledger

import (
	"slices"

	"github.com/tangram-dev/tangram/core/model"
)

// Owners returns the nodes that list a device with the UUID, sorted. More than
// one only when inventories contradict each other.
func (l *Ledger) Owners(uuid string) []model.NodeID { return l.owners[uuid] }

func (l *Ledger) own(uuid string, id model.NodeID) {
	if uuid == "" {
		return
	}
	ids := l.owners[uuid]
	if at, found := slices.BinarySearch(ids, id); !found {
		l.owners[uuid] = slices.Insert(ids, at, id)
	}
}

func (l *Ledger) disown(uuid string, id model.NodeID) {
	ids := l.owners[uuid]
	at, found := slices.BinarySearch(ids, id)
	if !found {
		return
	}
	if ids = slices.Delete(ids, at, at+1); len(ids) == 0 {
		delete(l.owners, uuid)
	} else {
		l.owners[uuid] = ids
	}
}
