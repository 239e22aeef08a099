package arbiter

import (
	"iter"

	"github.com/tangram-dev/tangram/core/explain"
)

// mode is what a pass does with jobs that have to wait for room.
type mode uint8

const (
	// fair leaves them out: those behind them may go.
	fair mode = iota
	// strict closes their queue.
	strict
	// lenient offers them all the same.
	lenient
)

// InOrder is Candidates for queues in which no job passes the first: where the
// first job of a queue has to wait for room in the queue or the cluster, the queue
// offers nothing. A job that asks for more than the limit itself, or whose namespace
// has no quota left, waits alone.
func (t *Tree) InOrder(now int64) iter.Seq[*Offer] { return t.offers(now, strict, 0) }

// waits says whether a bucket's first job waits for room that may come.
func (k *bucket) waits(queues *hierarchy) bool {
	w := queues.may(k.head, k.key.class.needs)
	return w.forRoom() && w.Code != explain.OverQuota && !w.Never() &&
		(w.Code != explain.Guaranteed || queues.never(k.head, k.key.class.needs).Code == 0)
}

// Ever says whether queues and guarantees let a waiting job start once nothing is in
// use. Of a job that does not wait it says yes. Cost: depth of the tree.
func (t *Tree) Ever(id JobID) bool { return t.Never(id).Code == 0 }

// Never says what keeps a waiting job from starting even when nothing is in use. The
// zero value: nothing does, or it does not wait. Cost: depth of the tree.
func (t *Tree) Never(id JobID) Wait {
	e := t.jobs.waiting(id)
	switch {
	case e == nil:
		return Wait{}
	case e.node == nil:
		return t.Why(id)
	}
	return t.queues.never(e, e.class.needs)
}

// Waiting yields jobs that wait, in the order of Candidates, whether or not there is
// room for them: those that a reservation or an eviction might help. Of jobs of a
// queue that are alike (class, namespace) only the first is there, since the others
// wait behind it. Jobs that wait for an administrator (no queue, a closed one) are left out.
// The tree must not change meanwhile.
func (t *Tree) Waiting(now int64) iter.Seq[Job] {
	return func(yield func(Job) bool) {
		t.begin(now, lenient, 0)
		version := t.version
		for e := t.pass.first(); e != nil; e = t.pass.first() {
			if !yield(e.Job) || version != t.version {
				return
			}
			leaf := e.node
			e.bucket.blocked = t.pass.number
			leaf.jobs.offered()
			t.pass.moved(leaf)
		}
	}
}

// Order yields all jobs that wait, in the order in which they would be offered if there were
// room for none of them; those that wait for an administrator are left out. The tree must not
// change meanwhile. Cost: that of an offer for each job.
func (t *Tree) Order(now int64) iter.Seq[Job] {
	return func(yield func(Job) bool) {
		for o := range t.offers(now, lenient, 0) {
			if !yield(o.Job) {
				return
			}
		}
	}
}
