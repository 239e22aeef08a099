package sim

import (
	"cmp"
	"slices"

	"github.com/tangram-dev/tangram/core/pack"
)

// Fragmentation is the measure F of FGD (USENIX ATC'23, section 3): the free GPU
// amount that a request drawn from a typical workload could not use, in
// expectation. CPU counts, memory does not: so it was published.
//
// Not safe for concurrent use.
type Fragmentation struct {
	types []typical
	sizes []uint16 // distinct GPU parts asked for, ascending
	holes holes    // scratch
}

// typical is a request of the typical workload, without memory.
type typical struct {
	class pack.Class
	size  int     // position in sizes; -1 without GPUs
	part  float64 // popularity; all sum to 1
}

// typicalPart is the part of arrivals the typical workload covers; the rare rest
// would double the cost and change nothing.
const typicalPart = 0.95

// NewFragmentation takes the most frequent types of a workload, as published:
// ordered by count, larger requests first among equals, until typicalPart of all
// arrivals is covered. gpuOnly leaves out requests without GPUs, which cannot
// use GPUs and so call all of them fragments, always.
func NewFragmentation(workload []pack.Demand, gpuOnly bool) *Fragmentation {
	counts := map[pack.Class]float64{}
	total := 0.0
	for _, d := range workload {
		if gpuOnly && d.Class.GPUs == 0 {
			continue
		}
		d.Class.Memory = 0
		counts[d.Class] += d.Count
		total += d.Count
	}
	types := make([]typical, 0, len(counts))
	for class, count := range counts {
		types = append(types, typical{class: class, size: -1, part: count})
	}
	slices.SortFunc(types, func(a, b typical) int {
		return cmp.Or(cmp.Compare(b.part, a.part), cmp.Compare(b.class.CPU, a.class.CPU), b.class.Compare(a.class))
	})
	f := &Fragmentation{}
	covered := 0.0
	for _, t := range types {
		if covered >= typicalPart*total {
			break
		}
		covered += t.part
		f.types = append(f.types, t)
		if t.class.GPUs > 0 {
			f.sizes = append(f.sizes, t.class.Milli)
		}
	}
	slices.Sort(f.sizes)
	f.sizes = slices.Compact(f.sizes)
	f.holes = holes{fit: make([]int16, len(f.sizes)), wasted: make([]int64, len(f.sizes))}
	for i := range f.types {
		t := &f.types[i]
		t.part /= covered
		if t.class.GPUs > 0 {
			t.size, _ = slices.BinarySearch(f.sizes, t.class.Milli)
		}
	}
	return f
}

// Of is F of a node, in milli-GPU.
func (f *Fragmentation) Of(s *pack.Shape) float64 {
	f.look(s)
	return f.of(s.Model, s.CPU)
}

// holes is a node's GPUs as requests of each size see them.
type holes struct {
	idle   int64
	fit    []int16 // by size: GPUs with room for one
	wasted []int64 // by size: free amount on the others
}

// look fills the holes of a node.
func (f *Fragmentation) look(s *pack.Shape) {
	h := &f.holes
	h.idle = 0
	clear(h.fit)
	clear(h.wasted)
	for _, free := range s.Free[:s.GPUs] {
		f.count(free, 1)
	}
}

// count takes a GPU in (1) or out (-1).
func (f *Fragmentation) count(free uint16, sign int) {
	h := &f.holes
	h.idle += int64(sign) * int64(free)
	for i, size := range f.sizes {
		if free >= size {
			h.fit[i] += int16(sign)
		} else {
			h.wasted[i] += int64(sign) * int64(free)
		}
	}
}

// of is the expectation: all idle GPU for a request that cannot run here, what
// is too small for one that can.
func (f *Fragmentation) of(m pack.ModelID, cpu int64) float64 {
	h := &f.holes
	idle, sum := float64(h.idle), 0.0
	for i := range f.types {
		t := &f.types[i]
		if t.size < 0 || cpu < t.class.CPU || !t.class.Models.Allows(m) || h.fit[t.size] < int16(t.class.GPUs) {
			sum += t.part * idle
		} else {
			sum += t.part * float64(h.wasted[t.size])
		}
	}
	return sum
}
