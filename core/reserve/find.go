package reserve

import (
	"cmp"
	"slices"

	"github.com/tangram-dev/tangram/core/arbiter"
	"github.com/tangram-dev/tangram/core/cluster"
	"github.com/tangram-dev/tangram/core/gang"
	"github.com/tangram-dev/tangram/core/ground"
	"github.com/tangram-dev/tangram/core/memo"
	"github.com/tangram-dev/tangram/core/model"
)

// patient says whether a gang can still wait: it has not waited for its patience, and
// its queue is not owed as much as it would use in a thirty-second part of that.
func (b *Book) patient(k *cluster.Tracked, now int64) bool {
	patience := b.options.Patience
	return now < memo.Later(k.Submitted, int64(patience)) && !b.cluster.Tree().Overdue(arbiter.JobID(k.ID), patience/32)
}

// due says whether nodes may be kept for a gang: not while they would be kept from
// those whose turn it is.
func (b *Book) due(k *cluster.Tracked, now int64) bool {
	return b.cluster.Tree().Due(arbiter.JobID(k.ID), now >= memo.Later(k.Submitted, int64(b.options.Patience)))
}

// Find finds the earliest start of a gang that does not fit now, from the known ends of
// what runs, and keeps its nodes. Gangs whose end is not known are assumed to run longest,
// the oldest of them to end first; nodes are kept for such an end only once the gang's
// patience is over. more: it may fit on other nodes than were looked at.
func (b *Book) Find(k *cluster.Tracked, now int64) (more bool) {
	// A gang that needs a single device gets none: whatever ends makes room for it, and in
	// its turn it is offered that.
	if b.Of(k.ID) != nil || !b.memo.WorthTrying(&k.Memo, memo.Reserving) || !b.memo.WorthTrying(&k.Memo, memo.Keeping) || k.Single() {
		return false
	}
	patient := b.patient(k, now)
	if patient && !b.memo.WorthTrying(&k.Memo, memo.ReservingEarly) || !b.memo.WorthTrying(&k.Memo, memo.ReservingAny) ||
		b.Waiting() >= b.options.Reservations || !b.due(k, now) || b.TakesQuota(k, memo.Never) {
		return false
	}
	g := b.ground(k, now)
	plan, ends, at, ok := b.earliest(k, b.list, g.Nodes, now)
	displaces := false
	if !ok && !patient && b.cluster.Never(k) == nil {
		// Gangs that came later make room for it, and find another time.
		older := slices.DeleteFunc(slices.Clone(b.list), func(r *Reservation) bool { return b.younger(r, k) })
		if plan, ends, at, ok = b.earliest(k, older, g.Nodes, now); ok {
			b.dropIf(func(r *Reservation) bool { return b.younger(r, k) })
			displaces = true
		}
	}
	if !ok && g.More {
		b.grounds[k.ID]++
		return true
	}
	delete(b.grounds, k.ID)
	switch {
	case !ok:
		b.memo.Failed(&k.Memo, memo.ReservingAny)
		b.memo.Failed(&k.Memo, memo.ReservingEarly)
		if !patient {
			b.memo.Failed(&k.Memo, memo.Reserving)
		}
		return false // not even an empty cluster would do, or others have reserved it
	case ends == 0 && !displaces:
		return false // it fits now, and waits for its turn only
	case patient && (at == memo.Never || ends == 1 && k.Missing() == 1):
		// The time is not known, or a single member needs only the next one to end and takes
		// its turn like others.
		b.memo.Failed(&k.Memo, memo.ReservingEarly)
		return false
	}
	k.Memo.Succeeded(memo.Reserving)
	k.Memo.Succeeded(memo.Keeping)
	b.add(&Reservation{gang: k.ID, at: at, nodes: nodesOf(&plan)})
	if at != memo.Never {
		b.Promises.Set(k.ID, at)
	}
	return false
}

// earliest finds when a gang fits first, by places and by queues, by the expected ends
// of what runs, outside of nodes that others have reserved, which are in use by then:
// the plan, how many must have ended, and the time of the last of them; on some nodes
// only when given.
func (b *Book) earliest(k *cluster.Tracked, closed []*Reservation, only []model.NodeID, now int64) (best gang.Plan, count int, at int64, ok bool) {
	type ending struct {
		k  *cluster.Tracked
		at int64
	}
	var ends []ending
	for o := range b.cluster.RunningOn(only) { // sorted below
		if o != k {
			ends = append(ends, ending{o, o.Expected(now)})
		}
	}
	slices.SortFunc(ends, func(a, b ending) int {
		return cmp.Or(cmp.Compare(a.at, b.at), cmp.Compare(a.k.Started(), b.k.Started()), cmp.Compare(a.k.ID, b.k.ID))
	})
	var coming []arbiter.JobID
	for _, r := range closed {
		coming = append(coming, arbiter.JobID(r.gang))
	}
	// The first so many ends let it fit: more ends never hurt, so search by halves.
	try := func(count int) (gang.Plan, bool) {
		t := b.cluster.Begin()
		defer t.Rollback()
		gone := make([]arbiter.JobID, count)
		for i, end := range ends[:count] {
			gone[i] = arbiter.JobID(end.k.ID)
			for h := range end.k.Places() { // the order does not matter
				t.Drop(h)
			}
		}
		if k.Placed() == 0 && !b.cluster.Tree().Forecast(gone, coming).Lets(arbiter.JobID(k.ID)) {
			return gang.Plan{}, false
		}
		ask := k.Demand()
		ask.Within = only
		b.cluster.Constrain(k, ask, Closed(closed))
		plan, failure := t.Plan(ask)
		return plan, failure == nil
	}
	if best, ok = try(len(ends)); !ok {
		return best, 0, 0, false
	}
	low, high := 0, len(ends)
	for low < high {
		middle := (low + high) / 2
		if plan, ok := try(middle); ok {
			best, high = plan, middle
		} else {
			low = middle + 1
		}
	}
	if high == 0 {
		return best, 0, now, true
	}
	return best, high, ends[high-1].at, true
}

// ground is where an earliest start for a gang is looked for now: where its members have
// room first.
func (b *Book) ground(k *cluster.Tracked, now int64) ground.Ground {
	size, all := ground.Size(b.cluster, k.Missing())
	if all {
		return ground.Ground{}
	}
	type end struct{ at, demand int64 }
	var ends []end
	sites := ground.Sites(b.cluster, k, func(id model.NodeID, free, need int64) (order, then, gives int64, ok bool) {
		ends = ends[:0]
		for c := range b.cluster.Ledger().EachClaim(id) {
			if o := b.cluster.GangOf(c.Holder); o != nil && o != k {
				d := ground.DemandOf(b.cluster, o, c.Holder)
				ends = append(ends, end{o.Expected(now), d})
				gives += d
			}
		}
		slices.SortFunc(ends, func(a, b end) int { return cmp.Or(cmp.Compare(a.at, b.at), cmp.Compare(b.demand, a.demand)) })
		order = now
		for _, x := range ends {
			if free >= need {
				break
			}
			free += x.demand
			order, then = x.at, then+1
		}
		return order, then, gives, true
	})
	fits := ground.Hosts(b.cluster, k, func(o *cluster.Tracked) bool { return o != k })
	return ground.At(sites, fits, size, k.Missing(), b.grounds[k.ID])
}
