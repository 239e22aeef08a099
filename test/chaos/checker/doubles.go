package checker

import (
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
)

// double is a double booking that still lasts: the pod that was bound later and those
// that held the devices before.
type double struct {
	breach *Breach
	later  string
	others []string
}

// watchDoubles notes double bookings of which both sides run at once: containers of
// two pods were on one device.
func (c *Checker) watchDoubles(uid string) {
	for _, d := range c.doubles {
		if d.breach.BothRan || (d.later != uid && !slices.Contains(d.others, uid)) || !c.runs(d.later) {
			continue
		}
		d.breach.BothRan = slices.ContainsFunc(d.others, c.runs)
	}
}

func (c *Checker) runs(uid string) bool {
	h := c.holdings[uid]
	return h != nil && h.pod.Phase == v1.PodRunning
}

// endDoubles notes how long double bookings lasted that a pod's end resolves.
func (c *Checker) endDoubles(now time.Time, uid string) {
	c.doubles = slices.DeleteFunc(c.doubles, func(d *double) bool {
		d.others = slices.DeleteFunc(d.others, func(o string) bool { return o == uid })
		over := d.later == uid || len(d.others) == 0
		if over {
			d.breach.LastedMillis = now.Sub(d.breach.Time).Milliseconds()
		}
		return over
	})
}
