package model

import (
	"cmp"
	"fmt"
	"math"
	"slices"
)

// Extra is an amount of one resource that is neither a device, CPU nor memory:
// everything else that kube-scheduler's NodeResourcesFit adds up (extended resources,
// ephemeral storage, huge pages, the number of pods), by the name that pods and nodes
// use for it.
type Extra struct {
	Name   string
	Amount int64
}

// Extras are amounts by name: sorted by name, names unique, amounts above 0. Values
// are never changed, so results may share memory with their arguments.
type Extras []Extra

// MaxAmount is the largest amount of anything that one node has or one holder needs:
// larger ones are typing errors, and are cut so that sums over nodes and members stay
// far from overflow.
const MaxAmount = 1 << 50

// MakeExtras sorts amounts by name, leaves out those that are not above 0 and cuts
// those above MaxAmount. It keeps the slice. Names must be unique.
func MakeExtras(amounts []Extra) Extras {
	for i := range amounts {
		amounts[i].Amount = min(amounts[i].Amount, MaxAmount)
	}
	amounts = slices.DeleteFunc(amounts, func(e Extra) bool { return e.Amount <= 0 })
	slices.SortFunc(amounts, func(a, b Extra) int { return cmp.Compare(a.Name, b.Name) })
	return amounts
}

// Amount is the amount of a name; 0 when it is not listed.
func (e Extras) Amount(name string) int64 {
	for i := range e {
		if e[i].Name == name {
			return e[i].Amount
		}
	}
	return 0
}

// Plus is the sum.
func (e Extras) Plus(o Extras) Extras {
	switch {
	case len(e) == 0:
		return o
	case len(o) == 0:
		return e
	}
	out := make(Extras, 0, max(len(e), len(o)))
	for len(e) > 0 && len(o) > 0 {
		switch c := cmp.Compare(e[0].Name, o[0].Name); {
		case c < 0:
			out, e = append(out, e[0]), e[1:]
		case c > 0:
			out, o = append(out, o[0]), o[1:]
		default:
			out = append(out, Extra{e[0].Name, plus(e[0].Amount, o[0].Amount)})
			e, o = e[1:], o[1:]
		}
	}
	return append(append(out, e...), o...)
}

// Times is the amount for so many holders.
func (e Extras) Times(count int) Extras {
	if count == 1 || len(e) == 0 {
		return e
	}
	if count <= 0 {
		return nil
	}
	out := slices.Clone(e)
	for i := range out {
		out[i].Amount = times(out[i].Amount, count)
	}
	return out
}

// plus and times stop at the largest number instead of running over: sums of many
// holders' needs must not look small.
func plus(a, b int64) int64 {
	if a > math.MaxInt64-b {
		return math.MaxInt64
	}
	return a + b
}

func times(a int64, count int) int64 {
	if count > 0 && a > math.MaxInt64/int64(count) {
		return math.MaxInt64
	}
	return a * int64(count)
}

// Covers says whether there is enough of every name that another lists. A name that is
// not listed here is there 0 times.
func (e Extras) Covers(o Extras) bool {
	for _, need := range o {
		if e.Amount(need.Name) < need.Amount {
			return false
		}
	}
	return true
}

// Equal says whether the amounts are the same.
func (e Extras) Equal(o Extras) bool { return slices.Equal(e, o) }

// Validate names the entry that breaks an invariant.
func (e Extras) Validate() error {
	for i := range e {
		switch {
		case e[i].Name == "":
			return fmt.Errorf("extras[%d].name: empty", i)
		case i > 0 && e[i-1].Name >= e[i].Name:
			return fmt.Errorf("extras[%d].name: %q is there twice or out of order", i, e[i].Name)
		case e[i].Amount <= 0 || e[i].Amount > MaxAmount:
			return fmt.Errorf("extras[%d].amount: %d of %s, must be 1 to %d", i, e[i].Amount, e[i].Name, int64(MaxAmount))
		}
	}
	return nil
}

// Names that a Shortage uses for what Host counts.
const (
	CPUName    = "cpu"    // in milli
	MemoryName = "memory" // in bytes
)

// Shortage is a resource of which a node has less than a request needs.
type Shortage struct {
	// Name is CPUName, MemoryName or that of an Extra.
	Name string
	// Need is what the request asks for, Free what other holders leave (of extras
	// negative on an overcommitted node), Total what the node has. If Need is above
	// Total, no eviction helps.
	Need, Free, Total int64
}
