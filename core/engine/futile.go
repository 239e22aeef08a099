package engine

import (
	"time"

	"github.com/tangram-dev/tangram/core/model"
)

// futileEvictions is what came of evictions for a gang.
type futileEvictions struct {
	// evicted: victims were chosen for it; kept are the nodes that were kept for it and
	// on which it was started; times is how often that was followed by a start that
	// failed. Before after, no more victims are chosen.
	evicted bool
	kept    []model.NodeID
	times   int
	after   int64
}

// futilePause is how long no pod is evicted for a gang whose start failed after pods
// had been evicted for it; twice as long each further time, up to so many doublings.
// The plan had proved that the victims were in the way, so something else is, too: a
// filter outside core can still reject the node, and that is known only after the
// victims are gone.
const (
	futilePause   = int64(time.Minute)
	futileDoubled = 10
)

// startUndone takes note that a gang's start was undone. Its nodes are kept once more,
// for a short time: often kube-scheduler has only not heard yet that the victims are
// gone, and what they left must not go to another gang.
func (e *Engine) startUndone(k *known) {
	if !k.futile.evicted {
		return
	}
	if k.futile.times == 0 && len(k.futile.kept) > 0 && e.reservationOf(k.ID) == nil {
		e.reserved = append(e.reserved, &reservation{id: k.ID, at: e.now, until: later(e.now, lastWait), nodes: k.futile.kept})
		e.generation++
	}
	k.futile = futileEvictions{times: k.futile.times + 1, after: later(e.now, futilePause<<min(k.futile.times, futileDoubled))}
}
