package measure

import "github.com/tangram-dev/tangram/core/model"

// Idle finds devices that are held and not used: whose measured utilization has been at
// most Below for at least After. Not safe for concurrent use.
type Idle struct {
	// Below is in percent, After in milliseconds.
	Below int
	After int64

	since map[device]*quiet
	round uint64
}

// device names one.
type device struct {
	node model.NodeID
	slot int
}

// quiet is since when a device has been quiet, as of a round.
type quiet struct {
	since int64
	round uint64
}

// NewIdle returns a watch over no device.
func NewIdle(below int, after int64) *Idle {
	return &Idle{Below: below, After: after, since: map[device]*quiet{}}
}

// Held tells of a device that is held since a time, with what was measured on it last. It
// says whether it is idle. A device of which nothing is measured is not.
func (i *Idle) Held(node model.NodeID, slot int, held int64, utilization model.Reading, now int64) bool {
	if !utilization.Known || utilization.Value > i.Below {
		return false // Sweep forgets it
	}
	at := device{node, slot}
	q := i.since[at]
	if q == nil {
		q = &quiet{since: now}
		i.since[at] = q
	}
	q.since, q.round = max(q.since, held), i.round // another holder begins anew
	return now-q.since >= i.After
}

// Is says whether a device is idle, as of what Held was last told, without telling anything.
func (i *Idle) Is(node model.NodeID, slot int, now int64) bool {
	q := i.since[device{node, slot}]
	return q != nil && now-q.since >= i.After
}

// Sweep ends a round: devices that were not quiet in it are forgotten.
func (i *Idle) Sweep() {
	for at, q := range i.since { // each for itself
		if q.round != i.round {
			delete(i.since, at)
		}
	}
	i.round++
}

// Size is how many devices are quiet.
func (i *Idle) Size() int { return len(i.since) }
