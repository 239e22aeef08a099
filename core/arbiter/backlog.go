package arbiter

import (
	"cmp"
	"container/heap"

	"github.com/tangram-dev/tangram/core/explain"
)

// backlog is the jobs that wait in one leaf, in order.
//
// Jobs that are alike in all that can keep them from starting (class, namespace)
// form a bucket, so that a full quota or a full cluster is met once per bucket,
// not once per job. The queue's order is a merge of its buckets.
//
// Aging needs no sorting anew: a bucket keeps its jobs by rank and by age, and
// neither key ever changes. A pass first merges the jobs that are over age, by
// age, then the others by rank.
//
// A lenient pass leaves next to nothing out and mostly ends early: it does not merge, it
// walks the queue's own lists (walk.go).
type backlog struct {
	node    *node
	byKey   map[bucketKey]*bucket
	buckets []*bucket
	// byAge and byRank are the jobs of all buckets, as in a bucket.
	byAge, byRank list
	turns         *turns // of users, where they take turns

	// The pass under way, the moment up to which jobs were submitted that are over age, whether
	// those are being merged, and the heads of the buckets.
	pass    *pass
	overAge int64
	aged    bool
	heads   []*bucket
	// walks: the pass walks, and is at this job.
	walks bool
	at    cursor
}

type bucketKey struct {
	class           *class
	namespace, user string
}

// bucket is jobs that may start under the same conditions.
type bucket struct {
	key   bucketKey
	place int   // in backlog.buckets
	user  *user // where users take turns
	// byAge is by (submitted, ID); byRank by (rank, submitted, ID), kept only where
	// it differs.
	byAge, byRank list

	// In the pass under way: the next job to offer, the user's turn when it was
	// sorted in, and the pass in which the bucket was found blocked.
	head    *entry
	turn    int64
	blocked uint64
}

func newBacklog(n *node) *backlog {
	return &backlog{node: n, byKey: map[bucketKey]*bucket{}, byAge: list{compare: byAge}, byRank: list{compare: byRank}, turns: newTurns()}
}

func byAge(a, b *entry) int {
	return cmp.Or(cmp.Compare(a.Submitted, b.Submitted), cmp.Compare(a.ID, b.ID))
}

func byRank(a, b *entry) int { return cmp.Or(cmp.Compare(a.rank, b.rank), byAge(a, b)) }

// ranked says that the order is not that of submission alone.
func (b *backlog) ranked() bool { return policies[b.node.Order].rank != nil }

// takesTurns says that users take turns.
func (b *backlog) takesTurns() bool { return policies[b.node.Order].turns }

func (b *backlog) add(e *entry) {
	key := bucketKey{class: e.class, namespace: e.Namespace}
	if b.takesTurns() {
		key.user = e.User
	}
	k := b.byKey[key]
	if k == nil {
		k = &bucket{key: key, place: len(b.buckets), byAge: list{compare: byAge}, byRank: list{compare: byRank}}
		b.byKey[key] = k
		b.buckets = append(b.buckets, k)
		if b.takesTurns() {
			k.user = b.turns.join(e.User)
		}
	}
	e.bucket = k
	k.byAge.insert(e)
	b.byAge.insert(e)
	if b.ranked() {
		k.byRank.insert(e)
		b.byRank.insert(e)
	}
}

// served says that a user had a turn.
func (b *backlog) served(user string) {
	if b.takesTurns() {
		b.turns.serve(user)
	}
}

func (b *backlog) remove(e *entry) {
	k := e.bucket
	e.bucket = nil
	k.byAge.remove(e)
	b.byAge.remove(e)
	if b.ranked() {
		k.byRank.remove(e)
		b.byRank.remove(e)
	}
	if k.byAge.empty() {
		delete(b.byKey, k.key)
		last := b.buckets[len(b.buckets)-1]
		b.buckets[k.place], last.place = last, k.place
		b.buckets = b.buckets[:len(b.buckets)-1]
		if k.user != nil {
			b.turns.leave(k.user)
		}
	}
}

// begin starts a pass.
func (b *backlog) begin(p *pass, now int64) {
	b.pass = p
	aging := int64(b.node.aging())
	b.aged = b.ranked() && aging > 0
	b.overAge = now - aging
	if b.walks = p.mode == lenient && !b.takesTurns(); b.walks {
		b.setOut()
	} else {
		b.gather()
	}
}

// gather puts the buckets' heads in order, for the merge that is next.
func (b *backlog) gather() {
	b.heads = b.heads[:0]
	pass, space := b.pass.number, b.pass.space
	for _, k := range b.buckets {
		if k.blocked == pass || k.key.class.full == pass || space != 0 && k.key.class.fullIn == space {
			continue
		}
		k.head = nil
		if b.step(k) {
			b.heads = append(b.heads, k)
		}
	}
	heap.Init(b)
}

// step moves a bucket's head to the next job of the merge.
func (b *backlog) step(k *bucket) bool {
	switch {
	case !b.ranked():
		k.head = k.byAge.after(k.head)
	case b.aged:
		if k.head = k.byAge.after(k.head); k.head != nil && k.head.Submitted > b.overAge {
			k.head = nil
		}
	default:
		k.head = k.byRank.after(k.head)
		for k.head != nil && b.node.aging() > 0 && k.head.Submitted <= b.overAge {
			k.head = k.byRank.after(k.head) // offered before, by age
		}
	}
	if k.user != nil {
		k.turn = k.user.turn(b.pass.number)
	}
	return k.head != nil
}

// next returns the job to offer, nil when there is none left in this pass. It may
// be asked again, and answers anew when limits have been reached since.
func (b *backlog) next() *entry {
	if b.walks {
		return b.walk()
	}
	for {
		if len(b.heads) == 0 {
			if !b.aged {
				return nil
			}
			b.aged = false
			b.gather()
			continue
		}
		k := b.heads[0]
		switch {
		case k.user != nil && k.turn < k.user.turn(b.pass.number):
			k.turn = k.user.turn(b.pass.number) // another of the user's buckets had the turn
			heap.Fix(b, 0)
		case k.key.class.full == b.pass.number || k.blocked == b.pass.number:
			heap.Pop(b)
		case b.blocked(k):
			heap.Pop(b)
			if b.pass.mode == strict && k.waits(b.pass.queues) {
				b.close()
			}
		default:
			return k.head
		}
	}
}

// blocked says that a bucket's jobs may not start. Use only grows during a pass,
// so the bucket is out for all of it, and when the cluster as a whole is used up,
// so are all of its class.
func (b *backlog) blocked(k *bucket) bool {
	switch w := b.pass.queues.may(k.head, k.key.class.needs); {
	case w.Code == 0 || b.pass.mode == lenient && w.forRoom():
		return false
	case w.Code == explain.OverTotal:
		k.key.class.full = b.pass.number
	}
	k.blocked = b.pass.number
	return true
}

// offered goes on behind the job that next returned.
func (b *backlog) offered() {
	if b.walks {
		b.at.move()
		return
	}
	k := b.heads[0]
	if k.user != nil {
		b.turns.visit(k.user, b.pass.number)
	}
	if b.step(k) {
		heap.Fix(b, 0)
	} else {
		heap.Pop(b)
	}
}

// close ends the pass for this queue.
func (b *backlog) close() {
	b.heads, b.aged = b.heads[:0], false
	b.at = cursor{list: &list{}}
}

// The heap of heads.

func (b *backlog) Len() int { return len(b.heads) }

func (b *backlog) Less(i, j int) bool {
	x, y := b.heads[i], b.heads[j]
	if b.aged {
		return byAge(x.head, y.head) < 0
	}
	return cmp.Or(cmp.Compare(x.turn, y.turn), byRank(x.head, y.head)) < 0
}

func (b *backlog) Swap(i, j int) { b.heads[i], b.heads[j] = b.heads[j], b.heads[i] }
func (b *backlog) Push(x any)    { b.heads = append(b.heads, x.(*bucket)) }
func (b *backlog) Pop() any {
	last := b.heads[len(b.heads)-1]
	b.heads = b.heads[:len(b.heads)-1]
	return last
}
