package reserve

import (
	"cmp"
	"slices"

	"github.com/tangram-dev/tangram/core/cluster"
	"github.com/tangram-dev/tangram/core/gang"
	"github.com/tangram-dev/tangram/core/memo"
	"github.com/tangram-dev/tangram/core/model"
)

// Book is all reservations, in the order in which they were made. Not safe for concurrent
// use.
type Book struct {
	cluster *cluster.Cluster
	memo    *memo.Memo
	options *cluster.Options
	list    []*Reservation
	// Promises are the first start times that reservations gave gangs.
	Promises *Promises
	// grounds are where earliest starts of gangs are looked for next.
	grounds map[cluster.ID]int
}

// New returns an empty book.
func New(c *cluster.Cluster) *Book {
	return &Book{cluster: c, memo: c.Memo(), options: c.Options(), Promises: &Promises{at: map[cluster.ID]int64{}}, grounds: map[cluster.ID]int{}}
}

// All are the reservations, in the order in which they were made; not to be changed.
func (b *Book) All() []*Reservation { return b.list }

// Of is a gang's reservation, or nil.
func (b *Book) Of(id cluster.ID) *Reservation {
	for _, r := range b.list {
		if r.gang == id {
			return r
		}
	}
	return nil
}

// Waiting counts the reservations that wait for others to end.
func (b *Book) Waiting() int {
	n := 0
	for _, r := range b.list {
		if r.until == 0 {
			n++
		}
	}
	return n
}

// add keeps nodes for a gang.
func (b *Book) add(r *Reservation) {
	b.list = append(b.list, r)
	b.memo.Note(memo.ReservationMade)
}

func (b *Book) dropIf(drop func(*Reservation) bool) {
	before := len(b.list)
	if b.list = slices.DeleteFunc(b.list, drop); len(b.list) != before {
		b.memo.Note(memo.ReservationEnded)
	}
}

// Drop drops a gang's reservation.
func (b *Book) Drop(id cluster.ID) { b.dropIf(func(r *Reservation) bool { return r.gang == id }) }

// DropShort drops a gang's reservation for which no further victims were found.
func (b *Book) DropShort(id cluster.ID) {
	b.dropIf(func(r *Reservation) bool { return r.gang == id && r.short })
}

// Forget drops all that is known of a gang.
func (b *Book) Forget(id cluster.ID) {
	b.Drop(id)
	delete(b.grounds, id)
	delete(b.Promises.at, id)
}

// Changed notes that a gang was submitted anew; fits: it fits where it fitted before. If not,
// nodes are kept for it only while victims leave.
func (b *Book) Changed(id cluster.ID, fits bool) {
	delete(b.grounds, id)
	if !fits {
		b.dropIf(func(r *Reservation) bool { return r.gang == id && r.until == 0 })
		delete(b.Promises.at, id)
	}
}

// nodesOf are the nodes of a plan, sorted, each once.
func nodesOf(plan *gang.Plan) (out []model.NodeID) {
	for _, p := range plan.Placements {
		out = append(out, p.Node)
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// Free keeps the nodes of a plan for a gang while victims leave.
func (b *Book) Free(k *cluster.Tracked, plan *gang.Plan, now int64) {
	b.Drop(k.ID)
	b.add(&Reservation{gang: k.ID, at: now, until: now + int64(b.options.Timing.Hold), nodes: nodesOf(plan)})
}

// Again keeps nodes once more, for a short time, for a gang whose start was undone. Gangs
// that came later and have reserved these nodes meanwhile find another time.
func (b *Book) Again(k *cluster.Tracked, nodes []model.NodeID) {
	now := b.memo.Now()
	closing := b.Closing(k, now)
	b.dropIf(func(r *Reservation) bool {
		return slices.Contains(closing, r) && b.younger(r, k) && slices.ContainsFunc(nodes, r.Has)
	})
	b.add(&Reservation{gang: k.ID, at: now, until: memo.Later(now, int64(b.options.Timing.LastWait)), nodes: nodes})
}

// VictimStays notes that a victim of a gang may not go: what the others leave is kept until
// it is known whether more can be found.
func (b *Book) VictimStays(id cluster.ID) {
	if r := b.Of(id); r != nil && r.until > 0 {
		r.short = true
	}
}

// LastVictimGone shortens what is kept for gangs for which no holder is leaving any more.
func (b *Book) LastVictimGone(awaits func(cluster.ID) bool, now int64) {
	last := now + int64(b.options.Timing.LastWait)
	for _, r := range b.list {
		if r.until > last && !awaits(r.gang) {
			r.until = last
		}
	}
}

// Tried says whether the gang was tried on its nodes since something was freed.
func (b *Book) Tried(r *Reservation) bool { return r.tried == b.memo.RoomVersion()+1 }

// Missed notes that the gang could not start on the nodes that are kept for it. Where they
// are idle, what was planned cannot be done, and no gang must wait for it.
func (b *Book) Missed(k *cluster.Tracked, r *Reservation) {
	r.tried = b.memo.RoomVersion() + 1
	if r.until == 0 && b.idle(r) {
		b.memo.Failed(&k.Memo, memo.Keeping)
		b.dropIf(func(o *Reservation) bool { return o == r })
	}
}

// idle says whether no pod is on the nodes of a reservation.
func (b *Book) idle(r *Reservation) bool {
	for _, id := range r.nodes {
		for range b.cluster.Ledger().EachClaim(id) {
			return false
		}
	}
	return true
}

// Closing are the reservations of others whose nodes a gang must leave alone, because
// they need them before it would end.
func (b *Book) Closing(k *cluster.Tracked, now int64) []*Reservation {
	var out []*Reservation
	end := k.End(now)
	for _, r := range b.list {
		if r.gang != k.ID && (r.until > 0 || r.at == memo.Never || end > r.at) {
			out = append(out, r)
		}
	}
	return out
}

// Closed says of a node whether reservations keep it; nil when there are none.
func Closed(list []*Reservation) func(model.NodeID) bool {
	if len(list) == 0 {
		return nil
	}
	return func(id model.NodeID) bool {
		return slices.ContainsFunc(list, func(r *Reservation) bool { return r.Has(id) })
	}
}

// Keeps says whether a node is kept for another gang than this one.
func (b *Book) Keeps(k *cluster.Tracked, node model.NodeID) bool {
	return slices.ContainsFunc(b.Closing(k, b.memo.Now()), func(r *Reservation) bool { return r.Has(node) })
}

// younger says whether a reservation is of a gang that came after another and waits
// for others to end.
func (b *Book) younger(r *Reservation, k *cluster.Tracked) bool {
	o := b.cluster.Gang(r.gang)
	return r.until == 0 && cmp.Or(cmp.Compare(o.Submitted, k.Submitted), cmp.Compare(o.ID, k.ID)) > 0
}

// NodesChanged notes that nodes have changed: where and when gangs can start is found anew;
// what is being freed stays.
func (b *Book) NodesChanged() {
	for _, r := range b.list {
		r.doubtful = r.until == 0
	}
}
