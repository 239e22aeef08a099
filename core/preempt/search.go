package preempt

import (
	"cmp"
	"slices"

	"github.com/tangram-dev/tangram/core/cluster"
	"github.com/tangram-dev/tangram/core/gang"
	"github.com/tangram-dev/tangram/core/ground"
	"github.com/tangram-dev/tangram/core/model"
	"github.com/tangram-dev/tangram/core/reserve"
)

// search is one search for victims.
type search struct {
	*Preemptor
	// gang is what needs room.
	gang *cluster.Tracked
	// only are the nodes to look at; nil: all.
	only []model.NodeID
	now  int64
}

// victims chooses the bundles to evict.
func (s *search) victims() ([]*bundle, gang.Plan, bool) {
	all := s.bundles()
	for _, priority := range priorities(all) {
		for _, whole := range []bool{false, true} {
			tier := slices.DeleteFunc(slices.Clone(all), func(b *bundle) bool {
				return b.gang.Priority > priority || b.gang.Priority == priority && b.whole && !whole
			})
			for _, tier := range s.offers(tier) {
				if _, ok := s.without(tier); !ok {
					continue
				}
				if chosen, plan, ok := s.cheapestOf(tier); ok {
					return chosen, plan, true
				}
			}
		}
	}
	return nil, gang.Plan{}, false
}

// bundles lists what may be evicted, cheapest first.
func (s *search) bundles() []*bundle {
	contest := s.rule.For(s.gang)
	var out []*bundle
	for o := range s.cluster.RunningOn(s.only) { // sorted below
		if contest.Evicts(o) {
			out = append(out, s.split(o, s.now)...)
		}
	}
	slices.SortFunc(out, compareBundles)
	return out
}

// givable are the bundles that may be taken together: of other queues no more than
// they use above their share, of budgets no more than they allow, the first ones
// first.
func (s *search) givable(bundles []*bundle) []*bundle {
	reclaim, ok := s.rule.reclaim(s.gang)
	var out []*bundle
	taken := map[*cluster.Tracked]bool{} // whole
	budgets := map[string]int{}
	for _, b := range bundles {
		if taken[b.gang] || !b.within(budgets) {
			continue
		}
		if b.gang.QueueName() == s.gang.QueueName() || ok && reclaim.Take(b.gang.QueueName(), b.amounts()) {
			out = append(out, b)
			taken[b.gang] = b.whole
		} else {
			giveBack(budgets, b.budgets)
		}
	}
	return out
}

// offers are the sets of bundles to choose victims from. What is chosen of all may
// take more from a queue than it has above its share: then of those it can give
// together, the cheapest first. Where bundles are few, a small one may be in the way
// of a large one: then also the largest first.
func (s *search) offers(tier []*bundle) [][]*bundle {
	out := [][]*bundle{tier, s.givable(tier)}
	if len(out[1]) == len(tier) || len(tier) > maxReprieved {
		return out
	}
	byFrees := func(a, b *bundle) int { return cmp.Or(cmp.Compare(s.frees(b), s.frees(a)), compareBundles(a, b)) }
	byMembers := func(a, b *bundle) int {
		return cmp.Or(cmp.Compare(len(b.members), len(a.members)), compareBundles(a, b))
	}
	return append(out, s.givable(slices.SortedFunc(slices.Values(tier), byFrees)), s.givable(slices.SortedFunc(slices.Values(tier), byMembers)))
}

// admitted says whether the queues let the gang start once bundles are gone.
func (s *search) admitted(victims []*bundle) bool {
	t := s.cluster.Begin()
	defer t.Rollback()
	byGang := map[*cluster.Tracked][]model.HolderID{}
	for _, h := range members(victims) {
		o := s.cluster.GangOf(h)
		byGang[o] = append(byGang[o], h)
	}
	for o, hs := range byGang { // sums do not depend on the order
		t.Discharge(o, hs)
	}
	return s.cluster.Wait(s.gang, s.gang.Missing()).Code == 0
}

// without says whether the gang has a place once bundles are gone, and which.
func (s *search) without(gone []*bundle) (gang.Plan, bool) { return s.withoutOn(gone, s.only) }

// withoutOn is without for some nodes only when given.
func (s *search) withoutOn(gone []*bundle, only []model.NodeID) (gang.Plan, bool) {
	t := s.cluster.Begin()
	defer t.Rollback()
	for _, b := range gone {
		for _, h := range b.members {
			t.Drop(h)
		}
	}
	ask := s.gang.Demand()
	ask.Within = only
	s.cluster.Constrain(s.gang, ask, reserve.Closed(s.book.Closing(s.gang, s.now)))
	plan, failure := t.Plan(ask)
	return plan, failure == nil
}

// enough adds to bundles that make room the cheapest others that make quota.
func (s *search) enough(chosen, tier []*bundle) []*bundle {
	for _, b := range tier {
		if s.admitted(chosen) {
			break
		}
		if !slices.Contains(chosen, b) {
			chosen = append(chosen, b)
		}
	}
	return chosen
}

// reprieve puts back bundles that are not needed, those that come last in an order first.
// More gone never hurts, so it tries to put back one, then two more, then four, and is
// soon done where few of many are needed.
func (s *search) reprieve(victims []*bundle, order func(a, b *bundle) int) []*bundle {
	open := slices.SortedFunc(slices.Values(victims), order) // not decided yet
	var kept []*bundle
	for len(open) > 0 {
		back := 0
		for step := 1; ; step *= 2 {
			n := min(back+step, len(open))
			rest := slices.Concat(open[:len(open)-n], kept)
			if _, ok := s.without(rest); !ok || !s.admitted(rest) {
				break
			}
			if back = n; n == len(open) {
				break
			}
		}
		if open = open[:len(open)-back]; back == 0 {
			kept = append(kept, open[len(open)-1])
			open = open[:len(open)-1]
		}
	}
	return kept
}

// minPriority is below every priority.
const minPriority = -1 << 40

// ground is where victims for a gang are looked for now: where those that have to go
// matter least, and then where they are fewest.
func (p *Preemptor) ground(k *cluster.Tracked) ground.Ground {
	size, all := ground.Size(p.cluster, k.Missing())
	if all {
		return ground.Ground{}
	}
	contest := p.rule.For(k)
	forQuota := p.cluster.Wait(k, k.Missing()).ForQuota()
	type gift struct{ priority, demand int64 }
	var gifts []gift
	sites := ground.Sites(p.cluster, k, func(id model.NodeID, free, need int64) (order, then, gives int64, ok bool) {
		gifts = gifts[:0]
		for c := range p.cluster.Ledger().EachClaim(id) {
			if o := p.cluster.GangOf(c.Holder); o != nil && contest.Evicts(o) {
				d := ground.DemandOf(p.cluster, o, c.Holder)
				gifts = append(gifts, gift{int64(o.Priority), d})
				gives += d
			}
		}
		if forQuota && len(gifts) == 0 {
			return 0, 0, 0, false // a place alone does not help it
		}
		slices.SortFunc(gifts, func(a, b gift) int {
			return cmp.Or(cmp.Compare(a.priority, b.priority), cmp.Compare(b.demand, a.demand))
		})
		order = minPriority
		for _, g := range gifts {
			if free >= need && (!forQuota || then > 0) {
				break
			}
			free += g.demand
			order, then = g.priority, then+1
		}
		return order, then, gives, true
	})
	return ground.At(sites, ground.Hosts(p.cluster, k, contest.Evicts), size, k.Missing(), p.groundOf(k.ID))
}
