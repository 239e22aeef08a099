package engine

import (
	"slices"

	"github.com/tangram-dev/tangram/core/model"
)

// futileEvictions is what came of evictions for a gang.
type futileEvictions struct {
	// evicted: victims were chosen for it; kept are the nodes on which it was started when
	// nodes were kept for it, these or others, sorted; times is how often that was followed by a start that
	// failed. Before after, no more victims are chosen.
	evicted bool
	kept    []model.NodeID
	times   int
	after   int64
	// rekept is how often the nodes were kept once more after a start that was undone.
	rekept int
}

// maxRekept bounds that: a gang that the filters refuse again and again gives its nodes
// up.
const maxRekept = 3

// futileDoubled bounds how often Timing.FutilePause is doubled: how long no pod is evicted
// for a gang whose start failed after pods had been evicted for it. The plan had proved that the victims were in the way, so something else is, too: a
// filter outside core can still reject the node, and that is known only after the
// victims are gone.
const futileDoubled = 10

// startUndone takes note that a gang's start was undone. If nodes had been kept for the
// gang, those on which it was started are kept once more, for a short time: often
// kube-scheduler has only not heard yet that pods there are gone, and what they left must
// not go to another gang. Nor must it be lost to gangs that came later and have reserved
// these nodes, for after the gang, while it was being started: they find another time.
func (e *Engine) startUndone(k *known) {
	f := &k.futile
	if f.times == 0 && f.rekept < maxRekept && len(f.kept) > 0 && e.reservationOf(k.ID) == nil {
		closing := e.closing(k, e.now)
		e.unreserve(func(r *reservation) bool {
			return slices.Contains(closing, r) && e.younger(r, k) && slices.ContainsFunc(f.kept, r.has)
		})
		e.reserved = append(e.reserved, &reservation{id: k.ID, at: e.now, until: later(e.now, int64(e.options.Timing.LastWait)), nodes: f.kept})
		e.generation++
		f.rekept++
	}
	if !f.evicted {
		return
	}
	k.futile = futileEvictions{times: k.futile.times + 1, rekept: f.rekept, after: later(e.now, int64(e.options.Timing.FutilePause)<<min(k.futile.times, futileDoubled))}
}
