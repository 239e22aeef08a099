package engine

import (
	"cmp"
	"iter"
	"maps"
	"slices"

	"github.com/tangram-dev/tangram/core/arbiter"
	"github.com/tangram-dev/tangram/core/gang"
	"github.com/tangram-dev/tangram/core/model"
)

// evict finds the cheapest holders whose leaving lets a gang start, proven by a plan
// and by the tree of queues, or says that no eviction helps. Cheapest is by the
// highest priority among them, then members that their gangs can spare, then by how
// many members go, then by lost work. Who leaves already is counted as gone, unless
// it makes room for another gang. The nodes are kept for the gang.
func (e *Engine) evict(k *known, lawful func(*known, []*bundle) bool, now int64) (Evict, bool) {
	defer e.afterDepartures(k)()
	if e.awaits(k) && e.takeOver(k, now) {
		return Evict{}, false // only the nodes were not kept any more
	}
	g := e.evictionGround(k, now)
	victims, plan, ok := e.victims(k, g.nodes, now)
	if !ok || !lawful(k, victims) {
		if g.more {
			k.ground++
			return Evict{}, false
		}
		k.ground = 0
		e.unreserve(func(r *reservation) bool { return r.id == k.ID && r.short })
		e.failed(k, evicting)
		return Evict{}, false
	}
	k.succeeded(evicting)
	k.ground = 0
	k.futile.evicted = true
	out := Evict{For: k.ID, Members: members(victims)}
	for _, h := range out.Members {
		e.leaving[h] = departure{k.ID, now + int64(e.options.Timing.Hold)}
	}
	e.free(k, &plan, now)
	return out, len(out.Members) > 0
}

// EvictionRefused tells that a victim may not be evicted now: it is left alone for a
// while, and the gang it should have made room for has to find others.
func (e *Engine) EvictionRefused(h model.HolderID) {
	e.spared[h] = later(e.now, int64(e.options.Timing.Spared))
	e.wakeAt(later(e.now, int64(e.options.Timing.Spared)))
	d, ok := e.leaving[h]
	if !ok {
		return
	}
	for other, by := range e.leaving {
		if by.gang == d.gang {
			delete(e.leaving, other)
		}
	}
	if k := e.gangs[d.gang]; k != nil {
		k.succeeded(evicting)
	}
	// What the others leave is kept until it is known whether more can be found.
	if r := e.reservationOf(d.gang); r != nil && r.until > 0 {
		r.short = true
	}
}

// evictable says whether a member may be asked to go. One that is on its way to its
// place would be gone before it ran, and its gang is not whole yet.
func (e *Engine) evictable(h model.HolderID) bool {
	if until, ok := e.spared[h]; ok {
		if e.now < until {
			return false
		}
		delete(e.spared, h)
	}
	return e.releases[h] == nil
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

// victims chooses the bundles to evict for a gang, on some nodes only when given.
func (e *Engine) victims(k *known, only []model.NodeID, now int64) ([]*bundle, gang.Plan, bool) {
	all := e.bundles(k, only, now)
	for _, priority := range priorities(all) {
		for _, whole := range []bool{false, true} {
			tier := slices.DeleteFunc(slices.Clone(all), func(b *bundle) bool {
				return b.gang.Priority > priority || b.gang.Priority == priority && b.whole && !whole
			})
			for _, tier := range e.offers(k, tier) {
				if _, ok := e.without(k, tier, only, now); !ok {
					continue
				}
				if chosen, plan, ok := e.cheapestOf(k, tier, only, now); ok {
					return chosen, plan, true
				}
			}
		}
	}
	return nil, gang.Plan{}, false
}

// mayEvict says whether to look for victims for a gang: there are some by the rules of
// queues and priorities, none are leaving for it already, and it was not found just
// now that no eviction helps, or that evictions did not.
func (e *Engine) mayEvict(k *known) bool {
	r := e.reservationOf(k.ID)
	if r != nil && r.until > 0 && !r.short || !e.worthTrying(k, evicting) || e.now < k.futile.after || k.NeverPreempts {
		return false
	}
	return r != nil && r.short || e.outranks(k) || e.awaits(k) || len(e.overShare(k)) > 0
}

// outranks says whether a running gang of the same queue has a lower priority.
func (e *Engine) outranks(k *known) bool {
	for r := range e.ranks { // any
		if r.queue == k.queue() && r.priority < k.Priority {
			return true
		}
	}
	return false
}

// claim is gangs of one queue that are alike.
type claim struct {
	queue string
	shape gangShape
}

// reclaim begins to take back what a gang's queue is short of.
func (e *Engine) reclaim(k *known) (*arbiter.Reclaim, bool) {
	key := claim{k.queue(), k.shape}
	reclaim, ok := e.tree.Reclaim(arbiter.JobID(k.ID))
	if !ok {
		delete(e.claims, key)
		return nil, false
	}
	since, known := e.claims[key]
	if !known {
		if len(e.claims) > maxNever {
			clear(e.claims)
		}
		since, e.claims[key] = e.now, e.now
	}
	return reclaim, e.now-since >= int64(e.options.Timing.ReclaimAfter)
}

// over are the queues that use more than their share and may have to give to a gang.
func (e *Engine) overShare(k *known) map[string]bool {
	out := map[string]bool{}
	if reclaim, ok := e.reclaim(k); ok {
		for _, x := range reclaim.Over() {
			out[x.Queue] = true
		}
	}
	return out
}

// bundles lists what may be evicted for a gang: of its own queue what matters less,
// of other queues what they use above their share; cheapest first.
func (e *Engine) bundles(k *known, only []model.NodeID, now int64) []*bundle {
	over := e.overShare(k)
	var out []*bundle
	for o := range e.runningOn(only) { // sorted below
		if e.mayGo(o, k, over, now) {
			out = append(out, e.split(o, now)...)
		}
	}
	slices.SortFunc(out, compareBundles)
	return out
}

// runningOn yields the gangs that run, or those with a member on some nodes when given.
func (e *Engine) runningOn(only []model.NodeID) iter.Seq[*known] {
	if only == nil {
		return maps.Values(e.running)
	}
	return func(yield func(*known) bool) {
		seen := map[*known]bool{}
		for _, id := range only {
			for c := range e.ledger.EachClaim(id) {
				o := e.gangOf(c.Holder)
				if o == nil || seen[o] || e.running[o.ID] == nil {
					continue
				}
				if seen[o] = true; !yield(o) {
					return
				}
			}
		}
	}
}

// mayGo says whether members of a gang may be evicted for another one. Who starts in
// this very decision is not sent away in it.
func (e *Engine) mayGo(o, k *known, over map[string]bool, now int64) bool {
	return o.Preemptible && o != k && now-o.started >= max(1, int64(o.MinRuntime), int64(e.tree.MinRuntime(o.queue()))) && yields(o, k, over) && !e.isLeaving(o)
}

// yields says whether a gang matters less than another that needs its place.
func yields(o, k *known, over map[string]bool) bool {
	if o.queue() == k.queue() {
		return o.Priority < k.Priority && (!o.InCompany || o.Company < k.Priority)
	}
	return over[o.queue()]
}

func priorities(all []*bundle) []int32 {
	var out []int32
	for _, b := range all {
		out = append(out, b.gang.Priority)
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// givable are the bundles that may be taken together: of other queues no more than
// they use above their share, of budgets no more than they allow, the first ones
// first.
func (e *Engine) givable(k *known, bundles []*bundle) []*bundle {
	reclaim, ok := e.reclaim(k)
	var out []*bundle
	taken := map[*known]bool{} // whole
	budgets := map[string]int{}
	for _, b := range bundles {
		if taken[b.gang] || !b.within(budgets) {
			continue
		}
		if b.gang.queue() == k.queue() || ok && reclaim.Take(b.gang.queue(), e.amounts(b)) {
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
func (e *Engine) offers(k *known, tier []*bundle) [][]*bundle {
	out := [][]*bundle{tier, e.givable(k, tier)}
	if len(out[1]) == len(tier) || len(tier) > maxReprieved {
		return out
	}
	byFrees := func(a, b *bundle) int { return cmp.Or(cmp.Compare(e.frees(b), e.frees(a)), compareBundles(a, b)) }
	byMembers := func(a, b *bundle) int {
		return cmp.Or(cmp.Compare(len(b.members), len(a.members)), compareBundles(a, b))
	}
	return append(out, e.givable(k, slices.SortedFunc(slices.Values(tier), byFrees)), e.givable(k, slices.SortedFunc(slices.Values(tier), byMembers)))
}

// admitted says whether the queues let a gang start once bundles are gone. The tree
// is as before afterwards.
func (e *Engine) admitted(k *known, victims []*bundle) bool {
	byGang := map[*known]*bundle{}
	for _, h := range members(victims) {
		o := e.gangOf(h)
		if byGang[o] == nil {
			byGang[o] = &bundle{gang: o}
		}
		byGang[o].members = append(byGang[o].members, h)
	}
	for o, b := range byGang { // sums do not depend on the order
		amounts := e.amounts(b)
		if e.tree.Shrink(arbiter.JobID(o.ID), amounts) == nil {
			defer func() { _ = e.tree.Charge(arbiter.Job{ID: arbiter.JobID(o.ID)}, amounts) }() // as it was
		}
	}
	return e.wait(k, k.missing()).Code == 0
}

// without says whether the gang has a place once bundles are gone, and which, on some
// nodes only when given.
func (e *Engine) without(k *known, gone []*bundle, only []model.NodeID, now int64) (gang.Plan, bool) {
	tx := e.ledger.Begin()
	defer tx.Rollback()
	for _, b := range gone {
		for _, h := range b.members {
			e.ledger.Drop(h)
		}
	}
	ask := k.demand()
	ask.Within = only
	e.constrain(k, ask, e.closing(k, now))
	plan, failure := gang.Make(e.ledger, e.planner, ask)
	return plan, failure == nil
}

// enough adds to bundles that make room the cheapest others that make quota.
func (e *Engine) enough(k *known, chosen, tier []*bundle) []*bundle {
	for _, b := range tier {
		if e.admitted(k, chosen) {
			break
		}
		if !slices.Contains(chosen, b) {
			chosen = append(chosen, b)
		}
	}
	return chosen
}

// spare puts back bundles that are not needed, those that come last in an order first.
// More gone never hurts, so it tries to put back one, then two more, then four, and is
// soon done where few of many are needed.
func (e *Engine) reprieve(k *known, victims []*bundle, only []model.NodeID, order func(a, b *bundle) int, now int64) []*bundle {
	open := slices.SortedFunc(slices.Values(victims), order) // not decided yet
	var kept []*bundle
	for len(open) > 0 {
		back := 0
		for step := 1; ; step *= 2 {
			n := min(back+step, len(open))
			rest := slices.Concat(open[:len(open)-n], kept)
			if _, ok := e.without(k, rest, only, now); !ok || !e.admitted(k, rest) {
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
