package pack

import (
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// fleetTest drives an index through random arrivals, departures and changes of
// the fleet, and remembers what runs where.
type fleetTest struct {
	x      *Index
	shapes []Shape
	there  []bool
	guests []guest
}

type guest struct {
	class  Class
	choice Choice
}

func newFleetTest(p Policy) *fleetTest {
	f := &fleetTest{x: NewIndex(p)}
	for _, k := range smallFleet() {
		for range k.Nodes {
			at := len(f.shapes)
			f.shapes = append(f.shapes, k.Empty)
			f.there = append(f.there, true)
			f.x.Set(at, Order(string(rune('a'+at))), k.Empty, k.Empty)
		}
	}
	f.x.Refresh()
	return f
}

func (f *fleetTest) place(c Class, choice Choice) {
	f.shapes[choice.Ordinal].Take(&c, choice.Devices)
	f.shapes[choice.Ordinal].Guests |= c.GuestBit()
	f.x.Update(choice.Ordinal, f.shapes[choice.Ordinal])
	f.guests = append(f.guests, guest{c, choice})
}

func (f *fleetTest) end(i int) {
	g := f.guests[i]
	f.guests = slices.Delete(f.guests, i, i+1)
	f.shapes[g.choice.Ordinal].Give(&g.class, g.choice.Devices)
	if f.there[g.choice.Ordinal] {
		f.x.Update(g.choice.Ordinal, f.shapes[g.choice.Ordinal])
	}
}

// toggle takes a node out or brings it back, with its guests.
func (f *fleetTest) toggle(at int) {
	if f.there[at] = !f.there[at]; !f.there[at] {
		f.x.Remove(at)
		return
	}
	empty := emptyNode(f.shapes[at].Model, int(f.shapes[at].GPUs), 96, 384)
	f.x.Set(at, Order(string(rune('a'+at))), empty, f.shapes[at])
}

// fullest is a policy that learns nothing and shifts nothing: the node with the least
// GPU left first.
type fullest struct{}

func (fullest) Arrive(*Class, int) bool { return false }
func (fullest) Reset([]Kind)            {}
func (fullest) Enter(*Node)             {}
func (fullest) Leave(*Node)             {}
func (fullest) Begin(*Class)            {}
func (fullest) Shift(*Class, int) Shift { return Shift{} }
func (fullest) Rate(c *Class, n *Node) Rating {
	slot := 0
	for slot < int(n.Shape.GPUs) && c.IsShare() && n.Shape.Free[slot] < c.Milli {
		slot++
	}
	return Rating{Cost: uint16(n.Shape.Idle() / 10), Slot: uint8(slot)}
}

// TestIndexIsScan: the index chooses what a look at all nodes chooses, under
// every policy, whatever came, went and changed; candidates are all nodes that
// fit, in that order; and nothing is ever over-committed.
func TestIndexIsScan(t *testing.T) {
	policies := []struct {
		name string
		make func() Policy
	}{
		{"potential", func() Policy { return NewPotential() }},
		{"oracle", func() Policy {
			return NewOracle([]Demand{{Class{GPUs: 1, Milli: 600}, 9}, {Class{GPUs: 8, Milli: Whole}, 3}, {Class{GPUs: 1, Milli: 400, CPU: 9000, Models: 4}, 9}})
		}},
		{"fixed", func() Policy { return fullest{} }},
	}
	for _, p := range policies {
		t.Run(p.name, func(t *testing.T) {
			rapid.Check(t, func(t *rapid.T) {
				f := newFleetTest(p.make())
				f.live(t)
			})
		})
	}
}

// live lets nodes come and go, and guests arrive and end.
func (f *fleetTest) live(t *rapid.T) {
	classes := rapid.SliceOfN(genClass(), 1, 8).Draw(t, "classes")
	for range rapid.IntRange(1, 150).Draw(t, "steps") {
		switch roll := rapid.IntRange(0, 19).Draw(t, "event"); {
		case roll < 2:
			f.toggle(rapid.IntRange(0, len(f.shapes)-1).Draw(t, "node"))
		case roll < 7 && len(f.guests) > 0:
			f.end(rapid.IntRange(0, len(f.guests)-1).Draw(t, "guest"))
		default:
			f.arrive(t, rapid.SampledFrom(classes).Draw(t, "class"))
		}
	}
}

func (f *fleetTest) arrive(t *rapid.T, c Class) {
	f.x.Arrive(&c)
	want, fits := f.x.Scan(&c)
	got, ok := f.x.Best(&c)
	if ok != fits || got != want {
		t.Fatalf("%+v: index %+v %v, scan %+v %v", c, got, ok, want, fits)
	}
	var nodes []int
	first := true
	for choice := range f.x.Candidates(&c) {
		if first && choice != want {
			t.Fatalf("first candidate %+v, want %+v", choice, want)
		}
		first = false
		if rated, ok := f.x.Rate(&c, choice.Ordinal); !ok || rated != choice {
			t.Fatalf("candidate %+v, rated %+v", choice, rated)
		}
		nodes = append(nodes, choice.Ordinal)
	}
	slices.Sort(nodes)
	for at := range f.shapes {
		_, found := slices.BinarySearch(nodes, at)
		if want := f.there[at] && f.shapes[at].Fits(&c); found != want {
			t.Fatalf("node %d among candidates: %v, fits: %v", at, found, want)
		}
	}
	if !ok {
		return
	}
	f.place(c, got)
	s := &f.shapes[got.Ordinal]
	if s.CPU < 0 || s.Memory < 0 || got.Devices.Count() != int(c.GPUs) {
		t.Fatalf("over-committed: %+v after %+v on %b", s, c, got.Devices)
	}
	for _, free := range s.Free[:s.GPUs] {
		if free > Whole { // below zero wraps around
			t.Fatalf("over-committed: %+v after %+v on %b", s, c, got.Devices)
		}
	}
}

// TestSupplyIsExact: what is kept as nodes change is what a fresh count gives.
func TestSupplyIsExact(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := NewPotential()
		f := newFleetTest(p)
		classes := rapid.SliceOfN(genClass(), 1, 8).Draw(t, "classes")
		for range rapid.IntRange(1, 150).Draw(t, "steps") {
			f.arrive(t, rapid.SampledFrom(classes).Draw(t, "class"))
			if len(f.guests) > 3 && rapid.Bool().Draw(t, "end") {
				f.end(0)
			}
		}
		var fresh supply
		for i := range f.x.nodes {
			if f.x.gates[i].present {
				fresh.add(&f.x.nodes[i], 1)
			}
		}
		if fresh != p.supply {
			t.Fatal("supply differs from a fresh count")
		}
	})
}

// TestShapeSet: the shapes that are numbered are those nodes have, whatever came and
// went, and numbers do not run away.
func TestShapeSet(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		f := newFleetTest(NewPotential())
		f.live(t)
		want := map[Shape]int32{}
		for i := range f.x.nodes {
			if f.there[i] {
				want[f.x.nodes[i].Shape]++
				if got := f.x.shapeSet.numbers[f.x.nodes[i].Shape]; got != f.x.gates[i].shape {
					t.Fatalf("node %d has number %d, its shape %d", i, f.x.gates[i].shape, got)
				}
			}
		}
		if len(f.x.shapeSet.numbers) != len(want) || len(f.x.shapeSet.nodes) > len(f.shapes) {
			t.Fatalf("%d shapes numbered up to %d, want %d", len(f.x.shapeSet.numbers), len(f.x.shapeSet.nodes), len(want))
		}
		for shape, nodes := range want {
			if got := f.x.shapeSet.nodes[f.x.shapeSet.numbers[shape]]; got != nodes {
				t.Fatalf("%d nodes of a shape, want %d", got, nodes)
			}
		}
	})
}

// TestGroupsForOthers: a request that could go anywhere does not take the only node that a
// request of the same number of GPUs, but more CPU, fits on.
func TestGroupsForOthers(t *testing.T) {
	light, heavy := Class{GPUs: 8, Milli: Whole, CPU: 8000}, Class{GPUs: 8, Milli: Whole, CPU: 120_000}
	x := NewIndex(NewOracle([]Demand{{Class{GPUs: 1, Milli: 500, CPU: 1000}, 1000}, {light, 5}, {heavy, 2}}))
	for at, cpu := range []int64{128, 96, 96, 96} {
		empty := emptyNode(ModelID(1+min(at, 1)), 8, cpu, 384)
		x.Set(at, uint32(at), empty, empty)
	}
	x.Refresh()
	if scarce, _, _ := x.Explain(&light, 0); scarce.Slots[2] != micro {
		t.Errorf("the scarce node: %v", scarce)
	}
	if plenty, _, _ := x.Explain(&light, 1); plenty.Slots[2] != 0 {
		t.Errorf("one of many: %v", plenty)
	}
	if got, ok := x.Best(&light); !ok || got.Ordinal == 0 {
		t.Errorf("light goes to %d", got.Ordinal)
	}
	if got, ok := x.Best(&heavy); !ok || got.Ordinal != 0 {
		t.Errorf("heavy goes to %d", got.Ordinal)
	}
}

// TestTermsAddUp: the explanation of the best node is its cost, and taking a
// broken group or a scarce model shows by name.
func TestTermsAddUp(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		f := newFleetTest(NewOracle(genWorkload().Draw(t, "workload")))
		classes := rapid.SliceOfN(genClass(), 1, 8).Draw(t, "classes")
		for range rapid.IntRange(1, 40).Draw(t, "steps") {
			c := rapid.SampledFrom(classes).Draw(t, "class")
			best, ok := f.x.Best(&c)
			if !ok {
				continue
			}
			terms, choice, ok := f.x.Explain(&c, best.Ordinal)
			if !ok || choice != best || terms.Cost != best.Cost {
				t.Fatalf("best %+v, explained %+v as %v", best, choice, terms)
			}
			sum := terms.Model
			for _, s := range terms.Slots {
				sum += s
			}
			if terms.Base() < 0 || sum < 0 || steps(terms.Base())+steps(sum) != terms.Cost {
				t.Fatalf("terms do not add up: %v", terms)
			}
			f.place(c, best)
			after := f.shapes[best.Ordinal]
			if got := f.x.policy.(*Potential).tables.Potential(&after); got != terms.After {
				t.Fatalf("promised potential %d, got %d", terms.After, got)
			}
		}
	})
}

// TestForgottenClasses: an index that may keep few classes answers the same.
func TestForgottenClasses(t *testing.T) {
	f := newFleetTest(NewPotential())
	f.x.maxCells = 10 * len(f.shapes)
	for i := range 3000 {
		c := Class{CPU: int64(i % 700), GPUs: 1, Milli: uint16(1 + i%Whole)}
		f.x.Arrive(&c)
		want, _ := f.x.Scan(&c)
		if got, _ := f.x.Best(&c); got != want {
			t.Fatalf("class %d: %+v, want %+v", i, got, want)
		}
		if len(f.x.classes) > 10 {
			t.Fatalf("%d classes kept", len(f.x.classes))
		}
	}
}

// TestKeys compares the set with a sorted slice.
func TestKeys(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var s keys
		var want []key
		draw := rapid.Custom(func(t *rapid.T) key { return key(rapid.IntRange(0, 600).Draw(t, "key")) })
		if rapid.Bool().Draw(t, "load") {
			want = slices.Compact(slices.Sorted(slices.Values(rapid.SliceOfN(draw, 0, 400).Draw(t, "keys"))))
			s.load(want)
		}
		for _, k := range rapid.SliceOfN(draw, 0, 500).Draw(t, "moves") {
			at, found := slices.BinarySearch(want, k)
			if found {
				s.remove(k)
				want = slices.Delete(want, at, at+1)
			} else {
				s.insert(k)
				want = slices.Insert(want, at, k)
			}
		}
		if got := slices.Concat(s.chunks...); !slices.Equal(got, want) {
			t.Fatalf("got %v, want %v", got, want)
		}
		if s.empty() != (len(want) == 0) {
			t.Fatal("empty is wrong")
		}
	})
}
