package topology_test

import (
	"testing"

	"pgregory.net/rapid"

	"github.com/tangram-dev/tangram/core/model"
	"github.com/tangram-dev/tangram/core/topology"
	"github.com/tangram-dev/tangram/test/coretest"
)

func drawBond(t *rapid.T) model.Bond {
	return model.Bond{Link: model.LinkClass(rapid.IntRange(0, 6).Draw(t, "bond")), NUMA: rapid.Bool().Draw(t, "one NUMA node")}
}

// bonded is the straightforward second implementation.
func bonded(n *model.Node, set model.Mask, bond model.Bond) bool {
	for a := range set.Slots() {
		for b := range set.Slots() {
			if a >= b {
				continue
			}
			class := model.SYS
			for _, l := range n.Links {
				has := 0
				for _, index := range l.Between {
					if index == n.Devices[a].Index || index == n.Devices[b].Index {
						has++
					}
				}
				if has == 2 {
					class = max(class, l.Class)
				}
			}
			x, y := n.Devices[a].NUMA, n.Devices[b].NUMA
			if class < bond.Link || bond.NUMA && (x != y || x == model.NUMAUnknown) {
				return false
			}
		}
	}
	return true
}

// TestWithinIsBest compares with trying every subset: the set satisfies the bond, no
// other that does is better, and it is found whenever there is one.
func TestWithinIsBest(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := coretest.DrawNode(t, "n")
		l := topology.New(n)
		free := model.Mask(rapid.Uint64().Draw(t, "free")) & model.FullMask(len(n.Devices))
		k, bond := rapid.IntRange(1, 8).Draw(t, "k"), drawBond(t)
		var best model.Mask
		largest := 0
		for set := model.Mask(1); set <= model.FullMask(len(n.Devices)); set++ {
			if set&^free != 0 || !bonded(n, set, bond) {
				continue
			}
			largest = max(largest, set.Count())
			if set.Count() != k {
				continue
			}
			o, r := weight(n, set), weight(n, free&^set)
			if own, rest := weight(n, best), weight(n, free&^best); best == 0 || o > own || o == own && r > rest {
				best = set
			}
		}
		if got := l.Within(free, k, bond); got != best {
			t.Fatalf("%d of %b within %+v: got %b, want %b", k, free, bond, got, best)
		}
		if got := l.Largest(free, bond); got != largest {
			t.Fatalf("largest group of %b within %+v: got %d, want %d", free, bond, got, largest)
		}
	})
}

// TestGroups: every bonded set is inside a group, every group is bonded, and none is
// inside another.
func TestGroups(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := coretest.DrawNode(t, "n")
		l, bond := topology.New(n), drawBond(t)
		all := model.FullMask(len(n.Devices))
		groups := l.Groups(all, bond)
		for i, g := range groups {
			if !bonded(n, g, bond) || !l.Bonded(g, bond) {
				t.Fatalf("group %b is not bonded", g)
			}
			for j, o := range groups {
				if i != j && g&^o == 0 {
					t.Fatalf("group %b is inside %b", g, o)
				}
			}
		}
		for set := model.Mask(1); set <= all; set++ {
			inside := false
			for _, g := range groups {
				inside = inside || set&^g == 0
			}
			if inside != bonded(n, set, bond) {
				t.Fatalf("%b: in a group %v", set, inside)
			}
		}
	})
}

// TestMadeUpToBeHard: a node of 64 devices where nearly every pair is linked is
// answered, and in bounded time.
func TestMadeUpToBeHard(t *testing.T) {
	b := coretest.Node("n").GPUs(64, "A100")
	for i := range 64 {
		for j := range i {
			if i/3 != j/3 {
				b.Link(model.NVLink, 1, i, j)
			}
		}
	}
	l := topology.New(b.Build())
	bond := model.Bond{Link: model.NVLink}
	if got := l.Within(model.FullMask(64), 4, bond); got.Count() != 4 || !l.Bonded(got, bond) {
		t.Errorf("got %b", got)
	}
	if got := l.Largest(model.FullMask(64), bond); got != 22 {
		t.Errorf("largest group: got %d", got)
	}
}

func TestNUMA(t *testing.T) {
	b := coretest.Node("n").GPUs(9, "A100")
	n := b.Build()
	for i := range 8 {
		n.Devices[i].NUMA = i / 2 // the ninth did not say
	}
	l := topology.New(n)
	all := model.FullMask(9)
	for k, want := range map[int]int{1: 1, 2: 1, 3: 2, 5: 3, 8: 4, 9: 0} {
		if got := l.FewestNUMA(all, k); got != want {
			t.Errorf("%d devices: got %d, want %d", k, got, want)
		}
	}
	if got := l.NUMAUnions(0b1111, 1); len(got) != 2 || got[0] != 0b11 || got[1] != 0b1100 {
		t.Errorf("got %b", got)
	}
	if got := l.NUMAUnions(all, 2); len(got) != 6 || got[0] != 0b1111 {
		t.Errorf("got %b", got)
	}
	if got := l.WithinOneOf(l.NUMAUnions(0b10111010, 1), 0b10111010, 2, model.Bond{}); got != 0b110000 {
		t.Errorf("the one NUMA node with two free: got %b", got)
	}
}
