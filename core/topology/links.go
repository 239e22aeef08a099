package topology

import (
	"math/bits"

	"github.com/tangram-dev/tangram/core/model"
)

// maxTable is the most devices a link table is built for: 2^16 entries of 4
// bytes. Nodes with more (time-sliced counts without links) are treated as
// uniform.
const maxTable = 16

// Links knows how well any set of a node's devices is connected. It is built
// once per kind of node, never changed, and safe for concurrent use.
type Links struct {
	n int
	// uniform: every pair is joined alike, so all sets of one size are equal.
	uniform bool
	// weight[set] is the sum of pair weights inside the set; nil when uniform.
	weight []int32
	// best[k][free] is the answer of Best; nil for nodes of more than maxBest
	// devices, where it is searched each time.
	best [][]uint16
	// grade[a][b] is the pair's quality as reported to users, 0..100.
	grade [][]uint8
	// class[a][b] is the best link of the pair.
	class [][]model.LinkClass
	// numa[slot] is the device's NUMA node.
	numa []int
}

// pairWeight orders sets: link class first, the number of NVLinks inside the
// class. The steps follow nvidia-smi's classes; NVLink's are large enough that
// no sum of PCIe links on 16 devices (15 pairs at most per device) beats one.
func pairWeight(class model.LinkClass, count int) int32 {
	switch class {
	case model.NVSwitch, model.NVLink:
		return 1000 * int32(max(count, 1))
	case model.PIX:
		return 50
	case model.PXB:
		return 40
	case model.PHB:
		return 30
	case model.NODE:
		return 20
	}
	return 10
}

// pairGrade is what a pair is worth to a multi-GPU job, 0..100. Seed 003 knows
// two values: 100 for NVLink, 50 for anything else; the PCIe classes lie
// between.
func pairGrade(class model.LinkClass) uint8 {
	switch class {
	case model.NVSwitch, model.NVLink:
		return 100
	case model.PIX:
		return 80
	case model.PXB:
		return 70
	case model.PHB:
		return 60
	case model.NODE:
		return 55
	}
	return 50
}

// New builds the tables of a node. Cost: 2^n for n devices, n <= 16.
func New(node *model.Node) *Links {
	n := len(node.Devices)
	l := &Links{n: n, uniform: true, numa: make([]int, n), grade: make([][]uint8, n), class: make([][]model.LinkClass, n)}
	pair := make([][]int32, n)
	for a := range n {
		l.numa[a] = node.Devices[a].NUMA
		l.grade[a], l.class[a] = make([]uint8, n), make([]model.LinkClass, n)
		pair[a] = make([]int32, n)
		for b := range n {
			pair[a][b], l.grade[a][b] = pairWeight(model.SYS, 0), pairGrade(model.SYS)
		}
	}
	for _, link := range node.Links {
		w, g := pairWeight(link.Class, link.Count), pairGrade(link.Class)
		for _, x := range link.Between {
			for _, y := range link.Between {
				a, b := node.Slot(x, ""), node.Slot(y, "")
				if a >= 0 && b >= 0 && a != b {
					pair[a][b], l.grade[a][b], l.class[a][b] = max(pair[a][b], w), max(l.grade[a][b], g), max(l.class[a][b], link.Class)
				}
			}
		}
	}
	for a := range n {
		for b := range n {
			if a != b && (pair[a][b] != pair[0][1] || l.numa[a] != l.numa[0]) {
				l.uniform = false
			}
		}
	}
	if n > maxTable {
		l.uniform = true
	}
	if l.uniform {
		return l
	}
	l.weight = make([]int32, 1<<n)
	for set := 1; set < 1<<n; set++ {
		low := bits.TrailingZeros(uint(set))
		rest := set & (set - 1)
		w := l.weight[rest]
		for r := uint(rest); r != 0; r &= r - 1 {
			other := bits.TrailingZeros(r)
			w += pair[low][other]
			// Devices of one NUMA node share memory controllers: worth a little
			// less than a step of link class.
			if l.numa[low] == l.numa[other] && l.numa[low] != model.NUMAUnknown {
				w += 5
			}
		}
		l.weight[set] = w
	}
	if n <= maxBest {
		l.best = make([][]uint16, n+1)
		for k := 1; k <= n; k++ {
			l.best[k] = make([]uint16, 1<<n)
			for free := range model.Mask(1 << n) {
				if free.Count() >= k {
					l.best[k][free] = uint16(l.search(free, k))
				}
			}
		}
	}
	return l
}

// maxBest is the most devices Best is tabulated for: 3^10 subsets are looked at once
// per kind of node, instead of up to 252 for every node of every search.
const maxBest = 10

// Best chooses k of the free devices: the best connected set; among equals the one that
// leaves the best connected remainder; among those the lowest slots. A single device is
// therefore the one that the remainder depends on least. It returns 0 when fewer than k
// are free.
func (l *Links) Best(free model.Mask, k int) model.Mask {
	if k <= 0 || free.Count() < k {
		return 0
	}
	if l.uniform || free.Count() == k {
		return free.Lowest(k)
	}
	if l.best != nil {
		return model.Mask(l.best[k][free])
	}
	return l.search(free, k)
}

// search is Best without a table. Cost: the number of k-subsets, at most 12870.
func (l *Links) search(free model.Mask, k int) model.Mask {
	// Walk the k-subsets of `free` as k-subsets of its positions, in ascending
	// order (Gosper's hack), so the first of equals has the lowest slots.
	var slots [maxTable]int
	m := 0
	for s := range free.Slots() {
		slots[m] = s
		m++
	}
	var best model.Mask
	bestOwn, bestRest := int32(-1), int32(-1)
	for c := uint32(1)<<k - 1; c < 1<<m; {
		var set model.Mask
		for r := c; r != 0; r &= r - 1 {
			set = set.With(slots[bits.TrailingZeros32(r)])
		}
		own, rest := l.weight[set], l.weight[free&^set]
		if own > bestOwn || own == bestOwn && rest > bestRest {
			best, bestOwn, bestRest = set, own, rest
		}
		low := c & -c
		next := c + low
		c = next | ((c^next)>>2)/low
	}
	return best
}

// Grade is how well a set is connected, 0..100: the mean over its pairs. A
// single device needs no link: 100.
func (l *Links) Grade(set model.Mask) int {
	sum, pairs := 0, 0
	for a := range set.Slots() {
		for b := range set.Slots() {
			if a < b {
				sum += int(l.grade[a][b])
				pairs++
			}
		}
	}
	if pairs == 0 {
		return 100
	}
	return sum / pairs
}
