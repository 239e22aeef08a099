package arbiter

import (
	"math"
	"math/bits"
	"time"
)

// Jobs are indivisible, so at any moment a queue has more or less than its share: one
// with a share of 6.4 and jobs of 8 has 8 or nothing. An order that looks at the moment
// only gives it 8 for ever. So every queue has a balance, per resource: what it was owed
// over time, minus what it used. Over time every queue gets its share, however large its
// jobs are.
//
// A balance moves a queue by one job at most: a queue that is owed is ordered as if it
// used up to one job less, a queue that owes as if it used up to one job more. So shares
// at the moment are kept as well as jobs allow, and no queue waits for long because of
// what it used in the past.
//
// Only queues that want more than they have compete, and are compared with each other
// by their shares of what they use together. A queue that is idle, or has all it wants,
// earns nothing and owes nothing for what it was lent.

// payback is how long a queue has to be short of something before it counts in full:
// a balance of one job for ten seconds moves the queue by one job. Shorter makes queues
// swing, longer makes them slow.
const payback = int64(10 * time.Second / tick)

// horizon is how long a balance grows: to the queue's share over a day.
const horizon = int64(24 * time.Hour / tick)

// tick is the unit of time in balances.
const tick = time.Millisecond

// Elapse settles balances up to now: what was in use at the last call counts as in use
// until now. Call it before and after a round of decisions. Without it there are no
// balances. Cost: queues times resources.
func (t *Tree) Elapse(now int64) {
	t.queues.refresh()
	passed := max(0, now-t.elapsed) / int64(tick)
	t.elapsed += passed * int64(tick)
	for _, n := range t.queues.nodes {
		for r := range n.share {
			n.settle(r, passed)
		}
	}
}

// Forget clears all balances, as a restart does without what was saved.
func (t *Tree) Forget() {
	for _, n := range t.queues.nodes {
		clear(n.owed)
		clear(n.competes.part)
		clear(n.competes.held)
	}
}

// settle adds to the balances of a queue's children what has passed, and takes note
// of those that compete from now on: of their parts and of what they hold.
func (n *node) settle(r int, passed int64) {
	var held, parts int64
	for _, c := range n.children {
		held, parts = add(held, c.competes.held[r]), add(parts, c.competes.part[r])
	}
	for _, c := range n.children {
		if part := c.competes.part[r]; part > 0 {
			fair, _ := scale(multiply(held, passed), part, parts)
			c.owed[r] += fair - multiply(c.competes.held[r], passed)
		}
		part := c.part(r)
		bound := multiply(part, horizon)
		c.owed[r] = max(-bound, min(bound, c.owed[r]))
		// A queue that is owed a day's share cannot make use of more.
		if c.held(r) < c.wanted(r) && c.owed[r] < bound {
			c.competes.part[r], c.competes.held[r] = part, c.held(r)
		} else {
			c.competes.part[r], c.competes.held[r] = 0, 0
		}
	}
}

// part is what a queue is entitled to and can make use of.
func (n *node) part(r int) int64 { return min(n.share[r], n.wanted(r)) }

// credit is how much less of a resource a queue counts as using because of its
// balance, before a job of some size: at most that size, and negative for one that
// owes.
func (n *node) credit(r int, size int64) int64 { return max(-size, min(size, n.owed[r]/payback)) }

// Due says whether a waiting job's turn is near, for what it asks for: its queue and
// those above it are within their shares, each by its balance and with half of the
// job. Jobs are indivisible, so a share is met on average when half of the job fits
// into it. Of one that has waited for long it asks only whether a queue is above its
// share without it.
func (t *Tree) Due(id JobID, long bool) bool {
	t.queues.refresh()
	e := t.jobs.byID[id]
	if e == nil || e.node == nil {
		return false
	}
	for _, d := range t.queues.divided(e.class.needs) {
		r := d.resource
		for n := e.node; n.parent != nil; n = n.parent {
			with := n.held(r)
			if n.contended(r) {
				with -= n.credit(r, d.amount)
				if !long {
					with += d.amount / 2
				}
			}
			if with > n.share[r] {
				return false
			}
		}
	}
	return true
}

// contended says whether a sibling is entitled to a part of what the parent divides.
func (n *node) contended(r int) bool {
	for _, c := range n.parent.children {
		if c != n && c.part(r) > 0 {
			return true
		}
	}
	return false
}

// Overdue says whether a waiting job's queue is owed as much as the job would use in a
// while, of all that it asks for.
func (t *Tree) Overdue(id JobID, while time.Duration) bool {
	e := t.jobs.byID[id]
	if e == nil || e.node == nil {
		return false
	}
	needs := t.queues.divided(e.class.needs)
	for _, d := range needs {
		if e.node.owed[d.resource] < multiply(d.amount, int64(while/tick)) {
			return false
		}
	}
	return len(needs) > 0
}

// multiply stops at what can still be added up; b must not be negative.
func multiply(a, b int64) int64 {
	const most = math.MaxInt64 / 4
	if a < 0 {
		return -multiply(-a, b)
	}
	if high, low := bits.Mul64(uint64(a), uint64(b)); high == 0 && low < most {
		return int64(low)
	}
	return most
}
