package checker

import "time"

// able is a clock that runs while the scheduler is able to work: the API server
// serves, a scheduler that is not stopped holds the lease, and the checker sees. After
// an outage it runs again from the first binding, or from settle after the outage's
// end if there is none.
type able struct {
	settle  time.Duration
	running bool
	// up is when the outage ended; zero while it lasts.
	up    time.Time
	total time.Duration
	last  time.Time
}

// advance moves the clock to now.
func (a *able) advance(now time.Time) {
	if !a.running && !a.up.IsZero() && now.Sub(a.up) >= a.settle {
		a.running, a.last = true, a.up.Add(a.settle)
	}
	if a.running && now.After(a.last) {
		a.total += now.Sub(a.last)
	}
	a.last = now
}

// set says whether the scheduler is able to work from now on.
func (a *able) set(now time.Time, can bool) {
	a.advance(now)
	switch {
	case !can:
		a.running, a.up = false, time.Time{}
	case !a.running && a.up.IsZero():
		a.up = now
	}
}

// bound says that the scheduler bound a pod: it works.
func (a *able) bound(now time.Time) {
	a.advance(now)
	if !a.up.IsZero() {
		a.running = true
	}
}
