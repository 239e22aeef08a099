package health

import (
	"time"
)

// XIDWindow is the time over which Reading.RecentXIDs counts; the last of its minutes is
// the present, unfinished one.
const XIDWindow = windowMinutes * time.Minute

const windowMinutes = 5

// xidCount counts errors of one number, since the agent started and by minute.
type xidCount struct {
	total   uint64
	minutes [windowMinutes]uint64 // by minute of the clock, modulo their number
	last    int64                 // the minute that was counted last
}

func (c *xidCount) add(now time.Time) {
	c.forget(now)
	c.total++
	c.minutes[c.last%windowMinutes]++
}

// recent is the number within the window.
func (c *xidCount) recent(now time.Time) uint64 {
	c.forget(now)
	sum := uint64(0)
	for _, n := range c.minutes {
		sum += n
	}
	return sum
}

// forget clears the minutes that have left the window.
func (c *xidCount) forget(now time.Time) {
	minute := max(now.Unix()/60, c.last)
	for m := max(c.last+1, minute-windowMinutes+1); m <= minute; m++ {
		c.minutes[m%windowMinutes] = 0
	}
	c.last = minute
}
