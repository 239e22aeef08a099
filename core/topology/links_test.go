package topology_test

import (
	"testing"

	"pgregory.net/rapid"

	"github.com/tangram-dev/tangram/core/model"
	"github.com/tangram-dev/tangram/core/topology"
	"github.com/tangram-dev/tangram/test/coretest"
)

// twoIslands is a node of two NVLink quads.
func twoIslands() *model.Node {
	return coretest.Node("n").GPUs(8, "V100").
		Link(model.NVLink, 2, 0, 1, 2, 3).Link(model.NVLink, 2, 4, 5, 6, 7).Build()
}

func TestBest(t *testing.T) {
	mask := func(slots ...int) (m model.Mask) {
		for _, s := range slots {
			m = m.With(s)
		}
		return m
	}
	pairs := coretest.Node("n").GPUs(4, "V100").Link(model.NVLink, 1, 0, 2).Link(model.NVLink, 1, 1, 3).Build()
	tests := []struct {
		name string
		node *model.Node
		free model.Mask
		k    int
		want model.Mask
	}{
		{"a whole island", twoIslands(), model.FullMask(8), 4, mask(0, 1, 2, 3)},
		{"the intact island", twoIslands(), mask(1, 2, 3, 4, 5, 6, 7), 4, mask(4, 5, 6, 7)},
		{"one GPU from the broken island", twoIslands(), mask(1, 2, 3, 4, 5, 6, 7), 1, mask(1)},
		{"the linked pair, not the neighbours", pairs, model.FullMask(4), 2, mask(0, 2)},
		{"what is left", pairs, mask(0, 1, 3), 2, mask(1, 3)},
		{"one GPU that no other misses", pairs, mask(0, 1, 3), 1, mask(0)},
		{"uniform: lowest", coretest.Node("n").GPUs(8, "A100").Link(model.NVSwitch, 12, 0, 1, 2, 3, 4, 5, 6, 7).Build(), mask(2, 3, 5, 7), 2, mask(2, 3)},
		{"too few", pairs, mask(0), 2, 0},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := topology.New(tt.node).Best(tt.free, tt.k); got != tt.want {
				t.Errorf("got %b, want %b", got, tt.want)
			}
		})
	}
}

func TestGrade(t *testing.T) {
	l := topology.New(twoIslands())
	for set, want := range map[model.Mask]int{0b1: 100, 0b1111: 100, 0b10001: 50, 0b110000: 100, 0b10011: 66} {
		if got := l.Grade(set); got != want {
			t.Errorf("grade of %b: got %d, want %d", set, got, want)
		}
	}
}

// TestBestIsBest compares Best with trying every subset: no other set of the
// size has a better grade-weight, and ties are broken towards the better rest.
func TestBestIsBest(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := coretest.DrawNode(t, "n")
		l := topology.New(n)
		free := model.Mask(rapid.Uint64().Draw(t, "free")) & model.FullMask(len(n.Devices))
		k := rapid.IntRange(1, 8).Draw(t, "k")
		got := l.Best(free, k)
		if free.Count() < k {
			if got != 0 {
				t.Fatalf("%b has fewer than %d devices, got %b", free, k, got)
			}
			return
		}
		if got.Count() != k || got&^free != 0 {
			t.Fatalf("got %b: not %d devices of %b", got, k, free)
		}
		own, rest := weight(n, got), weight(n, free&^got)
		for set := model.Mask(1); set <= model.FullMask(len(n.Devices)); set++ {
			if set&^free != 0 || set.Count() != k {
				continue
			}
			o, r := weight(n, set), weight(n, free&^set)
			if o > own || o == own && r > rest || o == own && r == rest && set < got {
				t.Fatalf("got %b (%d, rest %d), but %b has %d, rest %d", got, own, rest, set, o, r)
			}
		}
	})
}

// weight is the straightforward second implementation of a set's link weight.
func weight(n *model.Node, set model.Mask) int {
	byClass := []int{10, 20, 30, 40, 50}
	sum := 0
	for a := range set.Slots() {
		for b := range set.Slots() {
			if a >= b {
				continue
			}
			best := 10
			for _, l := range n.Links {
				hasA, hasB := false, false
				for _, index := range l.Between {
					hasA = hasA || index == n.Devices[a].Index
					hasB = hasB || index == n.Devices[b].Index
				}
				if !hasA || !hasB {
					continue
				}
				if l.Class >= model.NVLink {
					best = max(best, 1000*max(l.Count, 1))
				} else {
					best = max(best, byClass[l.Class])
				}
			}
			if n.Devices[a].NUMA == n.Devices[b].NUMA && n.Devices[a].NUMA != model.NUMAUnknown {
				best += 5
			}
			sum += best
		}
	}
	return sum
}

// TestTableOrNot: a node of more devices than the table covers is answered alike.
func TestTableOrNot(t *testing.T) {
	b := coretest.Node("n").GPUs(12, "V100").Link(model.NVLink, 2, 8, 9, 10, 11).Link(model.PIX, 0, 0, 1)
	l := topology.New(b.Build())
	if got := l.Best(model.FullMask(12), 4); got != 0b111100000000 {
		t.Errorf("got %b", got)
	}
	if got := l.Best(model.FullMask(12), 1); got != 0b100 {
		t.Errorf("the device the remainder needs least: got %b", got)
	}
}

func BenchmarkBest(b *testing.B) {
	l := topology.New(twoIslands())
	for b.Loop() {
		l.Best(0b11101111, 4)
	}
}
