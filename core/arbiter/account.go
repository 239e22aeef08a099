package arbiter

import (
	"maps"
	"slices"
)

// Account is a queue in numbers.
type Account struct {
	Queue string
	// Parent is the queue above; empty for Root.
	Parent string
	Weight int64
	// Closed: nothing of it starts, because it is closed or one above it is.
	Closed bool
	// Lines are the resources of which the queue has, wants or was given something, by name.
	Lines []AccountLine
}

// AccountLine is one resource of a queue, queues below included.
type AccountLine struct {
	Resource Resource
	// Guarantee and Capability are what the queue was given; -1 where it was given nothing.
	Guarantee, Capability int64
	// Share is what it is entitled to now, Used what its jobs are charged, Wanted what they
	// would be charged if all could start.
	Share, Used, Wanted int64
	// Owed is its balance in amounts times milliseconds: see balance.go.
	Owed int64
}

// Accounts returns all queues, parents before children. Cost: queues times resources.
func (t *Tree) Accounts() []Account {
	q := &t.queues
	q.refresh()
	out := make([]Account, len(q.nodes))
	for i, n := range q.nodes {
		a := Account{Queue: n.Name, Weight: n.weight(), Closed: n.shut}
		if n.parent != nil {
			a.Parent = n.parent.Name
		}
		for r, name := range q.dict.names {
			line := AccountLine{
				Resource: name, Guarantee: given(n.Guarantee, name), Capability: given(n.Capability, name),
				Share: n.share[r], Used: n.used[r], Wanted: n.wanted(r), Owed: n.owed[r],
			}
			if line.Guarantee < 0 && line.Capability < 0 && line.Share == 0 && line.Used == 0 && line.Wanted == 0 && line.Owed == 0 {
				continue
			}
			a.Lines = append(a.Lines, line)
		}
		out[i] = a
	}
	return out
}

// given is an amount of a map, or -1.
func given(m map[Resource]int64, r Resource) int64 {
	if v, ok := m[r]; ok {
		return v
	}
	return -1
}

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
