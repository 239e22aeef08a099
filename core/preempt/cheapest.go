package preempt

import (
	"cmp"
	"math"
	"slices"

	"github.com/tangram-dev/tangram/core/gang"
	"github.com/tangram-dev/tangram/core/ground"
	"github.com/tangram-dev/tangram/core/model"
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
func (s *search) cheapestOf(tier []*bundle) (best []*bundle, plan gang.Plan, ok bool) {
	least := int64(math.MaxInt64)
	try := func(from []*bundle, order func(a, b *bundle) int) {
		chosen := s.reprieve(from, order)
		if c := cost(chosen); c < least && len(chosen) > 0 && len(s.givable(chosen)) == len(chosen) && s.admitted(chosen) {
			if p, fits := s.without(chosen); fits {
				best, plan, ok, least = chosen, p, true, c
			}
		}
	}
	few, exact := s.fewest(tier)
	few = s.enough(few, tier)
	try(few, compareBundles)
	if ok && (exact || least < 2*memberPrice) {
		return best, plan, ok // no fewer would do
	}
	if len(tier) <= maxReprieved {
		few = tier
	}
	if len(few) <= maxReordered {
		try(few, s.compareFrees)
		try(few, s.compareYield)
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

// frees is what of devices a bundle gives up, in thousandths; on one node when given.
func (s *search) frees(b *bundle, on ...model.NodeID) (sum int64) {
	for _, h := range b.members {
		if len(on) == 0 || b.node(h) == on[0] {
			sum += ground.DemandOf(s.cluster, b.gang, h)
		}
	}
	return sum
}

// compareFrees orders bundles of few members first, and of those the ones that free
// most; compareYield by how much they free per member.
func (s *search) compareFrees(a, b *bundle) int {
	return cmp.Or(cmp.Compare(len(a.members), len(b.members)), cmp.Compare(s.frees(b), s.frees(a)), compareBundles(a, b))
}

func (s *search) compareYield(a, b *bundle) int {
	return cmp.Or(cmp.Compare(s.frees(b)*int64(len(a.members)), s.frees(a)*int64(len(b.members))), compareBundles(a, b))
}

// fewest chooses of bundles that are enough as few members as it can find. For a gang
// whose members are alike and ask for whole devices it weighs, node by node, what each
// further member costs there, and takes the cheapest nodes together: exact where
// devices are all that counts and bundles are whole devices of one node. Otherwise the bundles on the nodes of a plan.
func (s *search) fewest(tier []*bundle) (few []*bundle, exact bool) {
	ask := s.gang.Demand()
	if len(ask.Roles) == 1 && ask.Tree == nil && ask.Roles[0].Request.Kind() == model.Whole && ask.Roles[0].Request.Vendor != "" && len(ask.Beside) == 0 {
		if nodes, chosen, ok := s.cheapestNodes(tier); ok {
			if _, ok := s.withoutOn(chosen, nodes); ok {
				return chosen, ask.Roles[0].Request.Host == (model.Host{}) && !slices.ContainsFunc(tier, (*bundle).coupled)
			}
		}
	}
	plan, ok := s.without(tier)
	if !ok {
		return tier, false
	}
	nodes := map[model.NodeID]bool{}
	for _, p := range plan.Placements {
		nodes[p.Node] = true
	}
	var out []*bundle
	for _, b := range tier {
		if slices.ContainsFunc(b.members, func(h model.HolderID) bool { return nodes[b.node(h)] }) {
			out = append(out, b)
		}
	}
	return out, false
}
