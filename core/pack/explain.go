package pack

import (
	"fmt"
	"strings"
)

// Terms takes the cost of a placement apart, in micro-GPU.
type Terms struct {
	// Before and After are the node's potential; their difference is the base.
	Before, After int64
	// Model is the price of taking a scarce model from requests that can use no other.
	Model int64
	// Slots is the price of taking or breaking groups of 2, 4 and 8 whole GPUs.
	Slots [len(slotSizes)]int64
	// Links is the price of breaking groups of well linked GPUs where as many GPUs
	// that are not linked would be left.
	Links [len(slotSizes)]int64
	// Cost is what was compared, in steps of 5 milli-GPU: the base and the sum of
	// the prices, each rounded. Rounding them apart keeps the order of nodes that
	// share their prices the same while prices change, which is what makes an index
	// possible.
	Cost int
	// Unused and GPUs decide between equal costs: the node with the smaller part of
	// unused GPUs goes first.
	Unused, GPUs int
}

// Base is what the node itself loses.
func (t Terms) Base() int64 { return t.Before - t.After }

// String is the explanation in one line, in milli-GPU.
func (t Terms) String() string {
	milli := func(v int64) string { return fmt.Sprintf("%.1f", float64(v)/(micro/Whole)) }
	var b strings.Builder
	fmt.Fprintf(&b, "cost %d = base %s (potential %s to %s)", t.Cost, milli(t.Base()), milli(t.Before), milli(t.After))
	if t.Model != 0 {
		fmt.Fprintf(&b, " + scarce model %s", milli(t.Model))
	}
	for i, price := range t.Slots {
		if price != 0 {
			fmt.Fprintf(&b, " + broken group of %d %s", slotSizes[i], milli(price))
		}
	}
	for i, price := range t.Links {
		if price != 0 {
			fmt.Fprintf(&b, " + unlinked group of %d %s", slotSizes[i], milli(price))
		}
	}
	fmt.Fprintf(&b, "; %d of %d GPUs unused", t.Unused, t.GPUs)
	return b.String()
}

// Explain is the score of a class on a node, term by term; false if it does not
// fit, or the policy is not Potential. It answers for any node, chosen or not.
func (x *Index) Explain(c *Class, ordinal int) (Terms, Choice, bool) {
	p, ok := x.policy.(*Potential)
	if !ok || !x.has(ordinal) || !x.gates[ordinal].admits(c) {
		return Terms{}, Choice{}, false
	}
	n := &x.nodes[ordinal]
	p.Begin(c)
	loss, _, _ := p.loss(c, n)
	r := p.Rate(c, n)
	t := Terms{Before: n.potential, After: n.potential - loss, Unused: n.full, GPUs: int(n.Shape.GPUs)}
	if c.GPUs > 0 {
		t.Model, t.Slots = p.opportunity(c, &p.places[r.Bucket])
	}
	shift := p.Shift(c, int(r.Bucket))
	t.Cost = int(r.Cost) + shift.Cost
	return t, Choice{ordinal, n.devices(c, r), t.Cost, shift.Tie}, true
}

// Groups counts groups of 2, 4 and 8 GPUs that belong together.
type Groups [len(slotSizes)]uint8

// GroupSizes are the sizes Groups counts.
func GroupSizes() [len(slotSizes)]int { return slotSizes }

// Weigh is the cost of a placement whose outcome the caller knows better than a
// class can say: a request for shares of several GPUs, a slice of one, a set of GPUs
// that leaves others without links. before and after count the linked groups of
// unused GPUs; leave both empty where links do not matter. False if the node is not
// there or the policy is not Potential.
func (x *Index) Weigh(c *Class, ordinal int, after *Shape, before, left Groups) (Terms, bool) {
	p, ok := x.policy.(*Potential)
	if !ok || !x.has(ordinal) {
		return Terms{}, false
	}
	n := &x.nodes[ordinal]
	p.Begin(c)
	t := Terms{Before: n.potential, After: p.tables.Potential(after), Unused: n.full, GPUs: int(n.Shape.GPUs)}
	price := int64(0)
	if c.GPUs > 0 {
		now := &place{model: n.Shape.Model, full: n.full, breaks: after.Full() < n.full}
		t.Model, t.Slots = p.opportunity(c, now)
		price = t.Model
		for i, size := range slotSizes {
			if size > int(c.GPUs) && left[i] < before[i] && t.Slots[i] == 0 {
				t.Links[i] = int64(slotWeight * p.now.slots[i][n.Shape.Model])
			}
			price += t.Slots[i] + t.Links[i]
		}
	}
	t.Cost = min(steps(t.Base()), MaxCost) + steps(price)
	return t, true
}

// Prices says whether the policy is Potential, which says what things are worth.
func (x *Index) Prices() bool {
	_, ok := x.policy.(*Potential)
	return ok
}

// Worth is what so much of a GPU, in milli, is worth to the workload, in micro-GPU.
// The policy must be Potential.
func (x *Index) Worth(milli int) int64 {
	return int64(x.policy.(*Potential).tables.value[min(max(milli, 0), Whole)])
}

// Rate is the choice a node would be, false if the class does not fit there. It
// is for callers that have chosen the nodes themselves.
func (x *Index) Rate(c *Class, ordinal int) (Choice, bool) {
	if !x.has(ordinal) || !x.gates[ordinal].admits(c) {
		return Choice{}, false
	}
	s := x.ranking(c)
	x.policy.Begin(c)
	r := s.cells[ordinal].Rating
	e := entry{newKey(r.Cost, x.gates[ordinal].order, ordinal), x.policy.Shift(c, int(r.Bucket))}
	return x.choice(s, e), true
}
