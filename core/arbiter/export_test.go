package arbiter

// MayReclaim says whether amounts may move from one leaf to another: the one that
// gives is reclaimable and keeps its share of each, the one that takes stays
// within its own. If so, then after the move nothing of the same resources may
// move back.
func (t *Tree) MayReclaim(from, to string, amounts Amounts) bool {
	t.refresh()
	a, b := t.byName[from], t.byName[to]
	needs := t.divided(amounts.needs())
	if a == nil || b == nil || a == b || !a.leaf() || !b.leaf() || len(needs) == 0 {
		return false
	}
	top := meet(a, b)
	for n := a; n != top; n = n.parent {
		for _, d := range needs {
			if !n.Reclaimable || n.held(d.resource)-d.amount < max(n.share[d.resource], n.floor[d.resource]) {
				return false
			}
		}
	}
	return t.claims(b, top, needs)
}
