package measure

// Uptime is the part of a window of time in which something was available. It remembers
// sums by hour, so an hour leaves the window as a whole. Not safe for concurrent use.
type Uptime struct {
	hours [uptimeHours]hourly
}

// uptimeHours is the window: 30 days.
const uptimeHours = 30 * 24

type hourly struct {
	hour      int64 // since the epoch
	up, total int64 // milliseconds
}

// maxGap is the longest time that one observation stands for, in milliseconds: a process
// that was stopped for longer has seen nothing meanwhile, and says nothing about it.
const maxGap = 60_000

// Add counts the time between two moments, in milliseconds since the epoch. A span that
// is empty, goes back or is longer than a minute does not count.
func (u *Uptime) Add(from, to int64, up bool) {
	if to <= from || to-from > maxGap || from < 0 {
		return
	}
	h := &u.hours[to/3_600_000%uptimeHours]
	if hour := to / 3_600_000; h.hour != hour {
		*h = hourly{hour: hour}
	}
	h.total += to - from
	if up {
		h.up += to - from
	}
}

// Sums are how long it was available in the window that ends now, and of how long that is
// known, in milliseconds.
func (u *Uptime) Sums(now int64) (up, total int64) {
	for _, h := range u.hours {
		if age := now/3_600_000 - h.hour; age >= 0 && age < uptimeHours {
			up, total = up+h.up, total+h.total
		}
	}
	return up, total
}
