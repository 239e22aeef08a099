package arbiter

import "slices"

// Excess is how much a queue uses above what others must leave it.
type Excess struct {
	Queue string
	// Over counts only what the claimant asks for and the cluster divides.
	Over Amounts
}

// Reclaim is what a waiting job may take back from queues above their share. It
// says from which queues and how much; which jobs are victims, and whether the
// claimant then fits, is the planner's to find. A Reclaim is valid until the tree
// changes.
//
// No loops: a claimant's queue stays within its share, and a victim's queue stays
// at or above its own. So the victim, which waits now, cannot reclaim from the claimant:
// its queue would go above its share. Nor are there longer circles: shares
// stay as they are, because an evicted job still wants what it wanted, and every
// move lowers the sum of what is used above shares.
type Reclaim struct {
	queues *hierarchy
	claim  *entry
	// needs is what the claimant asks for and the cluster divides: of other resources no
	// queue has a share.
	needs []need
	taken map[*node]vector
}

// Reclaim begins to take back for a waiting job; false when its queue, or one
// above it, may not: it would be above its share with the job.
//
// Queues are compared below where their paths meet: inside one department only
// the department's own shares count. A queue that owes counts as using up to one job
// more, and one that is owed gives up to one job less: work is not evicted for what
// time evens out.
func (t *Tree) Reclaim(id JobID) (*Reclaim, bool) {
	q := &t.queues
	q.refresh()
	e := t.jobs.waiting(id)
	if e == nil || e.node == nil || q.may(e, e.class.needs).ForQuota() {
		return nil, false
	}
	needs := q.divided(e.class.needs)
	if len(needs) == 0 || !q.claims(e.node, q.root, needs) {
		return nil, false
	}
	return &Reclaim{q, e, needs, map[*node]vector{}}, true
}

// divided lists the needs that are divided among queues.
func (h *hierarchy) divided(needs []need) []need {
	return slices.DeleteFunc(slices.Clone(needs), func(d need) bool { return h.total[d.resource] <= 0 })
}

// claims says whether all queues from n up to, not including, top stay within
// their shares with the needs added.
func (h *hierarchy) claims(n, top *node, needs []need) bool {
	for _, d := range needs {
		r, added := d.resource, d.amount
		for m := n; m != top && added > 0; m = m.parent {
			if m.held(r)+added-min(0, m.credit(r, d.amount)) > m.share[r] {
				return false
			}
			added = max(m.floor[r], m.within[r]+added) - m.booked[r]
		}
	}
	return true
}

// meet is the lowest queue above both.
func meet(a, b *node) *node {
	for ; a != nil; a = a.parent {
		for m := b; m != nil; m = m.parent {
			if a == m {
				return a
			}
		}
	}
	return nil
}

// Over lists the queues that have something to give, and how much, after what was
// taken already. The one farthest above its share first: by the largest part of
// the cluster per weight, then by name.
func (r *Reclaim) Over() []Excess {
	type ranked struct {
		Excess
		node *node
		most fraction
	}
	var list []ranked
	for _, n := range r.queues.nodes {
		if !n.leaf() || n == r.claim.node {
			continue
		}
		over := make(vector, len(r.queues.dict.names))
		most := fraction{0, 1}
		for _, d := range r.needs {
			v := r.over(n, d)
			over[d.resource] = v
			if f := (fraction{v, r.queues.total[d.resource]}); f.compare(most) > 0 {
				most = f
			}
		}
		if most.p > 0 {
			list = append(list, ranked{Excess{n.Name, r.queues.dict.amounts(over)}, n, most})
		}
	}
	slices.SortStableFunc(list, func(a, b ranked) int { // stable: nodes come by level and name
		return product(b.most.p, a.most.q, a.node.weight()).compare(product(a.most.p, b.most.q, b.node.weight()))
	})
	out := make([]Excess, len(list))
	for i, x := range list {
		out[i] = x.Excess
	}
	return out
}

// over is how much of what the claimant needs a leaf can give: no queue between it and
// where it meets the claimant may fall below its share, and none may forbid it.
func (r *Reclaim) over(leaf *node, d need) int64 {
	least, x := int64(unlimited), d.resource
	top := meet(leaf, r.claim.node)
	for n := leaf; n != top; n = n.parent {
		if !n.Reclaimable {
			return 0
		}
		least = min(least, n.held(x)-r.taken[n].at(x)-max(n.share[x], n.floor[x])-max(0, n.credit(x, d.amount)))
	}
	return max(0, least)
}

// Take adds a victim's amounts to what is taken from its queue, if the queue can
// give them: of what the claimant asks for, it must keep its share; of everything
// else its guarantee. A victim that has nothing the claimant asks for is refused.
func (r *Reclaim) Take(queue string, amounts Amounts) bool {
	leaf := r.queues.byName[queue]
	if leaf == nil || !leaf.leaf() || leaf == r.claim.node {
		return false
	}
	useful := false
	for _, d := range r.needs {
		v := amounts.Of(r.queues.dict.names[d.resource])
		if v > r.over(leaf, d) {
			return false
		}
		useful = useful || v > 0
	}
	top, given := meet(leaf, r.claim.node), r.queues.dict.needs(amounts)
	for n := leaf; n != top; n = n.parent {
		for _, d := range given {
			if n.held(d.resource)-r.taken[n].at(d.resource)-d.amount < n.floor[d.resource] {
				return false
			}
		}
	}
	if !useful {
		return false
	}
	for n := leaf; n != top; n = n.parent {
		r.taken[n] = r.taken[n].add(given, 1, len(r.queues.dict.names))
	}
	return true
}
