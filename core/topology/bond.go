package topology

import "github.com/tangram-dev/tangram/core/model"

// maxSteps bounds a search for bonded sets. Links of real machines come in islands
// and need a few dozen steps; the bound is for inventories made up to be hard, where
// the best set seen so far is the answer.
const maxSteps = 50_000

// joined says whether two devices satisfy a bond.
func (l *Links) joined(a, b int, bond model.Bond) bool {
	return l.class[a][b] >= bond.Link && (!bond.NUMA || l.numa[a] == l.numa[b] && l.numa[a] != model.NUMAUnknown)
}

// reach returns, for each device of a set, the others of it that satisfy a bond with
// it.
func (l *Links) reach(set model.Mask, bond model.Bond) []model.Mask {
	out := make([]model.Mask, l.n)
	for a := range set.Slots() {
		for b := range set.Slots() {
			if a != b && l.joined(a, b, bond) {
				out[a] = out[a].With(b)
			}
		}
	}
	return out
}

// Bonded says whether every two devices of a set satisfy a bond.
func (l *Links) Bonded(set model.Mask, bond model.Bond) bool {
	if bond == (model.Bond{}) {
		return true
	}
	for a := range set.Slots() {
		for b := range set.Slots() {
			if a < b && !l.joined(a, b, bond) {
				return false
			}
		}
	}
	return true
}

// Within is Best among the sets in which every pair satisfies a bond. It returns 0 when
// the free devices have no such set of k.
func (l *Links) Within(free model.Mask, k int, bond model.Bond) model.Mask {
	if k <= 1 || l.Bonded(free, bond) {
		return l.Best(free, k)
	}
	return l.Where(free, k, bond, func(model.Mask) bool { return true })
}

// Where is Within among the sets that pass a test. Cost: the test of up to all
// bonded sets of k.
func (l *Links) Where(free model.Mask, k int, bond model.Bond, passes func(model.Mask) bool) model.Mask {
	w := walk{l: l, free: free, k: k, reach: l.reach(free, bond), passes: passes}
	w.extend(0, free)
	return w.best
}

// walk looks at bonded sets of k devices in ascending order of their slots.
type walk struct {
	l      *Links
	free   model.Mask
	k      int
	reach  []model.Mask
	passes func(model.Mask) bool
	best   model.Mask
	steps  int
}

// extend adds devices of `next`, all of which satisfy the bond with all of `set`.
func (w *walk) extend(set, next model.Mask) {
	if w.steps++; w.steps > maxSteps {
		return
	}
	missing := w.k - set.Count()
	if missing == 0 {
		if (w.best == 0 || w.l.better(w.free, set, w.best)) && w.passes(set) {
			w.best = set
		}
		return
	}
	for slot := range next.Slots() {
		if next.Count() < missing {
			return
		}
		next &^= 1 << slot
		w.extend(set.With(slot), next&w.reach[slot])
	}
}

// better compares two sets of one size as Best does: the better connected one, else
// the one that leaves the better connected remainder, else the lower slots.
func (l *Links) better(free, a, b model.Mask) bool {
	if l.weight != nil {
		if x, y := l.weight[a], l.weight[b]; x != y {
			return x > y
		}
		if x, y := l.weight[free&^a], l.weight[free&^b]; x != y {
			return x > y
		}
	}
	return a < b
}

// Groups are the maximal sets of devices in which every pair satisfies a bond; a device
// may be in several. Sorted, larger sets first, then lower slots.
func (l *Links) Groups(set model.Mask, bond model.Bond) []model.Mask {
	if set == 0 {
		return nil
	}
	if l.Bonded(set, bond) {
		return []model.Mask{set}
	}
	reach := l.reach(set, bond)
	var out []model.Mask
	steps := 0
	// Bron and Kerbosch, 1973, with the pivot that leaves least to do.
	var grow func(chosen, next, seen model.Mask)
	grow = func(chosen, next, seen model.Mask) {
		if steps++; steps > maxSteps {
			return
		}
		if next|seen == 0 {
			out = append(out, chosen)
			return
		}
		var skip model.Mask
		for slot := range (next | seen).Slots() {
			if near := next & reach[slot]; near.Count() > skip.Count() {
				skip = near
			}
		}
		for slot := range (next &^ skip).Slots() {
			grow(chosen.With(slot), next&reach[slot], seen&reach[slot])
			next &^= 1 << slot
			seen = seen.With(slot)
		}
	}
	grow(0, set, 0)
	sortMasks(out)
	return out
}

// Largest is how many devices the largest group of a set has.
func (l *Links) Largest(set model.Mask, bond model.Bond) int {
	if groups := l.Groups(set, bond); len(groups) > 0 {
		return groups[0].Count()
	}
	return 0
}
