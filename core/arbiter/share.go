package arbiter

import "math"

// A queue's share of a resource is what it is entitled to now, given what
// all queues want. From the root down, a queue's share is divided among its
// children:
//
//  1. every queue gets its guarantee, wanted or not;
//  2. queues with an explicit deserved amount get up to that, as far as they want
//     it;
//  3. the others divide the rest by weight, as far as they want it;
//  4. what is still left goes, by weight, to the queues that want more: that is lent.
//
// Since it depends on wants, an idle queue's part is lent to the others by itself,
// and comes back by itself when the queue's jobs return.
//
// A job that starts moves from waiting to running and wants what it wanted, so
// shares do not change during a pass.

// refresh computes all shares, if anything changed. Cost: queues times resources.
func (h *hierarchy) refresh() {
	if !h.stale {
		return
	}
	h.stale = false
	for _, n := range h.nodes {
		if !n.leaf() {
			clear(n.want)
		}
	}
	for i := len(h.nodes) - 1; i > 0; i-- {
		n := h.nodes[i]
		for r := range n.want {
			// What is kept for a child is not available to its siblings.
			n.parent.want[r] = add(n.parent.want[r], max(n.floor[r], n.wanted(r)))
		}
	}
	var parts []portion
	for r, have := range h.total {
		// What jobs in no queue use is not there to be divided.
		for _, c := range h.root.children {
			have += c.used[r]
		}
		h.root.share[r] = max(0, have-h.root.used[r])
	}
	for _, n := range h.nodes {
		if len(n.children) == 0 {
			continue
		}
		for r := range n.share {
			parts = n.divide(r, parts[:0])
		}
	}
}

// wanted is what the queue can make use of. What waits in a closed one cannot start.
func (n *node) wanted(r int) int64 {
	w := n.want[r]
	if n.shut && n.leaf() {
		w = n.used[r]
	}
	if w < 0 { // thousands of the largest demands: a sum beyond 64 bits
		w = math.MaxInt64
	}
	return min(w, n.cap[r])
}

// add stops at the largest number.
func add(a, b int64) int64 {
	if b > math.MaxInt64-a {
		return math.MaxInt64
	}
	return a + b
}

// divide gives a queue's share of one resource to its children, in the steps
// described above. parts is scratch memory.
func (n *node) divide(r int, parts []portion) []portion {
	have := n.share[r]
	explicit := false
	for _, c := range n.children {
		c.share[r] = 0
		explicit = explicit || c.deserved[r] >= 0
		parts = append(parts, portion{weight: c.weight(), low: c.floor[r], high: c.floor[r]})
	}
	if have <= 0 {
		return parts
	}
	step := func(high func(c *node) int64) {
		for i, c := range n.children {
			p := &parts[i]
			p.high = max(p.low, high(c))
		}
		divide(have, parts)
		for i := range parts {
			parts[i].low = parts[i].got
		}
	}
	if explicit {
		step(func(c *node) int64 { return min(c.deserved[r], c.wanted(r)) })
		step(func(c *node) int64 {
			if c.deserved[r] >= 0 {
				return 0
			}
			return c.wanted(r)
		})
	}
	step(func(c *node) int64 { return c.wanted(r) })
	for i, c := range n.children {
		c.share[r] = parts[i].got
	}
	return parts
}
