package engine

import (
	"cmp"
	"math"
	"slices"

	"github.com/tangram-dev/tangram/core/gang"
	"github.com/tangram-dev/tangram/core/model"
	"github.com/tangram-dev/tangram/core/place"
)

// maxReprieved bounds the bundles from which victims are chosen by putting back, one by
// one, who is not needed: each costs a plan.
const maxReprieved = 64

// maxReordered bounds the bundles for which that is done in several orders.
const maxReordered = 32

// cheapestOf chooses of bundles that are enough some that are and of which none could
// stay: as few members as it can find, then the least lost work. For a gang whose
// members are alike and ask for whole devices fewest finds the least number, as a
// rule. For the others bundles are put back in several orders,
// and the best of the results is taken.
func (e *Engine) cheapestOf(k *known, tier []*bundle, only []model.NodeID, now int64) (best []*bundle, plan gang.Plan, ok bool) {
	least := int64(math.MaxInt64)
	try := func(from []*bundle, order func(a, b *bundle) int) {
		chosen := e.reprieve(k, from, only, order, now)
		if c := cost(chosen); c < least && len(chosen) > 0 && len(e.givable(k, chosen)) == len(chosen) && e.admitted(k, chosen) {
			if p, fits := e.without(k, chosen, only, now); fits {
				best, plan, ok, least = chosen, p, true, c
			}
		}
	}
	few, exact := e.fewest(k, tier, only, now)
	few = e.enough(k, few, tier)
	try(few, compareBundles)
	if ok && (exact || least < 2*memberPrice) {
		return best, plan, ok // no fewer would do
	}
	if len(tier) <= maxReprieved {
		few = tier
	}
	if len(few) <= maxReordered {
		try(few, e.compareFrees)
		try(few, e.compareYield)
	}
	return best, plan, ok
}

// cost is the number of members that go, then the work lost with them.
func cost(bundles []*bundle) int64 {
	sum := memberPrice * int64(len(members(bundles)))
	for _, b := range bundles {
		sum += min(b.lost, memberPrice/1024)
	}
	return sum
}

// frees is what of devices a bundle gives up, in thousandths.
func (e *Engine) frees(b *bundle) int64 {
	sum := int64(0)
	for _, h := range b.members {
		sum += e.planner.Demand(b.gang.Roles[b.gang.placed[h].role].Request)
	}
	return sum
}

// compareFrees orders bundles of few members first, and of those the ones that free
// most; compareYield by how much they free per member.
func (e *Engine) compareFrees(a, b *bundle) int {
	return cmp.Or(cmp.Compare(len(a.members), len(b.members)), cmp.Compare(e.frees(b), e.frees(a)), compareBundles(a, b))
}

func (e *Engine) compareYield(a, b *bundle) int {
	return cmp.Or(cmp.Compare(e.frees(b)*int64(len(a.members)), e.frees(a)*int64(len(b.members))), compareBundles(a, b))
}

// fewest chooses of bundles that are enough as few members as it can find. For a gang
// whose members are alike and ask for whole devices it weighs, node by node, what each
// further member costs there, and takes the cheapest nodes together: exact where
// devices are all that counts and bundles are whole devices of one node. Otherwise the bundles on the nodes of a plan.
func (e *Engine) fewest(k *known, tier []*bundle, only []model.NodeID, now int64) (few []*bundle, exact bool) {
	ask := k.demand()
	if len(ask.Roles) == 1 && ask.Tree == nil && ask.Roles[0].Request.Kind() == model.Whole && ask.Roles[0].Request.Vendor != "" && len(ask.Beside) == 0 {
		if nodes, chosen, ok := e.cheapestNodes(k, tier, only, now); ok {
			if _, ok := e.without(k, chosen, nodes, now); ok {
				return chosen, ask.Roles[0].Request.Host == (model.Host{}) && !slices.ContainsFunc(tier, (*bundle).coupled)
			}
		}
	}
	plan, ok := e.without(k, tier, only, now)
	if !ok {
		return tier, false
	}
	nodes := map[model.NodeID]bool{}
	for _, p := range plan.Placements {
		nodes[p.Node] = true
	}
	var out []*bundle
	for _, b := range tier {
		if slices.ContainsFunc(b.members, func(h model.HolderID) bool { return nodes[b.gang.placed[h].node] }) {
			out = append(out, b)
		}
	}
	return out, false
}

// priced is what a gang's members cost on a node: prices[j] of j members, who then
// need the first needs[j] bundles of order gone.
type priced struct {
	id     model.NodeID
	prices []int64
	needs  []int
	order  []*bundle
}

// cheapestNodes are the nodes on which the gang's members, all alike, cost least, in
// one domain of the required level, and the bundles that go.
func (e *Engine) cheapestNodes(k *known, tier []*bundle, only []model.NodeID, now int64) ([]model.NodeID, []*bundle, bool) {
	ask := k.demand()
	e.constrain(k, ask, e.closing(k, now))
	byNode := map[model.NodeID][]*bundle{}
	for _, b := range tier {
		seen := map[model.NodeID]bool{}
		for _, h := range b.members {
			if n := b.gang.placed[h].node; !seen[n] {
				seen[n] = true
				byNode[n] = append(byNode[n], b)
			}
		}
	}
	groups := map[string][]priced{}
	var names []string
	if only == nil {
		only = slices.Collect(e.ledger.Nodes())
	}
	for _, id := range slices.Sorted(slices.Values(only)) {
		name, ok := e.domainOf(id, k.Require)
		if !ok || ask.May != nil && ask.May(0, id) != nil {
			continue
		}
		if p := e.price(ask.Roles[0].Request, id, byNode[id], ask.Min); len(p.prices) > 1 {
			if groups[name] == nil {
				names = append(names, name)
			}
			groups[name] = append(groups[name], p)
		}
	}
	best, found := int64(math.MaxInt64), map[int]int{}
	var in string
	for _, name := range names {
		if cost, counts := cheapest(groups[name], ask.Min); cost < best {
			best, found, in = cost, counts, name
		}
	}
	var nodes []model.NodeID
	gone := map[*bundle]bool{}
	for i, p := range groups[in] {
		if j := found[i]; j > 0 {
			nodes = append(nodes, p.id)
			for _, b := range p.order[:p.needs[j]] {
				gone[b] = true
			}
		}
	}
	chosen := slices.DeleteFunc(slices.Clone(tier), func(b *bundle) bool { return !gone[b] })
	return nodes, chosen, best < math.MaxInt64
}

// domainOf names a node's domain at a level; false when it has none.
func (e *Engine) domainOf(id model.NodeID, l model.Level) (string, bool) {
	switch {
	case l.Name == "":
		return "", true
	case l.Depth == model.NodeDepth:
		return string(id), true
	}
	d, ok := e.ledger.Domains().Of(id, l.Depth)
	return d.Path, ok
}

// cheapest is the least that so many members cost on some nodes together, and how
// many go where: a knapsack over nodes.
func cheapest(nodes []priced, need int) (int64, map[int]int) {
	// cost[m] is the cheapest way to place m members on the nodes so far; chosen[i][m]
	// how many of them go to node i.
	cost := make([]int64, need+1)
	for m := 1; m <= need; m++ {
		cost[m] = math.MaxInt64
	}
	chosen := make([][]uint8, len(nodes))
	for i, n := range nodes {
		chosen[i] = make([]uint8, need+1)
		for m := need; m >= 1; m-- {
			for j := 1; j < len(n.prices) && j <= m; j++ {
				if before := cost[m-j]; before != math.MaxInt64 && before+n.prices[j] < cost[m] {
					cost[m], chosen[i][m] = before+n.prices[j], uint8(j)
				}
			}
		}
	}
	out := map[int]int{}
	if cost[need] == math.MaxInt64 {
		return cost[need], out
	}
	for i, left := len(nodes)-1, need; i >= 0 && left > 0; i-- {
		if j := int(chosen[i][left]); j > 0 {
			out[i] = j
			left -= j
		}
	}
	return cost[need], out
}

// memberPrice keeps the number of members that go before the work lost with them.
const memberPrice = int64(1) << 40

// price is what each number of members costs on a node, as far as they fit once all
// bundles there are gone. Bundles of few members go first, and of those the ones that
// free most there, so that few are enough.
func (e *Engine) price(r *model.Request, id model.NodeID, there []*bundle, need int) priced {
	frees := func(b *bundle) int64 {
		sum := int64(0)
		for _, h := range b.members {
			if s := b.gang.placed[h]; s.node == id {
				sum += e.planner.Demand(b.gang.Roles[s.role].Request)
			}
		}
		return sum
	}
	order := slices.Clone(there)
	slices.SortStableFunc(order, func(a, b *bundle) int {
		return cmp.Or(cmp.Compare(len(a.members), len(b.members)), cmp.Compare(frees(b), frees(a)),
			boolCompare(a.whole, b.whole), cmp.Compare(a.lost, b.lost))
	})
	p := priced{id: id, prices: []int64{0}, needs: []int{0}, order: order}
	gone := map[model.HolderID]bool{}
	price, next := int64(0), 0
	v, ok := e.ledger.View(id)
	for j := 1; ok && j <= need && j*r.Count() <= model.MaxDevices; j++ {
		want := gang.Together(r, j)
		for {
			if v.Room(r.Vendor) >= want.Count() && v.Covers(want) {
				if _, refusal := place.Fit(want, v); refusal == nil {
					p.prices, p.needs = append(p.prices, price), append(p.needs, next)
					break
				}
			}
			if next == len(order) {
				return p
			}
			for _, h := range order[next].members {
				if !gone[h] {
					gone[h] = true
					price += memberPrice
				}
			}
			price += min(order[next].lost, memberPrice/1024)
			next++
			v, ok = e.ledger.ViewWith(id, func(h model.HolderID) bool { return gone[h] }, nil)
		}
	}
	return p
}
