package release

import (
	"slices"

	"github.com/tangram-dev/tangram/core/memo"
	"github.com/tangram-dev/tangram/core/model"
)

// Fail takes back a release and those of all members planned with it: the member's cycle
// failed. atFault: the planned node was wrong, so planning anew helps at once; otherwise
// the gang rests. While the others are being bound, a member keeps its place and tries
// again, a few times.
func (d *Register) Fail(h model.HolderID, t Ticket, atFault bool, why string) Undone {
	r := d.current(h, t)
	if r == nil {
		return Undone{} // taken back before, with another member's
	}
	if k := d.cluster.Gang(r.Gang); k != nil && !atFault {
		k.Memo.Refused(why)
		if r.batch.going && (k.Min > 1 || k.Placed() > 1) && r.failures < d.options.Timing.BindTries {
			d.tryAgain(r)
			return Undone{}
		}
		d.memo.Rest(&k.Memo)
	}
	return d.takeBack(h, r, false)
}

// tryAgain lets a member go to its place once more, by itself, after a pause. It keeps
// its devices meanwhile.
func (d *Register) tryAgain(r *issued) {
	d.revoke(r.Holder)
	b := d.newBatch()
	b.members = append(b.members, r.Holder)
	again := &issued{
		Release: r.Release, batch: b, failures: r.failures + 1, pauses: true,
		nudge: memo.Later(d.memo.Now(), int64(d.options.Timing.Start.First)),
	}
	d.tickets++
	again.Ticket = d.tickets
	d.releases[r.Holder] = again
	d.watchBy(again.nudge)
}

// takeBack undoes a release, and those of its batch while none of it is being bound. Members
// that wait for it at Permit are told to stop; it, too, when all is set.
func (d *Register) takeBack(h model.HolderID, r *issued, all bool) Undone {
	members := []model.HolderID{h}
	if !r.batch.going {
		members = r.batch.members
		delete(d.batches, r.batch.id)
	}
	out := Undone{Gang: r.Gang}
	var waiting []model.HolderID
	for _, o := range members {
		if x := d.releases[o]; x == nil || x.batch != r.batch {
			continue
		}
		d.revoke(o)
		if o != h {
			waiting = append(waiting, o)
		}
		out.Members = append(out.Members, o)
	}
	slices.Sort(waiting)
	if all {
		waiting = append(waiting, h)
	}
	d.effects.Stop = append(d.effects.Stop, waiting...)
	return out
}

func (d *Register) revoke(h model.HolderID) {
	delete(d.releases, h)
	d.effects.Revoked = append(d.effects.Revoked, h)
}

// Lose takes back the release of a member that is gone, or bound. Members that wait for
// one that is gone are told to stop.
func (d *Register) Lose(h model.HolderID) Undone {
	r := d.releases[h]
	if r == nil {
		return Undone{}
	}
	if r.batch.going {
		d.revoke(h)
		return Undone{}
	}
	return d.takeBack(h, r, false)
}
