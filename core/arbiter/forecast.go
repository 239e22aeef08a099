package arbiter

// Forecast is what queues and namespaces will use at some time. It is valid while the
// jobs it was made of are there; queues, quotas and the total may change.
type Forecast struct {
	tree           *Tree
	ended, started []JobID
	// What will be free, negative where more will be in use, by the numbers that
	// resources had at numbering.
	numbering  uint64
	queues     map[*node]vector
	namespaces map[*namespace]vector
}

// Forecast says what will be in use once some jobs that run have ended and some that
// wait have started. Cost: jobs times the depth of the tree.
func (t *Tree) Forecast(ended, started []JobID) *Forecast {
	d := &Forecast{tree: t, ended: ended, started: started}
	d.count()
	return d
}

// count adds up what will be free, anew when queues or numbers of resources have changed.
func (d *Forecast) count() {
	t := d.tree
	if d.numbering == t.queues.numbering {
		return
	}
	d.numbering, d.queues, d.namespaces = t.queues.numbering, map[*node]vector{}, map[*namespace]vector{}
	for _, id := range d.ended {
		if e := t.jobs.byID[id]; e != nil && e.runs {
			d.free(e, e.charged, 1)
		}
	}
	for _, id := range d.started {
		if e := t.jobs.byID[id]; e != nil && !e.runs {
			d.free(e, e.Demand, -1)
		}
	}
}

// free adds amounts, times 1 or -1, to what will be free where the job counts.
func (d *Forecast) free(e *entry, amounts Amounts, sign int64) {
	needs, width := d.tree.queues.dict.needs(amounts), len(d.tree.queues.dict.names)
	d.namespaces[e.namespace] = d.namespaces[e.namespace].add(needs, sign, width)
	for n := d.tree.queues.counted(e); n != nil; n = n.parent {
		d.queues[n] = d.queues[n].add(needs, sign, width)
	}
}

// Lets says whether queues and quotas will let a waiting job start then, if no other job
// is submitted.
func (d *Forecast) Lets(waiting JobID) bool {
	d.count()
	e := d.tree.jobs.byID[waiting]
	if e == nil || e.node == nil {
		return false
	}
	for _, need := range e.class.needs {
		r, more := need.resource, map[*node]int64{e.node: need.amount}
		if d.over(e.namespace, r, need.amount) {
			return false
		}
		for n := e.node; n != nil; n = n.parent {
			if d.above(n, r, need.amount, more, nil) {
				return false
			}
		}
	}
	return true
}

// Crowds says whether a waiting job would then be kept from starting because another
// uses some amounts from now on: by a limit, or by guarantees of others, that count
// both. Limits that count only one of them are not asked.
func (d *Forecast) Crowds(waiting, other JobID, amounts Amounts) bool {
	d.count()
	a, b := d.tree.jobs.byID[waiting], d.tree.jobs.byID[other]
	if a == nil || b == nil || a.node == nil {
		return false
	}
	leaf := d.tree.queues.counted(b)
	for _, need := range a.class.needs {
		r, more := need.resource, map[*node]int64{a.node: need.amount}
		added := amounts.Of(d.tree.queues.dict.names[r])
		if added == 0 {
			continue
		}
		more[leaf] += added
		others := map[*node]int64{leaf: added}
		both := need.amount + added
		if a.namespace == b.namespace && d.over(a.namespace, r, both) {
			return true
		}
		for n := meet(a.node, leaf); n != nil; n = n.parent {
			if d.above(n, r, both, more, others) {
				return true
			}
		}
	}
	return false
}

// over says whether a namespace has no room for more.
func (d *Forecast) over(s *namespace, r int, more int64) bool {
	return s.used[r]-d.namespaces[s].at(r)+more > s.hard[r]
}

// above says whether a queue has no room for more, given how it is spread over leaves. A
// job that stays within a guarantee takes nothing from others, even where too much is
// promised already: so only what it adds to the others counts.
func (d *Forecast) above(n *node, r int, sum int64, more, others map[*node]int64) bool {
	limit := n.cap[r]
	if n.used[r]-d.queues[n].at(r)+sum > limit {
		return true
	}
	if n == d.tree.queues.root && d.tree.queues.total[r] > 0 {
		limit = min(limit, d.tree.queues.total[r])
	}
	// Without guarantees the placement on nodes decides what fits, not sums.
	if n.floor[r] == 0 {
		return false
	}
	booked := d.booked(n, r, more)
	return booked > limit && booked > d.booked(n, r, others)
}

// booked is what will be in use below a queue or kept for it, with more in some
// leaves.
func (d *Forecast) booked(n *node, r int, more map[*node]int64) int64 {
	within := n.used[r] - d.queues[n].at(r) + more[n]
	for _, c := range n.children {
		// What is in use below is counted there, with what is kept.
		within += d.booked(c, r, more) - (c.used[r] - d.queues[c].at(r))
	}
	return max(n.floor[r], within)
}
