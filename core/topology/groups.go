package topology

import "github.com/tangram-dev/tangram/core/model"

// Uniform says whether all sets of one size are connected alike.
func (l *Links) Uniform() bool { return l.uniform }

// Slots is how many groups of k devices, as well connected as any k of the node,
// can be taken out of a set one after the other.
func (l *Links) Slots(set model.Mask, k int) int {
	if l.uniform || k < 2 {
		return set.Count() / max(k, 1)
	}
	best := l.weight[l.Best(model.FullMask(l.n), k)]
	groups := 0
	for set.Count() >= k {
		group := l.Best(set, k)
		if l.weight[group] < best {
			break
		}
		groups++
		set &^= group
	}
	return groups
}
