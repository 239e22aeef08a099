package dispatch

import (
	"cmp"
	"maps"
	"math"
	"slices"
	"time"

	"github.com/tangram-dev/tangram/core/arbiter"
	"github.com/tangram-dev/tangram/core/gang"
	"github.com/tangram-dev/tangram/core/model"
	"github.com/tangram-dev/tangram/core/place"
)

// holdFor is how long nodes are kept for a gang while victims leave: longer than any
// sensible grace period.
const holdFor = int64(10 * time.Minute)

// bundle is members that are evicted together: one that the gang can spare, or all
// that are left of it.
type bundle struct {
	gang    *known
	members []model.HolderID
	// lost is the work that is lost, in thousandths of a GPU times seconds.
	lost int64
}

// evict finds the cheapest holders whose leaving lets a gang start, proven by a plan,
// or says that nobody's leaving helps. Cheapest is by the highest priority among
// them, then by how many bundles, then by lost work. The nodes are kept for the gang.
func (e *Engine) evict(k *known, now int64) (Evict, bool) {
	if r := e.reservationOf(k.ID); r != nil && r.until > 0 {
		return Evict{}, false // they are leaving already
	}
	all := e.bundles(k, now)
	if len(all) == 0 {
		return Evict{}, false
	}
	var victims []*bundle
	for _, priority := range priorities(all) {
		tier := slices.DeleteFunc(slices.Clone(all), func(b *bundle) bool { return b.gang.Priority > priority })
		if _, ok := e.without(k, tier, nil, now); ok {
			victims = e.fewest(k, tier, now)
			break
		}
	}
	if victims == nil {
		return Evict{}, false
	}
	victims = e.spare(k, victims, now)
	plan, ok := e.without(k, victims, nil, now)
	if !ok {
		return Evict{}, false
	}
	out := Evict{For: k.ID}
	for _, b := range victims {
		for _, h := range b.members {
			out.Members = append(out.Members, h)
			e.leaving[h] = k.ID
		}
	}
	slices.Sort(out.Members)
	e.unreserve(func(r *reservation) bool { return r.id == k.ID })
	r := &reservation{id: k.ID, at: now, until: now + holdFor, nodes: map[model.NodeID]bool{}}
	for _, p := range plan.Placements {
		r.nodes[p.Node] = true
	}
	e.reserved = append(e.reserved, r)
	e.generation++
	return out, true
}

// Spared tells that a victim stays after all: whoever it should make room for has to
// find others.
func (e *Engine) Spared(h model.HolderID) {
	id := e.leaving[h]
	for other, by := range e.leaving {
		if by == id {
			delete(e.leaving, other)
		}
	}
	e.unreserve(func(r *reservation) bool { return r.id == id && r.until > 0 })
}

// bundles lists what may be evicted for a gang: of its own queue what matters less,
// of other queues what they use above their share.
func (e *Engine) bundles(k *known, now int64) []*bundle {
	reclaim, mayReclaim := e.tree.Reclaim(arbiter.JobID(k.ID))
	var own, others []*bundle
	for _, o := range e.running {
		if !o.Preemptible || o.ID == k.ID || now-o.started < int64(o.MinRuntime) || e.isLeaving(o) {
			continue
		}
		if e.options.Evictable != nil && !allMay(e.options.Evictable, o) {
			continue
		}
		switch same := cmp.Or(o.Queue, arbiter.Default) == cmp.Or(k.Queue, arbiter.Default); {
		case same && o.Priority < k.Priority:
			own = append(own, e.split(o, now)...)
		case !same && mayReclaim:
			others = append(others, e.split(o, now)...)
		}
	}
	// Of what others have above their share, the cheapest may be taken; any part of
	// it, too.
	slices.SortFunc(others, compareBundles)
	for _, b := range others {
		amounts := map[arbiter.Resource]int64{}
		for _, h := range b.members {
			e.add(amounts, b.gang.Roles[b.gang.placed[h].role].Request, 1)
		}
		if reclaim.Take(cmp.Or(b.gang.Queue, arbiter.Default), e.tree.Amounts(amounts)) {
			own = append(own, b)
		}
	}
	slices.SortFunc(own, compareBundles)
	return own
}

func allMay(may func(model.HolderID) bool, k *known) bool {
	for h := range k.placed {
		if !may(h) {
			return false
		}
	}
	return true
}

func compareBundles(a, b *bundle) int {
	return cmp.Or(cmp.Compare(a.gang.Priority, b.gang.Priority), cmp.Compare(a.lost, b.lost),
		cmp.Compare(b.gang.started, a.gang.started), cmp.Compare(a.members[0], b.members[0]))
}

// split cuts a gang into bundles: each member beyond its minimum alone, the last
// ones first, and the rest.
func (e *Engine) split(k *known, now int64) []*bundle {
	members := slices.Sorted(maps.Keys(k.placed))
	seconds := max(1, (now-k.started)/int64(time.Second))
	cost := func(hs []model.HolderID) int64 {
		sum := int64(0)
		for _, h := range hs {
			sum += e.planner.Demand(k.Roles[k.placed[h].role].Request) * seconds
		}
		return sum
	}
	var out []*bundle
	have := make([]int, len(k.Roles))
	for _, s := range k.placed {
		have[s.role]++
	}
	for i := len(members) - 1; i >= 0 && len(members) > k.Min; i-- {
		if role := k.placed[members[i]].role; have[role] > k.Roles[role].Min {
			have[role]--
			one := []model.HolderID{members[i]}
			out = append(out, &bundle{k, one, cost(one)})
			members = slices.Delete(members, i, i+1)
		}
	}
	return append(out, &bundle{k, members, cost(members)})
}

func priorities(all []*bundle) []int32 {
	var out []int32
	for _, b := range all {
		out = append(out, b.gang.Priority)
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// without says whether the gang has a place once bundles are gone, and which, on some
// nodes only when given.
func (e *Engine) without(k *known, gone []*bundle, only map[model.NodeID]bool, now int64) (gang.Plan, bool) {
	tx := e.ledger.Begin()
	defer tx.Rollback()
	for _, b := range gone {
		for _, h := range b.members {
			e.ledger.Drop(h)
		}
	}
	ask := k.ask(k.missing())
	ask.Weights = e.options.Weights
	may := e.mayFor(k, now)
	ask.May = func(role int, node model.NodeID) bool {
		return (only == nil || only[node]) && (may == nil || may(role, node))
	}
	plan, failure := gang.Make(e.ledger, e.planner, ask)
	return plan, failure == nil
}

// spare puts back bundles that are not needed, the dearest first.
func (e *Engine) spare(k *known, victims []*bundle, now int64) []*bundle {
	slices.SortFunc(victims, compareBundles)
	for i := len(victims) - 1; i >= 0; i-- {
		rest := slices.Delete(slices.Clone(victims), i, i+1)
		if _, ok := e.without(k, rest, nil, now); ok {
			victims = rest
		}
	}
	return victims
}

// fewest chooses of bundles that are enough as few as it can find. For a gang whose
// members are alike it weighs, node by node, how many bundles each further member
// costs there, and takes the cheapest nodes together; otherwise the bundles on the
// nodes of a plan.
func (e *Engine) fewest(k *known, tier []*bundle, now int64) []*bundle {
	ask := k.ask(k.missing())
	if len(ask.Roles) == 1 && ask.Roles[0].Request.Kind() == model.Whole {
		if nodes, ok := e.cheapestNodes(k, tier, now); ok {
			chosen := e.onNodes(tier, nodes)
			if _, ok := e.without(k, chosen, nodes, now); ok {
				return chosen
			}
		}
	}
	plan, ok := e.without(k, tier, nil, now)
	if !ok {
		return tier
	}
	nodes := map[model.NodeID]bool{}
	for _, p := range plan.Placements {
		nodes[p.Node] = true
	}
	return e.onNodes(tier, nodes)
}

// onNodes are the bundles with a member on one of the nodes.
func (e *Engine) onNodes(tier []*bundle, nodes map[model.NodeID]bool) []*bundle {
	var out []*bundle
	for _, b := range tier {
		if slices.ContainsFunc(b.members, func(h model.HolderID) bool { return nodes[b.gang.placed[h].node] }) {
			out = append(out, b)
		}
	}
	return out
}

// cheapestNodes are the nodes on which the gang's members, all alike, cost the fewest
// bundles. prices[j] of a node is what j members cost there; the cheapest sum for all
// members is a knapsack over nodes.
func (e *Engine) cheapestNodes(k *known, tier []*bundle, now int64) (map[model.NodeID]bool, bool) {
	ask := k.ask(k.missing())
	request, need := ask.Roles[0].Request, ask.Min
	may := e.mayFor(k, now)
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
	type priced struct {
		id     model.NodeID
		prices []int64
	}
	var nodes []priced
	for _, id := range slices.Sorted(e.ledger.Nodes()) {
		if may != nil && !may(0, id) {
			continue
		}
		if prices := e.pricesOn(request, id, byNode[id], need); len(prices) > 1 {
			nodes = append(nodes, priced{id, prices})
		}
	}
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
	if cost[need] == math.MaxInt64 {
		return nil, false
	}
	out := map[model.NodeID]bool{}
	left := need
	for i := len(nodes) - 1; i >= 0 && left > 0; i-- {
		if j := int(chosen[i][left]); j > 0 {
			out[nodes[i].id] = true
			left -= j
		}
	}
	return out, left == 0
}

// bundlePrice keeps the number of bundles before the work lost with them.
const bundlePrice = int64(1) << 40

// pricesOn is what each number of members costs on a node, as far as they fit once
// all bundles there are gone. Bundles that free most there go first, so that few are
// enough.
func (e *Engine) pricesOn(r *model.Request, id model.NodeID, there []*bundle, need int) []int64 {
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
		return cmp.Or(cmp.Compare(frees(b), frees(a)), cmp.Compare(a.lost, b.lost))
	})
	prices := []int64{0}
	gone := map[model.HolderID]bool{}
	price := int64(0)
	next := 0
	for j := 1; j <= need && j*r.Count() <= model.MaxDevices; j++ {
		for {
			v, ok := e.ledger.ViewWith(id, func(h model.HolderID) bool { return gone[h] }, nil)
			if !ok {
				return prices
			}
			want := gang.Together(r, j)
			if _, refusal := place.Fit(want, v); refusal == nil && v.FreeHost.Covers(want.Host) {
				prices = append(prices, price)
				break
			}
			if next == len(order) {
				return prices
			}
			for _, h := range order[next].members {
				gone[h] = true
			}
			price += bundlePrice + min(order[next].lost, bundlePrice/1024)
			next++
		}
	}
	return prices
}
