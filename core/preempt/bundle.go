package preempt

import (
	"cmp"
	"slices"
	"time"

	"github.com/tangram-dev/tangram/core/arbiter"
	"github.com/tangram-dev/tangram/core/cluster"
	"github.com/tangram-dev/tangram/core/ground"
	"github.com/tangram-dev/tangram/core/model"
)

// bundle is members that are evicted together: one that the gang can spare, or a subgroup,
// or all of it.
type bundle struct {
	gang    *cluster.Tracked
	members []model.HolderID
	whole   bool
	// lost is the work that is lost, in thousandths of a GPU times seconds.
	lost int64
	// budgets are those of all members, one entry for each.
	budgets []cluster.Budget
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

func giveBack(taken map[string]int, budgets []cluster.Budget) {
	for _, b := range budgets {
		taken[b.Name]--
	}
}

// node is where a member of the bundle is.
func (b *bundle) node(h model.HolderID) model.NodeID {
	at, _ := b.gang.PlaceOf(h)
	return at.Node
}

// coupled says whether the bundle is on more than one node, or has parts of devices:
// then what it frees depends on what else goes.
func (b *bundle) coupled() bool {
	first := b.node(b.members[0])
	return slices.ContainsFunc(b.members, func(h model.HolderID) bool {
		at, _ := b.gang.PlaceOf(h)
		return at.Node != first || b.gang.Roles[at.Role].Request.Kind() != model.Whole
	})
}

func compareBundles(a, b *bundle) int {
	return cmp.Or(cmp.Compare(a.gang.Priority, b.gang.Priority), boolCompare(a.whole, b.whole),
		cmp.Compare(len(a.members), len(b.members)), cmp.Compare(a.lost, b.lost),
		cmp.Compare(b.gang.Started(), a.gang.Started()), youngerFirst(&a.gang.Gang, &b.gang.Gang), cmp.Compare(a.members[0], b.members[0]))
}

// youngerFirst orders gangs that started in the same second: the later ones first, then
// by name, so that equal stories have equal ends whatever IDs their pods get.
func youngerFirst(a, b *cluster.Gang) int {
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

// split cuts a gang into bundles.
func (p *Preemptor) split(k *cluster.Tracked, now int64) []*bundle {
	seconds := max(1, (now-k.Started())/int64(time.Second))
	var out []*bundle
	k.Split(func(hs []model.HolderID, whole bool) {
		b := &bundle{gang: k, members: hs, whole: whole}
		for _, h := range hs {
			if !p.evictable(h) {
				return
			}
			b.budgets = append(b.budgets, p.options.Facts.Budgets(h)...)
			b.lost += ground.DemandOf(p.cluster, k, h) * seconds
		}
		if b.within(map[string]int{}) {
			out = append(out, b)
		}
	})
	return out
}

// amounts is what a bundle is charged.
func (b *bundle) amounts() (sum arbiter.Amounts) {
	for _, h := range b.members {
		at, _ := b.gang.PlaceOf(h)
		sum = sum.Plus(at.Charge)
	}
	return sum
}

// members are all that go with some bundles, sorted, each once.
func members(victims []*bundle) []model.HolderID {
	var out []model.HolderID
	for _, b := range victims {
		out = append(out, b.members...)
	}
	slices.Sort(out)
	return slices.Compact(out)
}

func priorities(all []*bundle) []int32 {
	var out []int32
	for _, b := range all {
		out = append(out, b.gang.Priority)
	}
	slices.Sort(out)
	return slices.Compact(out)
}
