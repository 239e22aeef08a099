package engine

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"github.com/tangram-dev/tangram/core/arbiter"
	"github.com/tangram-dev/tangram/core/model"
)

// bundle is members that are evicted together: one that the gang can spare, or a subgroup,
// or all of it.
type bundle struct {
	gang    *known
	members []model.HolderID
	whole   bool
	// lost is the work that is lost, in thousandths of a GPU times seconds.
	lost int64
	// budgets are those of all members, one entry for each.
	budgets []Budget
}

// within adds a bundle to what is taken of budgets, if they allow it.
func (b *bundle) within(taken map[string]int) bool {
	for i, budget := range b.budgets {
		if taken[budget.Name]++; taken[budget.Name] > budget.Allowed {
			giveBack(taken, b.budgets[:i+1])
			return false
		}
	}
	return true
}

func giveBack(taken map[string]int, budgets []Budget) {
	for _, b := range budgets {
		taken[b.Name]--
	}
}

// coupled says whether the bundle is on more than one node, or has parts of devices:
// then what it frees depends on who else goes.
func (b *bundle) coupled() bool {
	first := b.gang.placed[b.members[0]].node
	return slices.ContainsFunc(b.members, func(h model.HolderID) bool {
		s := b.gang.placed[h]
		return s.node != first || b.gang.Roles[s.role].Request.Kind() != model.Whole
	})
}

func compareBundles(a, b *bundle) int {
	return cmp.Or(cmp.Compare(a.gang.Priority, b.gang.Priority), boolCompare(a.whole, b.whole),
		cmp.Compare(len(a.members), len(b.members)), cmp.Compare(a.lost, b.lost),
		cmp.Compare(b.gang.started, a.gang.started), youngerFirst(&a.gang.Gang, &b.gang.Gang), cmp.Compare(a.members[0], b.members[0]))
}

// youngerFirst orders gangs that started in the same second: the later ones first, then
// by name, so that equal stories have equal ends whatever IDs their pods get.
func youngerFirst(a, b *Gang) int {
	return cmp.Or(cmp.Compare(b.Submitted, a.Submitted), cmp.Compare(len(b.Name), len(a.Name)), cmp.Compare(b.Name, a.Name))
}

func boolCompare(a, b bool) int {
	switch {
	case a == b:
		return 0
	case b:
		return -1
	}
	return 1
}

// split cuts a gang into bundles: each member beyond its minimum alone, the last
// ones first, and all of it.
func (e *Engine) split(k *known, now int64) []*bundle {
	seconds := max(1, (now-k.started)/int64(time.Second))
	var out []*bundle
	add := func(hs []model.HolderID, whole bool) {
		b := &bundle{gang: k, members: hs, whole: whole}
		for _, h := range hs {
			if !e.evictable(h) {
				return
			}
			b.budgets = append(b.budgets, e.options.Facts.Budgets(h)...)
			b.lost += e.planner.Demand(k.Roles[k.placed[h].role].Request) * seconds
		}
		if b.within(map[string]int{}) {
			out = append(out, b)
		}
	}
	if k.tree != nil {
		k.splitTree(add)
		add(slices.Sorted(maps.Keys(k.placed)), true)
		return out
	}
	spare := len(k.placed) - k.Min
	for i := len(k.Roles) - 1; i >= 0; i-- {
		spareRole := k.have[i] - k.Roles[i].Min
		for _, h := range slices.Backward(k.Roles[i].Members) {
			if _, placed := k.placed[h]; placed && spare > 0 && spareRole > 0 {
				add([]model.HolderID{h}, false)
				spare, spareRole = spare-1, spareRole-1
			}
		}
	}
	add(slices.Sorted(maps.Keys(k.placed)), true)
	return out
}

// amounts is what a bundle is charged.
func (e *Engine) amounts(b *bundle) (sum arbiter.Amounts) {
	for _, h := range b.members {
		sum = sum.Plus(b.gang.placed[h].charge)
	}
	return sum
}
