package arbiter

import (
	"fmt"
	"slices"
)

// Charge adds to what a job is charged, and makes it run. A job that is not
// there is entered first, as after a restart, when jobs are found running; j may
// have the ID alone for one that is. Facts are never refused: a charge may exceed
// every limit, and Candidates then offers nothing that would add to it.
//
// A job that grows is charged again for what it grew by. Cost: depth of the tree.
func (t *Tree) Charge(j Job, amounts Amounts) error {
	if err := amounts.check("amounts"); err != nil {
		return fmt.Errorf("charge job %q: %w", j.ID, err)
	}
	e := t.jobs.byID[j.ID]
	if e == nil {
		if err := j.check(); err != nil {
			return fmt.Errorf("charge job %q: %w", j.ID, err)
		}
		// It never waited here, so it takes no turn: after a restart, turns must not
		// depend on the order in which running jobs are found.
		e = t.jobs.enter(j, &t.queues.dict)
		e.runs = true
		t.queues.enqueue(e)
		t.queues.tally(e, 1)
	}
	t.queues.charge(e, amounts)
	t.changed()
	return nil
}

// charge moves a job from waiting to running, or adds to what it runs.
func (h *hierarchy) charge(e *entry, amounts Amounts) {
	h.start(e)
	h.book(e, h.needs(e, amounts), 1)
	e.charged = e.charged.Plus(amounts)
	h.setWant(e)
}

// start takes a waiting job out of its queue's order.
func (h *hierarchy) start(e *entry) {
	if e.runs {
		return
	}
	if e.node != nil {
		e.node.waiting--
		e.node.jobs.remove(e)
		e.node.jobs.served(e.User)
	}
	e.runs = true
	h.counted(e).running++
}

// setWant brings what the queue wants because of the job up to date.
func (h *hierarchy) setWant(e *entry) {
	want := e.Demand.Plus(e.Extra).larger(e.charged)
	if slices.Equal(want, e.want) {
		return
	}
	h.stale = true
	if e.node != nil {
		e.node.want.add(h.dict.needs(e.want), -1, 0)
		e.node.want.add(h.dict.needs(want), 1, 0)
	}
	e.want = want
}

// Shrink takes back a part of what a running job is charged.
func (t *Tree) Shrink(id JobID, amounts Amounts) error {
	e := t.jobs.byID[id]
	if e == nil || !e.runs {
		return fmt.Errorf("shrink job %q: it is not charged", id)
	}
	if err := amounts.check("amounts"); err != nil {
		return fmt.Errorf("shrink job %q: %w", id, err)
	}
	for _, x := range amounts {
		if c := e.charged.Of(x.Resource); x.Value > c {
			return fmt.Errorf("shrink job %q: amounts[%s]: %d of %d charged", id, x.Resource, x.Value, c)
		}
	}
	t.queues.book(e, t.queues.dict.needs(amounts), -1)
	e.charged = e.charged.Minus(amounts)
	t.queues.setWant(e)
	t.changed()
	return nil
}

// book adds amounts, times 1 or -1, to all that count the job: its queue and
// those above, and its namespace. A job in no queue counts at the root alone.
func (h *hierarchy) book(e *entry, amounts []need, sign int64) {
	leaf := h.counted(e)
	for _, d := range amounts {
		r, v := d.resource, sign*d.amount
		e.namespace.used[r] += v
		added := v
		for n := leaf; n != nil; n = n.parent {
			n.used[r] += v
			n.within[r] += added
			booked := max(n.floor[r], n.within[r])
			added = booked - n.booked[r]
			n.booked[r] = booked
		}
	}
}
