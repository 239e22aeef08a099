package reserve

import (
	"slices"

	"github.com/tangram-dev/tangram/core/arbiter"
	"github.com/tangram-dev/tangram/core/cluster"
	"github.com/tangram-dev/tangram/core/explain"
	"github.com/tangram-dev/tangram/core/memo"
	"github.com/tangram-dev/tangram/core/model"
)

// Expire drops what cannot be kept: for a time that came and went, on nodes that are gone,
// for a gang that may not use them. Then it finds another time where what should have ended
// did not, before another gang takes what was kept so far, and where nodes have changed.
func (b *Book) Expire(now int64) {
	var late []*cluster.Tracked
	for _, r := range b.list {
		if r.until == 0 && r.at < now {
			late = append(late, b.cluster.Gang(r.gang))
		}
	}
	b.dropIf(func(r *Reservation) bool {
		switch k := b.cluster.Gang(r.gang); {
		case r.until > 0 && r.until < now || r.until == 0 && r.at < now:
			return true
		case r.until == 0 && k.Placed() == 0 && !b.mayCome(r):
			return true
		}
		return slices.ContainsFunc(r.nodes, func(id model.NodeID) bool {
			_, there := b.cluster.Ledger().View(id)
			return !there
		})
	})
	for _, k := range late {
		if b.mayCome(&Reservation{gang: k.ID}) {
			b.Find(k, now)
		}
	}
	b.renew(now)
}

// renew finds reservations anew after nodes have changed, in the order in which they were
// made: gangs that came later must not slip in meanwhile, nor find an earlier one's nodes.
// What was promised stays as long as it holds, unless there is something sooner.
func (b *Book) renew(now int64) {
	for _, r := range slices.Clone(b.list) {
		if !r.doubtful || b.Of(r.gang) != r {
			continue
		}
		r.doubtful, r.tried = false, 0
		k, holds := b.cluster.Gang(r.gang), b.holds(r, now)
		b.dropIf(func(o *Reservation) bool { return o == r })
		b.Find(k, now)
		if found := b.Of(k.ID); holds && (found == nil || found.at >= r.at) {
			b.dropIf(func(o *Reservation) bool { return o == found })
			b.add(r)
		}
	}
}

// holds says whether a gang still fits on the nodes that are kept for it, once those have
// ended that are expected to end by then.
func (b *Book) holds(r *Reservation, now int64) bool {
	k := b.cluster.Gang(r.gang)
	t := b.cluster.Begin()
	defer t.Rollback()
	for _, o := range slices.Collect(b.cluster.RunningOn(r.nodes)) {
		if o == k || r.at != memo.Never && o.Expected(now) > r.at {
			continue
		}
		for h := range o.Places() { // the order does not matter
			t.Drop(h)
		}
	}
	ask := k.Demand()
	ask.Within = r.nodes
	b.cluster.Constrain(k, ask, Closed(slices.DeleteFunc(slices.Clone(b.list), func(o *Reservation) bool { return o == r })))
	_, failure := t.Plan(ask)
	return failure == nil
}

// mayCome says whether queues and quotas may let a gang start by the time of its
// reservation. Quota that is short now may be in use by those who were let past
// because they end before; of an unknown time that cannot be told.
func (b *Book) mayCome(r *Reservation) bool {
	w := b.cluster.Tree().Why(arbiter.JobID(r.gang))
	return ForCapacity(w) || r.at != memo.Never && w.Code.Permanence() == explain.Temporary && b.cluster.Tree().Ever(arbiter.JobID(r.gang))
}

// ForCapacity says that nothing but the end of others keeps a gang waiting, or nothing
// at all.
func ForCapacity(w arbiter.Wait) bool { return w.Code == 0 || w.Code == explain.OverTotal }
