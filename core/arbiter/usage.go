package arbiter

import "fmt"

// Charge adds to what a job is charged, and makes it run. A job that is not
// there is entered first, as after a restart, when jobs are found running; j may
// have the ID alone for one that is. Facts are never refused: a charge may exceed
// every limit, and Candidates then offers nothing that would add to it.
//
// A job that grows is charged again for what it grew by. Cost: depth of the tree.
func (t *Tree) Charge(j Job, amounts Amounts) error {
	if err := t.dict.check("amounts", amounts); err != nil {
		return fmt.Errorf("charge job %q: %w", j.ID, err)
	}
	e := t.jobs[j.ID]
	if e == nil {
		if err := t.checkJob(&j); err != nil {
			return fmt.Errorf("charge job %q: %w", j.ID, err)
		}
		// It never waited here, so it takes no turn: after a restart, turns must not
		// depend on the order in which running jobs are found.
		e = t.enter(j)
		e.runs = true
		t.attach(e)
	}
	t.charge(e, amounts)
	t.changed()
	return nil
}

// charge moves a job from waiting to running, or adds to what it runs.
func (t *Tree) charge(e *entry, amounts Amounts) {
	t.start(e)
	t.book(e, amounts, 1)
	e.charged = e.charged.plus(amounts)
	t.wants(e)
}

// start takes a waiting job out of its queue's order.
func (t *Tree) start(e *entry) {
	if e.runs {
		return
	}
	if e.node != nil {
		e.node.waiting--
		e.node.jobs.remove(e)
		e.node.jobs.served(e.User)
	}
	e.runs = true
	t.count(e, 1)
}

// count adds a running job to its queue, or to the root when it is in none.
func (t *Tree) count(e *entry, jobs int) {
	n := e.node
	if n == nil {
		n = t.root
	}
	n.running += jobs
}

// wants brings what the queue wants because of the job up to date.
func (t *Tree) wants(e *entry) {
	could := e.Demand.plus(e.Extra)
	for r := range max(len(could), len(e.charged)) {
		w := max(could.at(r), e.charged.at(r))
		if w == e.want.at(r) {
			continue
		}
		t.stale = true
		e.want = e.want.plus(make(Amounts, r+1)) // its own memory, long enough
		if e.node != nil {
			e.node.want[r] += w - e.want[r]
		}
		e.want[r] = w
	}
}

// Shrink takes back a part of what a running job is charged.
func (t *Tree) Shrink(id JobID, amounts Amounts) error {
	e := t.jobs[id]
	if e == nil || !e.runs {
		return fmt.Errorf("shrink job %q: it is not charged", id)
	}
	for r, v := range amounts {
		if v < 0 || v > e.charged.at(r) {
			return fmt.Errorf("shrink job %q: amounts[%s]: %d of %d charged", id, t.dict.names[r], v, e.charged.at(r))
		}
	}
	t.book(e, amounts, -1)
	left := make(Amounts, len(e.charged))
	for r := range left {
		left[r] = e.charged[r] - amounts.at(r)
	}
	e.charged = left
	t.wants(e)
	t.changed()
	return nil
}

// Refund takes back all that a job is charged: it waits again, with the
// submission time it had. Use Remove for one that ended. Refunding a job that
// waits is harmless.
func (t *Tree) Refund(id JobID) {
	e := t.jobs[id]
	if e == nil || !e.runs {
		return
	}
	t.detach(e)
	e.runs, e.charged, e.want = false, nil, e.Demand.plus(e.Extra)
	t.attach(e)
	t.changed()
}

// Charged returns what a job is charged, nil when it waits.
func (t *Tree) Charged(id JobID) Amounts {
	if e := t.jobs[id]; e != nil && e.runs {
		return e.charged.plus(nil)
	}
	return nil
}

// book adds amounts, times 1 or -1, to all that count the job: its queue and
// those above, and its namespace. A job in no queue counts at the root alone.
func (t *Tree) book(e *entry, amounts Amounts, sign int64) {
	leaf := e.node
	if leaf == nil {
		leaf = t.root
	}
	s := e.space
	for len(s.used) < len(t.dict.names) {
		s.used = append(s.used, 0)
	}
	for r, v := range amounts {
		if v == 0 {
			continue
		}
		d := sign * v
		s.used[r] += d
		added := d
		for n := leaf; n != nil; n = n.parent {
			n.used[r] += d
			n.within[r] += added
			booked := max(n.floor[r], n.within[r])
			added = booked - n.booked[r]
			n.booked[r] = booked
		}
	}
}

// Status is a queue in numbers, for people and for status fields. It shares no
// memory with the tree.
type Status struct {
	Queue, Parent string
	// Used is what its jobs are charged, Want what they would use if they could.
	Used, Want map[Resource]int64
	// Share is what it is entitled to now.
	Share            map[Resource]int64
	Waiting, Running int
	Closed           bool
}

// Status returns all queues, parents before children, siblings by name. Those
// that have children count what is below them.
func (t *Tree) Status() []Status {
	t.refresh()
	out := make([]Status, len(t.nodes))
	for i, n := range t.nodes {
		out[i] = Status{
			Queue: n.Name, Used: t.Map(n.used), Want: t.Map(n.want), Share: t.Map(n.share),
			Waiting: n.waiting, Running: n.running, Closed: n.Closed,
		}
		if n.parent != nil {
			out[i].Parent = n.parent.Name
		}
	}
	for i := len(out) - 1; i > 0; i-- {
		p := t.nodes[i].parent.number
		out[p].Waiting += out[i].Waiting
		out[p].Running += out[i].Running
	}
	return out
}
