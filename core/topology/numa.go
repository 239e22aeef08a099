package topology

import (
	"cmp"
	"slices"

	"github.com/tangram-dev/tangram/core/model"
)

// sortMasks puts larger sets first, then those of lower slots.
func sortMasks(masks []model.Mask) {
	slices.SortFunc(masks, func(a, b model.Mask) int {
		return cmp.Or(cmp.Compare(b.Count(), a.Count()), cmp.Compare(a, b))
	})
}

// NUMANodes splits a set of devices by NUMA node, in the order of their numbers.
// Devices that did not say are left out.
func (l *Links) NUMANodes(set model.Mask) []model.Mask {
	byNode := map[int]model.Mask{}
	var numbers []int
	for slot := range set.Slots() {
		n := l.numa[slot]
		if n == model.NUMAUnknown {
			continue
		}
		if byNode[n] == 0 {
			numbers = append(numbers, n)
		}
		byNode[n] = byNode[n].With(slot)
	}
	slices.Sort(numbers)
	out := make([]model.Mask, len(numbers))
	for i, n := range numbers {
		out[i] = byNode[n]
	}
	return out
}

// FewestNUMA is how many NUMA nodes k of the devices must touch at least; 0 when
// there are not as many.
func (l *Links) FewestNUMA(devices model.Mask, k int) int {
	nodes := l.NUMANodes(devices)
	sortMasks(nodes)
	have := 0
	for i, n := range nodes {
		if have += n.Count(); have >= k {
			return i + 1
		}
	}
	return 0
}

// TouchesNUMA is how many NUMA nodes a set's devices are on; a device with an unknown
// NUMA node counts as being on one of its own.
func (l *Links) TouchesNUMA(set model.Mask) int {
	count, rest := 0, set
	for slot := range set.Slots() {
		if !rest.Has(slot) {
			continue // counted with an earlier one
		}
		count++
		for other := range rest.Slots() {
			if l.numa[other] == l.numa[slot] && (other == slot || l.numa[slot] != model.NUMAUnknown) {
				rest &^= 1 << other
			}
		}
	}
	return count
}

// maxUnions bounds how many combinations of NUMA nodes are looked at: all of them up
// to eight nodes, more than any machine sold with GPUs has.
const maxUnions = 256

// NUMAUnions are the devices of every m NUMA nodes together, as far as they are in
// the set. Order: that of the NUMA nodes' numbers.
func (l *Links) NUMAUnions(set model.Mask, m int) []model.Mask {
	nodes := l.NUMANodes(set)
	var out []model.Mask
	var add func(from int, missing int, union model.Mask)
	add = func(from int, missing int, union model.Mask) {
		if missing == 0 {
			if len(out) < maxUnions {
				out = append(out, union)
			}
			return
		}
		for i := from; i+missing <= len(nodes); i++ {
			add(i+1, missing-1, union|nodes[i])
		}
	}
	// Fewer NUMA nodes have devices left than may be used: all of them.
	add(0, min(m, len(nodes)), 0)
	return out
}

// WithinOneOf is Within, tried in each of several parts of the free devices; the best
// of the sets found.
func (l *Links) WithinOneOf(parts []model.Mask, free model.Mask, k int, bond model.Bond) model.Mask {
	var best model.Mask
	for _, part := range parts {
		set := l.Within(part&free, k, bond)
		if set != 0 && (best == 0 || l.better(free, set, best)) {
			best = set
		}
	}
	return best
}
