package arbiter

import (
	"container/heap"
	"iter"
	"slices"
)

// Offer is a job whose turn it is: neither a queue nor a quota is in its way, and
// the cluster has as much in all. Whether there is a place for it is the
// caller's to find out, and to say by one of the methods; saying nothing skips
// this one job. An offer is valid until the next one.
type Offer struct {
	Job     Job
	tree    *Tree
	entry   *entry
	version uint64
	outcome outcome
}

type outcome uint8

const (
	skipped outcome = iota
	placed
	full
	fullYet
	closed
)

// Place says that the job has a place: it is charged the amounts at once, its
// demand when amounts is nil, and runs. Ask Tree.May first for amounts that are
// not its demand.
func (o *Offer) Place(amounts Amounts) {
	if o.outcome != skipped || o.version != o.tree.version {
		return
	}
	o.outcome = placed
	if amounts == nil {
		amounts = o.entry.Demand
	}
	o.tree.queues.charge(o.entry, amounts)
}

// NoCapacity says that there is no place for the job. Nothing else of its class
// and demand is offered in this pass, in whatever queue.
func (o *Offer) NoCapacity() { o.say(full) }

// NoCapacityYet is NoCapacity for all passes over the same space (CandidatesIn): until
// something is freed there is no use in offering the class again.
func (o *Offer) NoCapacityYet() { o.say(fullYet) }

// CloseQueue says that nothing behind this job may go before it: its queue offers
// no more in this pass. This makes fifo strict.
func (o *Offer) CloseQueue() { o.say(closed) }

func (o *Offer) say(what outcome) {
	if o.outcome == skipped {
		o.outcome = what
	}
}

// Candidates offers waiting jobs in fair order, each at most once, and takes every
// placement into account before it makes the next offer. At each level of the
// tree, of the queues that have something to offer, the first is:
//
//  1. one whose job stays within the queue's guarantee;
//  2. the one of highest priority;
//  3. one that is below its share, in all that its job asks for and the cluster
//     counts;
//  4. the one with the smallest dominant share per weight: the largest used/total
//     over what its job asks for, compared exactly;
//  5. the first by name.
//
// In 3 and 4 a queue counts as using up to one job more or less, by its balance: see
// balance.go.
//
// Inside a leaf: jobs over age by submission, then the queue's policy.
//
// Only what the job asks for is compared, so that a queue whose jobs use up CPUs
// that no other queue wants is not kept from GPUs for it, nor are its siblings; and a
// queue that can offer nothing now (full, closed, no capacity) is not compared at
// all. These are the ways in which a plain hierarchical DRF starves queues.
//
// now is in the time of Job.Submitted. One pass at a time: any other change to
// the tree ends it, and so does the next pass. Cost: queues and their buckets to
// begin; then, per offer, the logarithms of the queue's siblings, level by level,
// and of its waiting jobs; per placement, a look at every queue's next job.
func (t *Tree) Candidates(now int64) iter.Seq[*Offer] { return t.offers(now, fair, 0) }

// CandidatesIn is Candidates without the classes of which NoCapacityYet was said in a pass
// over the same space. space is the caller's number for what is free, not 0: it changes
// when something is freed. Thousands of kinds that fit nowhere then cost one comparison
// each per pass, not an offer.
func (t *Tree) CandidatesIn(now int64, space uint64) iter.Seq[*Offer] {
	return t.offers(now, fair, space)
}

func (t *Tree) offers(now int64, m mode, space uint64) iter.Seq[*Offer] {
	return func(yield func(*Offer) bool) {
		t.begin(now, m, space)
		o := &Offer{tree: t, version: t.version}
		for e := t.pass.first(); e != nil; e = t.pass.first() {
			leaf := e.node
			o.Job, o.entry, o.outcome = e.Job, e, skipped
			if !yield(o) || o.version != t.version {
				return
			}
			switch o.outcome {
			case full, fullYet:
				e.class.full = t.pass.number
				if o.outcome == fullYet {
					e.class.fullIn = space
				}
				leaf.jobs.offered()
			case closed:
				leaf.jobs.close()
			default:
				leaf.jobs.offered()
			}
			t.pass.moved(leaf)
			if o.outcome != skipped && o.outcome != closed {
				t.pass.recheck()
			}
		}
	}
}

// begin starts a pass and ends the one before.
func (t *Tree) begin(now int64, m mode, space uint64) {
	t.version++
	t.pass.mode, t.pass.space = m, space
	t.pass.begin(now)
}

// pass is the walk over the queues that is under way: which of them have what to offer.
//
// Invariant: a queue's position is that of the first job below it that may start, and its
// parent's heap has the queue exactly when there is one.
type pass struct {
	queues *hierarchy
	// number counts passes.
	number uint64
	mode   mode
	// space is what the pass is over; 0: any.
	space uint64
	// active is the leaves that may still offer something.
	active []*node
}

// first is the job whose turn it is; nil when the pass is over.
func (p *pass) first() *entry { return p.queues.root.position.next }

// position is what a queue is compared with its siblings by in the pass under way. It
// changes only when something below the queue does.
type position struct {
	next                 *entry // the job it would offer; nil: none
	guaranteed, entitled bool
	// share is the dominant share, before weight.
	share fraction
	// offering is a heap of the children that have something to offer; index is the
	// queue's own place in its parent's.
	offering siblings
	index    int
}

// begin sets up every queue's next job and position, from the leaves up.
func (p *pass) begin(now int64) {
	p.queues.refresh()
	p.number++
	p.active = p.active[:0]
	for _, n := range slices.Backward(p.queues.nodes) {
		if n.leaf() {
			n.jobs.begin(p, now)
		}
		n.position.offering = n.position.offering[:0]
		for _, c := range n.children {
			if c.position.next != nil {
				c.position.index = len(n.position.offering)
				n.position.offering = append(n.position.offering, c)
			}
		}
		heap.Init(&n.position.offering)
		p.reposition(n)
		if n.leaf() && n.position.next != nil {
			p.active = append(p.active, n)
		}
	}
}

// recheck looks for queues whose next job is blocked by what has just happened: a
// limit above them or of a namespace was reached, or a class has no capacity. The
// job behind it may be ordered first, so this cannot wait until the queue's turn comes.
func (p *pass) recheck() {
	p.active = slices.DeleteFunc(p.active, func(n *node) bool {
		if n.position.next != nil && n.jobs.next() != n.position.next {
			p.moved(n)
		}
		return n.position.next == nil
	})
}

// moved brings the position of a leaf and of all queues above it up to date.
func (p *pass) moved(n *node) {
	for ; n != nil; n = n.parent {
		p.reposition(n)
		if n.parent == nil {
			return
		}
		if h := &n.parent.position.offering; n.position.next == nil {
			heap.Remove(h, n.position.index)
		} else {
			heap.Fix(h, n.position.index)
		}
	}
}

// reposition finds a queue's next job and how it compares.
func (p *pass) reposition(n *node) {
	s, total := &n.position, p.queues.total
	switch {
	case n.leaf():
		s.next = n.jobs.next()
	case len(s.offering) > 0:
		s.next = s.offering[0].position.next
	default:
		s.next = nil
	}
	if s.next == nil {
		return
	}
	s.guaranteed, s.entitled = false, true
	within := true
	s.share = fraction{0, 1}
	for _, d := range s.next.class.needs {
		r := d.resource
		if n.floor[r] > 0 {
			s.guaranteed = true
			within = within && n.used[r]+d.amount <= n.floor[r]
		}
		if total[r] <= 0 {
			continue
		}
		credit := n.credit(r, d.amount)
		s.entitled = s.entitled && n.held(r)-credit < n.share[r]
		if f := (fraction{max(0, n.used[r]-credit), total[r]}); f.compare(s.share) > 0 {
			s.share = f
		}
	}
	s.guaranteed = s.guaranteed && within
}

// before is the order of siblings that Candidates describes.
func (n *node) before(m *node) bool {
	a, b := &n.position, &m.position
	switch {
	case a.guaranteed != b.guaranteed:
		return a.guaranteed
	case n.Priority != m.Priority:
		return n.Priority > m.Priority
	case a.entitled != b.entitled:
		return a.entitled
	}
	// a.p/(a.q*weight) against b.p/(b.q*weight), multiplied out.
	if c := product(a.share.p, b.share.q, m.weight()).compare(product(b.share.p, a.share.q, n.weight())); c != 0 {
		return c < 0
	}
	return n.Name < m.Name
}

// siblings is a heap of the children of one queue.
type siblings []*node

func (h siblings) Len() int           { return len(h) }
func (h siblings) Less(i, j int) bool { return h[i].before(h[j]) }
func (h siblings) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].position.index, h[j].position.index = i, j
}

// Push is for container/heap; siblings join only when a pass begins.
func (h *siblings) Push(x any) { *h = append(*h, x.(*node)) }

// Pop is for container/heap.
func (h *siblings) Pop() any {
	last := (*h)[len(*h)-1]
	*h = (*h)[:len(*h)-1]
	return last
}
