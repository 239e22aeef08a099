package place

import (
	"cmp"
	"iter"
	"slices"

	"github.com/tangram-dev/tangram/core/explain"
	"github.com/tangram-dev/tangram/core/ledger"
	"github.com/tangram-dev/tangram/core/model"
)

// Survey is every node's answer to a request: which nodes can take it, and why the
// others cannot.
type Survey struct {
	// Groups can take the request, those in use first.
	Groups []Group
	// Refused counts the nodes that cannot take the request, by reason.
	Refused explain.Tally
}

// Group is a run of interchangeable nodes that can take a request.
type Group struct {
	// First is the one with the smallest ID.
	First model.NodeID
	// Used is how many of its devices are in use.
	Used int
	// members are the group's nodes; nil for the single first.
	members *ledger.Bucket
	skip    []model.NodeID
}

// Nodes yields the group's nodes by ID.
func (g *Group) Nodes() iter.Seq[model.NodeID] {
	return func(yield func(model.NodeID) bool) {
		if g.members == nil {
			yield(g.First)
			return
		}
		for id := range g.members.Nodes() {
			if !slices.Contains(g.skip, id) && !yield(id) {
				return
			}
		}
	}
}

// Ask evaluates every node. It evaluates each bucket of interchangeable nodes once, so
// its cost grows with the number of buckets, not of nodes. The result refers to the
// ledger and must be used before the ledger changes.
func Ask(l *ledger.Ledger, r *model.Request) Survey {
	var s Survey
	if affinityMatters(l, r) { // holders on the node matter, not only its bucket
		for v := range everyNode(l) {
			s.judge(r, v, 1, nil, nil)
		}
		s.sort()
		return s
	}
	// Nodes that own a device named by UUID differ from their bucket: they are
	// judged alone. With UseUUIDs no other node can have them.
	var named []model.NodeID
	for _, uuids := range [][]string{r.UseUUIDs, r.AvoidUUIDs} {
		for _, uuid := range uuids {
			named = append(named, l.Owners(uuid)...)
		}
	}
	slices.Sort(named)
	named = slices.Compact(named)
	for _, id := range named {
		if v, ok := l.View(id); ok {
			s.judge(r, v, 1, nil, nil)
		}
	}
	for b := range l.Buckets() {
		skip := b.Pick(named)
		if v, ok := b.View(skip); ok {
			s.judge(r, v, b.Len()-len(skip), b, skip)
		}
	}
	s.sort()
	return s
}

func (s *Survey) sort() {
	slices.SortFunc(s.Groups, func(a, b Group) int {
		return cmp.Or(cmp.Compare(b.Used, a.Used), cmp.Compare(a.First, b.First))
	})
}

// everyNode yields the view of each node, in no particular order.
func everyNode(l *ledger.Ledger) iter.Seq[ledger.View] {
	return func(yield func(ledger.View) bool) {
		for b := range l.Buckets() {
			for id := range b.Nodes() {
				if v, ok := l.View(id); ok && !yield(v) {
					return
				}
			}
		}
	}
}

// judge evaluates one view that stands for n nodes.
func (s *Survey) judge(r *model.Request, v ledger.View, n int, b *ledger.Bucket, skip []model.NodeID) {
	if _, refusal := Fit(r, v); refusal != nil {
		s.Refused.Add(*refusal, n)
		return
	}
	s.Groups = append(s.Groups, Group{v.Node.ID, v.Held.Count(), b, skip})
}

// Judge says why a node's devices do not take a request, or nil; nil for a request of
// no device.
func Judge(r *model.Request, v ledger.View) *explain.Refusal {
	if r.Vendor == "" {
		return nil
	}
	_, refusal := Fit(r, v)
	return refusal
}

// Alike says whether all nodes of a bucket answer a request alike, as far as devices
// go.
func Alike(l *ledger.Ledger, r *model.Request) bool {
	return len(r.UseUUIDs)+len(r.AvoidUUIDs) == 0 && !affinityMatters(l, r)
}
