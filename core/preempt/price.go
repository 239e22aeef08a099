package preempt

import (
	"cmp"
	"math"
	"slices"

	"github.com/tangram-dev/tangram/core/gang"
	"github.com/tangram-dev/tangram/core/ground"
	"github.com/tangram-dev/tangram/core/model"
	"github.com/tangram-dev/tangram/core/place"
	"github.com/tangram-dev/tangram/core/reserve"
)

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
func (s *search) cheapestNodes(tier []*bundle) ([]model.NodeID, []*bundle, bool) {
	ask := s.gang.Demand()
	s.cluster.Constrain(s.gang, ask, reserve.Closed(s.book.Closing(s.gang, s.now)))
	byNode := map[model.NodeID][]*bundle{}
	for _, b := range tier {
		seen := map[model.NodeID]bool{}
		for _, h := range b.members {
			if n := b.node(h); !seen[n] {
				seen[n] = true
				byNode[n] = append(byNode[n], b)
			}
		}
	}
	groups := map[string][]priced{}
	var names []string
	only := s.only
	if only == nil {
		only = slices.Collect(s.cluster.Ledger().Nodes())
	}
	for _, id := range slices.Sorted(slices.Values(only)) {
		name, ok := ground.DomainOf(s.cluster, id, s.gang.Require)
		if !ok || ask.May != nil && ask.May(0, id) != nil {
			continue
		}
		if p := s.price(ask.Roles[0].Request, id, byNode[id], ask.Min); len(p.prices) > 1 {
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
func (s *search) price(r *model.Request, id model.NodeID, there []*bundle, need int) priced {
	order := slices.Clone(there)
	slices.SortStableFunc(order, func(a, b *bundle) int {
		return cmp.Or(cmp.Compare(len(a.members), len(b.members)), cmp.Compare(s.frees(b, id), s.frees(a, id)),
			boolCompare(a.whole, b.whole), cmp.Compare(a.lost, b.lost))
	})
	p := priced{id: id, prices: []int64{0}, needs: []int{0}, order: order}
	gone := map[model.HolderID]bool{}
	price, next := int64(0), 0
	v, ok := s.cluster.Ledger().View(id)
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
			v, ok = s.cluster.Ledger().ViewWith(id, func(h model.HolderID) bool { return gone[h] }, nil)
		}
	}
	return p
}
