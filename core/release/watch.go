package release

import (
	"maps"
	"slices"

	"github.com/tangram-dev/tangram/core/memo"
)

// WatchAt is when releases are to be looked at; 0: there are none to watch. That they are
// late gives no gang a place, so it is no timer of memo's.
func (d *Register) WatchAt() int64 { return d.watchAt }

// watchBy makes sure that releases are looked at by a time.
func (d *Register) watchBy(at int64) {
	if d.watchAt == 0 || at < d.watchAt {
		d.watchAt = at
	}
}

// Watch lets members go again whose pause is over, activates those again that have not come
// to their cycle, and takes back batches that did not come together in time.
func (d *Register) Watch(now int64, undo func(Undone)) {
	if d.watchAt == 0 || now < d.watchAt {
		return
	}
	d.watchAt = 0
	for _, h := range slices.Sorted(maps.Keys(d.releases)) {
		r := d.releases[h]
		if r.seen {
			continue
		}
		if r.nudge > now {
			d.watchBy(r.nudge)
			continue
		}
		switch {
		case r.pauses:
			r.pauses = false
			d.effects.Released = append(d.effects.Released, r.Release)
		case r.nudges < d.options.Timing.Nudges:
			r.nudges++
			d.effects.Activate = append(d.effects.Activate, h)
		default:
			d.effects.Requeue = append(d.effects.Requeue, h)
		}
		r.nudge = memo.Later(now, int64(d.options.Timing.NudgeAfter))
		d.watchBy(r.nudge)
	}
	for _, id := range slices.Sorted(maps.Keys(d.batches)) {
		b := d.batches[id]
		if end := memo.Later(b.since, int64(d.options.BatchTimeout)); now < end {
			d.watchBy(end)
			continue
		}
		delete(d.batches, id)
		for _, h := range b.members {
			if r := d.releases[h]; r != nil && r.batch == b {
				if k := d.cluster.Gang(r.Gang); k != nil {
					k.Memo.Refused("kube-scheduler did not schedule all members in time")
					d.memo.Rest(&k.Memo)
				}
				undo(d.takeBack(h, r, true))
				break
			}
		}
	}
}
