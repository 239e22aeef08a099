package dispatch

import (
	"time"

	"github.com/tangram-dev/tangram/core/model"
)

// vain is what came of evictions for a gang.
type vain struct {
	// told: others were told to go for it; kept are the nodes that were kept for it and
	// on which it was started; times is how often that was followed by a start that
	// failed. Before after, nobody else is told.
	told  bool
	kept  []model.NodeID
	times int
	after int64
}

// vainPause is how long nobody is evicted for a gang whose start failed after others
// had gone for it; twice as long each further time, up to so many doublings. The
// plan had proved that they were in the way, so something else is, too: that nobody's
// leaving helps shows only when they have left.
const (
	vainPause   = int64(time.Minute)
	vainDoubled = 10
)

// failed takes note that a gang's start was undone. Its nodes are kept once more, for
// a short time: often kube-scheduler has only not heard yet that the victims are gone,
// and they must not have gone for somebody else.
func (e *Engine) failed(k *known) {
	if !k.vain.told {
		return
	}
	if k.vain.times == 0 && len(k.vain.kept) > 0 && e.reservationOf(k.ID) == nil {
		e.reserved = append(e.reserved, &reservation{id: k.ID, at: e.now, until: later(e.now, lastWait), nodes: k.vain.kept})
		e.generation++
	}
	k.vain = vain{times: k.vain.times + 1, after: later(e.now, vainPause<<min(k.vain.times, vainDoubled))}
}
