package ledger

import (
	"cmp"
	"fmt"
	"iter"
	"maps"
	"slices"

	"github.com/tangram-dev/tangram/core/model"
)

// bucketKey is what nodes of one bucket share. Two nodes with equal keys answer
// every request alike, unless it names devices by UUID.
type bucketKey struct {
	kind         *Kind
	held, shared model.Mask
	room         [model.NumVendors]int16
	usage        string
}

// Bucket is a set of interchangeable nodes: same kind, same devices held.
type Bucket struct {
	key   bucketKey
	nodes []*node // sorted by ID
}

// View is the bucket's first node outside a list, which stands for all others
// outside it; false when there is none. skip must be sorted.
func (b *Bucket) View(skip []model.NodeID) (View, bool) {
	for _, n := range b.nodes {
		if _, found := slices.BinarySearch(skip, n.id); !found {
			return n.view(), true
		}
	}
	return View{}, false
}

// Len is the number of nodes in the bucket, at least 1.
func (b *Bucket) Len() int { return len(b.nodes) }

// Nodes yields the nodes of the bucket by ascending ID.
func (b *Bucket) Nodes() iter.Seq[model.NodeID] {
	return func(yield func(model.NodeID) bool) {
		for _, n := range b.nodes {
			if !yield(n.id) {
				return
			}
		}
	}
}

// Views yields the nodes of the bucket by ascending ID, as they are now.
func (b *Bucket) Views() iter.Seq[View] {
	return func(yield func(View) bool) {
		for _, n := range b.nodes {
			if !yield(n.view()) {
				return
			}
		}
	}
}

// index groups the nodes that are there into buckets. Moving a node costs a
// binary search and a memmove inside two buckets.
type index struct{ buckets map[bucketKey]*Bucket }

func keyOf(n *node) bucketKey {
	return bucketKey{n.kind, n.held, n.shared, n.room, spellUsage(n.usage)}
}

func byID(n *node, id model.NodeID) int { return cmp.Compare(n.id, id) }

func (x *index) add(n *node) {
	key := keyOf(n)
	b := x.buckets[key]
	if b == nil {
		b = &Bucket{key: key}
		x.buckets[key] = b
	}
	at, _ := slices.BinarySearchFunc(b.nodes, n.id, byID)
	b.nodes = slices.Insert(b.nodes, at, n)
}

func (x *index) remove(n *node) {
	key := keyOf(n)
	b := x.buckets[key]
	at, found := slices.BinarySearchFunc(b.nodes, n.id, byID)
	if !found {
		return
	}
	if b.nodes = slices.Delete(b.nodes, at, at+1); len(b.nodes) == 0 {
		delete(x.buckets, key)
	}
}

func (x *index) audit(nodes []*node) error {
	for _, n := range nodes {
		if b := x.buckets[keyOf(n)]; b == nil || !slices.Contains(b.nodes, n) {
			return fmt.Errorf("node %q: not in its bucket", n.id)
		}
	}
	if got := x.size(); got != len(nodes) {
		return fmt.Errorf("index: %d entries for %d nodes", got, len(nodes))
	}
	return nil
}

func (x *index) size() int {
	total := 0
	for _, b := range x.buckets {
		total += len(b.nodes)
	}
	return total
}

// Buckets yields every bucket, in no particular order: callers must end their
// comparisons in the bucket's first node, which is unique.
func (l *Ledger) Buckets() iter.Seq[*Bucket] {
	return maps.Values(l.index.buckets)
}

// Pick returns those of the given nodes that are in the bucket. ids must be
// sorted; the result is.
func (b *Bucket) Pick(ids []model.NodeID) []model.NodeID {
	var out []model.NodeID
	for _, id := range ids {
		if _, found := slices.BinarySearchFunc(b.nodes, id, byID); found {
			out = append(out, id)
		}
	}
	return out
}
