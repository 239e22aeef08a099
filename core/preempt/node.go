package preempt

import (
	"slices"

	"github.com/tangram-dev/tangram/core/cluster"
	"github.com/tangram-dev/tangram/core/model"
	"github.com/tangram-dev/tangram/core/place"
)

// OnNode names members that must leave one node for a request of a gang, which need not be
// known, to fit there, beside those that another scheduler (gpu-extender's) has chosen.
// What is evicted must be on this node, and what is left of every gang whole. False when
// the node is no place to preempt on, also when one of the chosen is protected.
func (p *Preemptor) OnNode(g *cluster.Gang, r *model.Request, node model.NodeID, chosen []model.HolderID) (more []model.HolderID, ok bool) {
	if g.NeverPreempts {
		return nil, false
	}
	contest := p.rule.For(&cluster.Tracked{Gang: *g})
	gone := map[model.HolderID]bool{}
	for _, h := range chosen {
		gone[h] = true
	}
	for _, h := range chosen {
		o := p.cluster.GangOf(h)
		if o == nil {
			continue // nothing that gangs or queues count
		}
		if !contest.Evicts(o) {
			return nil, false
		}
		if _, placed := o.PlaceOf(h); placed && !p.spares(o, gone) {
			rest, local := othersOn(o, node, gone)
			if !local {
				return nil, false // the gang would go on in part
			}
			more = append(more, rest...)
			for _, m := range rest {
				gone[m] = true
			}
		}
	}
	fits := func() bool {
		v, there := p.cluster.Ledger().ViewWith(node, func(h model.HolderID) bool { return gone[h] }, nil)
		if !there {
			return false
		}
		_, refusal := place.Fit(r, v)
		return refusal == nil
	}
	if fits() {
		return sorted(more), true
	}
	var taken []*bundle
	for _, b := range p.bundlesOn(node, contest, gone) {
		taken = append(taken, b)
		mark(gone, b, true)
		if fits() {
			ok = true
			break
		}
	}
	if !ok {
		return nil, false
	}
	// Those go back that turn out not to be needed, the ones that matter most first.
	for i := len(taken) - 1; i >= 0; i-- {
		mark(gone, taken[i], false)
		if fits() {
			taken = slices.Delete(taken, i, i+1)
		}
		for _, b := range taken { // members may be in several bundles
			mark(gone, b, true)
		}
	}
	return sorted(append(more, members(taken)...)), true
}

func mark(gone map[model.HolderID]bool, b *bundle, as bool) {
	for _, h := range b.members {
		gone[h] = as
	}
}

func sorted(hs []model.HolderID) []model.HolderID {
	slices.Sort(hs)
	return slices.Compact(hs)
}

// spares says whether a gang stays whole without some members.
func (p *Preemptor) spares(k *cluster.Tracked, gone map[model.HolderID]bool) bool {
	left := map[int]int{}
	all := 0
	for h, at := range k.Places() {
		if !gone[h] {
			left[at.Role]++
			all++
		}
	}
	if all < k.Min || k.Nested() {
		return false
	}
	for i, r := range k.Roles {
		if left[i] < r.Min {
			return false
		}
	}
	return true
}

// othersOn are the members of a gang that stay so far; not local when one of them is on
// another node.
func othersOn(k *cluster.Tracked, node model.NodeID, gone map[model.HolderID]bool) (out []model.HolderID, local bool) {
	for h, at := range k.Places() {
		switch {
		case gone[h]:
		case at.Node != node:
			return nil, false
		default:
			out = append(out, h)
		}
	}
	return out, true
}

// bundlesOn lists what may be evicted and is on one node alone, cheapest first, without gangs
// that lose members already.
func (p *Preemptor) bundlesOn(node model.NodeID, contest *Contest, gone map[model.HolderID]bool) (out []*bundle) {
	for o := range p.cluster.RunningOn([]model.NodeID{node}) { // sorted below
		if !contest.Evicts(o) {
			continue
		}
		for _, b := range p.split(o, p.memo.Now()) {
			if !slices.ContainsFunc(b.members, func(h model.HolderID) bool { return gone[h] || b.node(h) != node }) {
				out = append(out, b)
			}
		}
	}
	slices.SortFunc(out, compareBundles)
	return out
}
