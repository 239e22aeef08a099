package arbiter

import (
	"maps"
	"slices"
)

// Holding is what a queue uses, and what it may use, of some resources together.
type Holding struct {
	Queue string
	// Used is what its jobs are charged, Share what it is entitled to now, queues below
	// included.
	Used, Share int64
	// Guarantee, Deserved and Capability are what it was given; -1 where it was given
	// nothing of any of the resources.
	Guarantee, Deserved, Capability int64
}

// Holdings returns all queues, parents before children, with the sums over the resources
// that a predicate names and the cluster has or limits. Cost: queues times resources; not
// jobs.
func (t *Tree) Holdings(counts func(Resource) bool) []Holding {
	t.queues.refresh()
	numbers := t.queues.dict.numbers(counts)
	out := make([]Holding, len(t.queues.nodes))
	for i, n := range t.queues.nodes {
		h := Holding{
			Queue: n.Name, Guarantee: stated(n.Guarantee, counts), Deserved: stated(n.Deserved, counts), Capability: stated(n.Capability, counts),
		}
		for _, r := range numbers {
			h.Used, h.Share = add(h.Used, n.used[r]), add(h.Share, n.share[r])
		}
		out[i] = h
	}
	return out
}

// QuotaUse is what a namespace with a quota uses of some resources together.
type QuotaUse struct {
	Namespace  string
	Used, Hard int64
}

// QuotaUses returns the namespaces that have a quota of a resource that a predicate
// names, sorted, with their sums over such resources.
func (t *Tree) QuotaUses(counts func(Resource) bool) (out []QuotaUse) {
	numbers := t.queues.dict.numbers(counts)
	for _, name := range slices.Sorted(maps.Keys(t.jobs.namespaces)) {
		s := t.jobs.namespaces[name]
		u := QuotaUse{Namespace: name, Hard: stated(s.quota, counts)}
		if u.Hard < 0 {
			continue
		}
		for _, r := range numbers {
			u.Used = add(u.Used, s.used[r])
		}
		out = append(out, u)
	}
	return out
}

// numbers are those of resources that a predicate names.
func (d *dictionary) numbers(counts func(Resource) bool) (out []int) {
	for i, r := range d.names {
		if counts(r) {
			out = append(out, i)
		}
	}
	return out
}

// stated is the sum of the amounts that a predicate names; -1 when there is none.
func stated(m map[Resource]int64, counts func(Resource) bool) int64 {
	sum := int64(-1)
	for r, v := range m { // sums do not depend on the order
		if counts(r) {
			sum = add(max(sum, 0), v)
		}
	}
	return sum
}
