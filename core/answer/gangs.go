package answer

import (
	"cmp"
	"slices"

	"github.com/tangram-dev/tangram/core/cluster"
	"github.com/tangram-dev/tangram/core/model"
)

// Gang returns a gang as it was submitted.
func (a Gangs) Gang(id cluster.ID) (cluster.Gang, bool) {
	if k := a.cluster.Gang(id); k != nil {
		return k.Gang, true
	}
	return cluster.Gang{}, false
}

// Of returns the gang of a holder.
func (a Gangs) Of(h model.HolderID) (cluster.ID, bool) {
	id := a.cluster.GangIDOf(h)
	return id, id != ""
}

// QueueOf is the queue that is charged for a holder.
func (a Gangs) QueueOf(h model.HolderID) string {
	if k := a.cluster.GangOf(h); k != nil {
		return k.QueueName()
	}
	return ""
}

// NodeOf is where a holder has its place; empty when it has none.
func (a Gangs) NodeOf(h model.HolderID) model.NodeID {
	if k := a.cluster.GangOf(h); k != nil {
		at, _ := k.PlaceOf(h)
		return at.Node
	}
	return ""
}

// Placed is how many members of a gang have a place.
func (a Gangs) Placed(id cluster.ID) int {
	if k := a.cluster.Gang(id); k != nil {
		return k.Placed()
	}
	return 0
}

// Size returns how many gangs wait and run.
func (a Gangs) Size() (waiting, running int) {
	return len(a.cluster.Gangs()) - len(a.cluster.Running()), len(a.cluster.Running())
}

// Seats are the members of a gang that have a place, and where; bound says which of them the
// API has confirmed. Cost: its members.
func (a Gangs) Seats(id cluster.ID) (nodes map[model.HolderID]model.NodeID, bound map[model.HolderID]bool) {
	nodes, bound = map[model.HolderID]model.NodeID{}, map[model.HolderID]bool{}
	if k := a.cluster.Gang(id); k != nil {
		for h, s := range k.Places() { // each for itself
			nodes[h], bound[h] = s.Node, s.Bound
		}
	}
	return nodes, bound
}

// Turn is a gang that waits, in the order in which gangs are offered a start.
type Turn struct {
	ID              cluster.ID
	Namespace, Name string
}

// Turns are the gangs that wait, in the order of their turns, not more than so many; those
// that wait for members or an administrator are not there. Cost: an offer for each, about a
// microsecond.
func (a Gangs) Turns(most int) (out []Turn) {
	for job := range a.cluster.Tree().Order(a.memo.Now()) {
		if k := a.cluster.Gang(cluster.ID(job.ID)); k != nil && k.Placed() == 0 {
			out = append(out, Turn{k.ID, k.Namespace, k.Name})
		}
		if len(out) >= most {
			break
		}
	}
	return out
}

// Listed is a gang with what lists of gangs are sorted and counted by.
type Listed struct {
	ID cluster.ID
	// Queue is named also where the gang names none.
	Name, Namespace, Queue string
	Submitted              int64
	// Waits: none of it has a place.
	Waits bool
}

// Compare orders gangs that wait before others, by submission, and the others by name.
func (a Listed) Compare(b Listed) int {
	switch {
	case a.Waits && !b.Waits:
		return -1
	case b.Waits && !a.Waits:
		return 1
	case a.Waits:
		return cmp.Or(cmp.Compare(a.Submitted, b.Submitted), cmp.Compare(a.ID, b.ID))
	}
	return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(a.ID, b.ID))
}

// List are all gangs, in no order. Cost: a few words for each; about 1 ms for 12,000.
func (a Gangs) List() []Listed {
	out := make([]Listed, 0, len(a.cluster.Gangs()))
	for id, k := range a.cluster.Gangs() { // the caller sorts
		out = append(out, Listed{id, k.Name, k.Namespace, k.QueueName(), k.Submitted, k.Placed() == 0})
	}
	return out
}

// Named are the gangs with a name ("namespace/name"), sorted. Cost: gangs.
func (a Gangs) Named(name string) (out []cluster.ID) {
	for id, k := range a.cluster.Gangs() { // sorted below
		if k.Name == name {
			out = append(out, id)
		}
	}
	slices.Sort(out)
	return out
}

// CountSeats is how many members of a gang have a place, and how many of these are bound.
// Cost: its members.
func (a Gangs) CountSeats(id cluster.ID) (placed, bound int) {
	if k := a.cluster.Gang(id); k != nil {
		for _, s := range k.Places() { // sums do not depend on the order
			if placed++; s.Bound {
				bound++
			}
		}
	}
	return placed, bound
}

// ReservedFor are the gangs that nodes are kept for, in the order in which they were kept.
func (a Gangs) ReservedFor() (out []cluster.ID) {
	for _, r := range a.book.All() {
		out = append(out, r.Gang())
	}
	return out
}

// Reservation says when a gang is expected to start and on which nodes, sorted;
// false when it has no reservation, a time of 0 when it is not known.
func (a Gangs) Reservation(id cluster.ID) (at int64, nodes []model.NodeID, ok bool) {
	if r := a.book.Of(id); r != nil {
		return r.At(), slices.Clone(r.Nodes()), true
	}
	return 0, nil, false
}

// Freeing says whether others were told to go so that a gang can start.
func (a Gangs) Freeing(id cluster.ID) bool {
	r := a.book.Of(id)
	return r != nil && r.Freeing()
}
