package sim

import (
	"math"
	"testing"

	"github.com/tangram-dev/tangram/core/pack"
)

// freeNode makes a node of an index from free parts.
func freeNode(cpu int64, free ...uint16) *pack.Node {
	n := &pack.Node{Shape: pack.Shape{CPU: cpu, Memory: 1 << 20, GPUs: uint8(len(free)), Model: 1}}
	copy(n.Shape.Free[:], free)
	return n
}

// TestFragmentation checks F by hand, for each case of the definition.
func TestFragmentation(t *testing.T) {
	half := pack.Class{GPUs: 1, Milli: 500, CPU: 4000}
	tests := []struct {
		name  string
		class pack.Class
		node  *pack.Node
		want  float64
	}{
		{"fits: what is too small is lost", half, freeNode(8000, 1000, 400, 500), 400},
		{"lacks CPU: all is lost", half, freeNode(3000, 1000, 400, 500), 1900},
		{"lacks GPU: all is lost", half, freeNode(8000, 499, 400), 899},
		{"wrong model: all is lost", pack.Class{GPUs: 1, Milli: 500, Models: pack.Set(2)}, freeNode(8000, 1000), 1000},
		{"no GPUs: all is lost", pack.Class{CPU: 1000}, freeNode(8000, 700), 700},
		{"whole: used GPUs are lost", pack.Class{GPUs: 2, Milli: pack.Whole}, freeNode(8000, 1000, 1000, 900), 900},
		{"whole: too few", pack.Class{GPUs: 3, Milli: pack.Whole}, freeNode(8000, 1000, 1000, 900), 2900},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			f := NewFragmentation([]pack.Demand{{Class: tt.class, Count: 3}}, false)
			if got := f.Of(&tt.node.Shape); got != tt.want {
				t.Errorf("got %v, want %v", got, tt.want)
			}
		})
	}
}

// TestTypical: the most frequent types until 95 % are covered, without memory,
// with or without those that ask for no GPU.
func TestTypical(t *testing.T) {
	workload := []pack.Demand{
		{Class: pack.Class{GPUs: 1, Milli: 500, Memory: 1}, Count: 40}, {Class: pack.Class{GPUs: 1, Milli: 500, Memory: 2}, Count: 10},
		{Class: pack.Class{CPU: 1000}, Count: 46}, {Class: pack.Class{GPUs: 1, Milli: 300}, Count: 3}, {Class: pack.Class{GPUs: 1, Milli: 200}, Count: 1},
	}
	tests := []struct {
		name    string
		gpuOnly bool
		parts   []float64
	}{
		{"all", false, []float64{50.0 / 96, 46.0 / 96}},
		{"with GPUs", true, []float64{50.0 / 53, 3.0 / 53}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			f := NewFragmentation(workload, tt.gpuOnly)
			if len(f.types) != len(tt.parts) {
				t.Fatalf("got %d types, want %d", len(f.types), len(tt.parts))
			}
			for i, want := range tt.parts {
				if math.Abs(f.types[i].part-want) > 1e-12 {
					t.Errorf("type %d: got %v, want %v", i, f.types[i].part, want)
				}
			}
		})
	}
}

// TestBaselines checks the published scores on small cases.
func TestBaselines(t *testing.T) {
	share, one, two := pack.Class{GPUs: 1, Milli: 500, CPU: 12_800}, pack.Class{GPUs: 1, Milli: pack.Whole}, pack.Class{GPUs: 2, Milli: pack.Whole}
	withGuests := func(n *pack.Node, bits uint32) *pack.Node { n.Shape.Guests = bits; return n }
	tests := []struct {
		name  string
		rule  Rule
		class pack.Class
		node  *pack.Node
		want  int
	}{
		{"bestfit leaves half", BestFit(), share, freeNode(76_800, 1000, 500), 68}, // 100*(1 - 0.5*0.5 - 0.5*0.125), cut
		{"dotprod", DotProd(), share, freeNode(64_000, 1000, 1000), 96},            // 100*(1 - (0.5*0.1+0.25*0.0625)/2)
		{"packing on a shared GPU", Packing(), share, freeNode(0, 500, 1000), 95},
		{"packing opens a GPU of a used node", Packing(), one, freeNode(0, 500, 1000), 49},
		{"packing two of a used node", Packing(), two, freeNode(0, 500, 1000, 1000), 48},
		{"packing opens a node", Packing(), one, freeNode(0, 1000, 1000), 31},
		{"packing without GPUs", Packing(), pack.Class{CPU: 1}, freeNode(0, 1000), 0},
		{"clustering with its like", Clustering(), share, withGuests(freeNode(0, 500, 1000), 1), 95},
		{"clustering among others", Clustering(), share, withGuests(freeNode(0, 500, 1000), 3), 70},
		{"clustering on an unused node", Clustering(), share, freeNode(0, 1000, 1000), 43},
		{"clustering with others", Clustering(), share, withGuests(freeNode(0, 1000, 0), 2), 21},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := 100 - int(tt.rule.Rate(&tt.class, tt.node).Cost); got != tt.want {
				t.Errorf("got %d, want %d", got, tt.want)
			}
		})
	}
}

// TestTightest: shares of the baselines go to the smallest hole that holds them.
func TestTightest(t *testing.T) {
	c := pack.Class{GPUs: 1, Milli: 300}
	if got := BestFit().Rate(&c, freeNode(1, 1000, 290, 400, 350, 350)).Slot; got != 3 {
		t.Errorf("got device %d, want 3", got)
	}
}

// TestRandomIsUniform: every node that fits is picked about as often, no other.
func TestRandomIsUniform(t *testing.T) {
	r := NewRandom(1)
	for i := range 4 {
		r.Set(i, 0, pack.Shape{}, freeNode(1000*int64(i), pack.Whole, pack.Whole).Shape)
	}
	var picks [4]int
	c := pack.Class{CPU: 1000, GPUs: 1, Milli: pack.Whole}
	for range 3000 {
		choice, ok := r.Best(&c)
		if !ok || choice.Devices.Count() != 1 {
			t.Fatalf("got %+v %v", choice, ok)
		}
		picks[choice.Ordinal]++
	}
	if picks[0] != 0 || min(picks[1], picks[2], picks[3]) < 900 {
		t.Errorf("picks %v", picks)
	}
}
