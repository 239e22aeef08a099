package arbiter

import (
	"fmt"
	"maps"
	"slices"
)

// Resource names something that is counted: "cpu", "nvidia.com/gpu",
// "model/a100". The unit is the caller's, the same everywhere for one name.
type Resource string

// Amounts is how much of each resource, in the order a Tree knows them: make
// them with Tree.Amounts and read them with Tree.Map. What lies beyond the end
// is zero. A nil Amounts is nothing.
type Amounts []int64

// MaxAmount is the largest amount of one resource that may be stated anywhere:
// 4 PiB when it counts bytes. It leaves room to add up thousands of them.
const MaxAmount = 1 << 52

// need is one resource that a job asks for; amount > 0.
type need struct {
	resource int
	amount   int64
}

// needs lists what is not zero.
func (a Amounts) needs() []need {
	var out []need
	for r, v := range a {
		if v != 0 {
			out = append(out, need{r, v})
		}
	}
	return out
}

func (a Amounts) at(r int) int64 {
	if r < len(a) {
		return a[r]
	}
	return 0
}

// plus returns the sum, in new memory.
func (a Amounts) plus(b Amounts) Amounts {
	out := make(Amounts, max(len(a), len(b)))
	for r := range out {
		out[r] = a.at(r) + b.at(r)
	}
	return out
}

// dictionary numbers resources in the order they were first heard of. Numbers
// never reach a decision: ties end in names, so the order does not matter.
type dictionary struct {
	names  []Resource
	number map[Resource]int
}

func (d *dictionary) intern(r Resource) int {
	if i, ok := d.number[r]; ok {
		return i
	}
	if d.number == nil {
		d.number = map[Resource]int{}
	}
	d.number[r] = len(d.names)
	d.names = append(d.names, r)
	return len(d.names) - 1
}

// amounts translates a map; absent is what a resource counts that it lacks.
func (d *dictionary) amounts(m map[Resource]int64, absent int64) Amounts {
	for _, r := range slices.Sorted(maps.Keys(m)) {
		d.intern(r)
	}
	out := make(Amounts, len(d.names))
	for i, r := range d.names {
		v, ok := m[r]
		if !ok {
			v = absent
		}
		out[i] = v
	}
	return out
}

// checkAmounts names the first amount that cannot be.
func checkAmounts(field string, m map[Resource]int64) error {
	for _, r := range slices.Sorted(maps.Keys(m)) {
		switch v := m[r]; {
		case r == "":
			return fmt.Errorf("%s: a resource has no name", field)
		case v < 0:
			return fmt.Errorf("%s[%s]: %d is negative", field, r, v)
		case v > MaxAmount:
			return fmt.Errorf("%s[%s]: %d is above %d", field, r, v, int64(MaxAmount))
		}
	}
	return nil
}

// check is checkAmounts for what is already numbered.
func (d *dictionary) check(field string, a Amounts) error {
	for r, v := range a {
		switch {
		case r >= len(d.names) && v != 0:
			return fmt.Errorf("%s: %d amounts for %d resources: not made by this tree", field, len(a), len(d.names))
		case v < 0:
			return fmt.Errorf("%s[%s]: %d is negative", field, d.names[r], v)
		case v > MaxAmount:
			return fmt.Errorf("%s[%s]: %d is above %d", field, d.names[r], v, int64(MaxAmount))
		}
	}
	return nil
}
