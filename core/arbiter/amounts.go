package arbiter

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
)

// Resource names something that is counted: "cpu", "nvidia.com/gpu",
// "model/a100". The unit is the caller's, the same everywhere for one name.
type Resource string

// Amount is how much of one resource.
type Amount struct {
	Resource Resource
	Value    int64
}

// Amounts is how much of each resource: sorted by name, no name twice, no zeros.
// Make them with NewAmounts. A nil Amounts is nothing. They are values: no function
// of this package changes Amounts that it was given or has returned.
type Amounts []Amount

// MaxAmount is the largest amount of one resource that may be stated anywhere:
// 4 PiB when it counts bytes. It leaves room to add up thousands of them.
const MaxAmount = 1 << 52

// NewAmounts makes Amounts of a map; zeros are left out.
func NewAmounts(m map[Resource]int64) Amounts {
	var out Amounts
	for r, v := range m {
		if v != 0 {
			out = append(out, Amount{r, v})
		}
	}
	slices.SortFunc(out, func(a, b Amount) int { return cmp.Compare(a.Resource, b.Resource) })
	return out
}

// Map is the reverse of NewAmounts.
func (a Amounts) Map() map[Resource]int64 {
	m := make(map[Resource]int64, len(a))
	for _, x := range a {
		m[x.Resource] = x.Value
	}
	return m
}

// Of returns how much there is of one resource.
func (a Amounts) Of(r Resource) int64 {
	for _, x := range a {
		if x.Resource == r {
			return x.Value
		}
	}
	return 0
}

// merge combines two amounts, resource by resource.
func (a Amounts) merge(b Amounts, combine func(a, b int64) int64) Amounts {
	out := make(Amounts, 0, max(len(a), len(b)))
	for len(a) > 0 || len(b) > 0 {
		var x Amount
		switch {
		case len(b) == 0 || len(a) > 0 && a[0].Resource < b[0].Resource:
			x = Amount{a[0].Resource, combine(a[0].Value, 0)}
			a = a[1:]
		case len(a) == 0 || b[0].Resource < a[0].Resource:
			x = Amount{b[0].Resource, combine(0, b[0].Value)}
			b = b[1:]
		default:
			x = Amount{a[0].Resource, combine(a[0].Value, b[0].Value)}
			a, b = a[1:], b[1:]
		}
		if x.Value != 0 {
			out = append(out, x)
		}
	}
	return out
}

// Plus is the sum.
func (a Amounts) Plus(b Amounts) Amounts {
	switch {
	case len(a) == 0:
		return b
	case len(b) == 0:
		return a
	}
	return a.merge(b, func(a, b int64) int64 { return a + b })
}

// Minus is the difference.
func (a Amounts) Minus(b Amounts) Amounts {
	return a.merge(b, func(a, b int64) int64 { return a - b })
}

// larger is the larger of the two, resource by resource.
func (a Amounts) larger(b Amounts) Amounts {
	if len(b) == 0 || slices.Equal(a, b) {
		return a
	}
	return a.merge(b, func(a, b int64) int64 { return max(a, b) })
}

// check names the first amount that cannot be.
func (a Amounts) check(field string) error {
	for i, x := range a {
		if i > 0 && a[i-1].Resource >= x.Resource {
			return fmt.Errorf("%s[%s]: not in order of names", field, x.Resource)
		}
		if err := checkAmount(field, x.Resource, x.Value); err != nil {
			return err
		}
	}
	return nil
}

// checkAmounts is check for a map.
func checkAmounts(field string, m map[Resource]int64) error {
	for _, r := range slices.Sorted(maps.Keys(m)) {
		if err := checkAmount(field, r, m[r]); err != nil {
			return err
		}
	}
	return nil
}

func checkAmount(field string, r Resource, v int64) error {
	switch {
	case r == "":
		return fmt.Errorf("%s: a resource has no name", field)
	case v < 0:
		return fmt.Errorf("%s[%s]: %d is negative", field, r, v)
	case v > MaxAmount:
		return fmt.Errorf("%s[%s]: %d is above %d", field, r, v, int64(MaxAmount))
	}
	return nil
}
