package health

import (
	"slices"
	"time"
)

// Saved is all that a device's state machine remembers, as plain data: an agent that is
// restarted goes on where it was, so that restarting it does not make devices healthy.
type Saved struct {
	// Now is the time of the last input.
	Now   time.Time
	State State
	Since time.Time
	// Causes are in the order of their codes, one of each at most.
	Causes []Cause
	Timers Timers
	// MostLinks is the most NVLinks that were ever up.
	MostLinks int
	// LastUncorrected and LastEnergy are the last counters, Unknown before the first.
	LastUncorrected, LastEnergy int64
	// Verdict is the driver's last one.
	Verdict Verdict
	// Questions are errors about which the driver is to be asked.
	Questions []Question
	// Errors are application errors by the time of the last of each kind.
	Errors []ApplicationError
	// BlamelessUntil: application errors count for nothing before.
	BlamelessUntil time.Time
	Flaps          []Flap
}

// Cause is one reason why a device is not healthy.
type Cause struct {
	Code  Code
	XID   int
	Words string
	State State
	Since time.Time
	// Gone is when it was found to be over; zero while it lasts. It is forgotten Quiet
	// after that.
	Gone  time.Time
	Quiet time.Duration
	// Rebooted: the node was rebooted since; the next sample that does not show the
	// cause ends it without quiet time.
	Rebooted bool
}

// Timers are when conditions began that count only after some time; zero for those that
// are not there.
type Timers struct{ Hot, Throttled, Links, Lanes, Silent, Unwatched time.Time }

// Question is an error of class AskDriver.
type Question struct {
	XID     int
	Tenants []string
}

// Flap counts how often a cause came back.
type Flap struct {
	Code  Code
	Times int
	Ended time.Time
}

// Saved is what the device remembers; it shares no memory with it.
func (d *Device) Saved() Saved { return d.s.clone() }

func (s Saved) clone() Saved {
	s.Causes, s.Flaps = slices.Clone(s.Causes), slices.Clone(s.Flaps)
	s.Questions, s.Errors = slices.Clone(s.Questions), slices.Clone(s.Errors)
	for i := range s.Questions {
		s.Questions[i].Tenants = slices.Clone(s.Questions[i].Tenants)
	}
	for i := range s.Errors {
		s.Errors[i].Tenants = slices.Clone(s.Errors[i].Tenants)
	}
	return s
}

// Restore goes on with what was saved, at the time now. What cannot have been saved by
// this package (another version's codes, times to come, quiet times without end) is
// dropped or brought into range: a damaged file costs a state, never more.
func Restore(o *Options, s Saved, now time.Time) *Device {
	s = s.clone()
	past := func(t *time.Time) {
		if t.After(now) {
			*t = now
		}
	}
	past(&s.Now)
	past(&s.Since)
	// Durations were not measured while the agent was away, so they begin anew. Until the
	// driver answers, no cause is forgotten, as when the driver is silent.
	s.Timers = Timers{Silent: now}
	slices.SortStableFunc(s.Causes, func(a, b Cause) int { return rank(a.Code) - rank(b.Code) })
	s.Causes = slices.CompactFunc(s.Causes, func(a, b Cause) bool { return a.Code == b.Code })
	s.Causes = slices.DeleteFunc(s.Causes, func(c Cause) bool { return rank(c.Code) < 0 || o.disabled(c.Code) })
	for i := range s.Causes {
		c := &s.Causes[i]
		r := rules[rank(c.Code)]
		past(&c.Since)
		past(&c.Gone)
		if r.proof == byTime && c.Gone.IsZero() {
			c.Gone = now
		}
		if c.State < r.state || c.State > Failed {
			c.State = r.state
		}
		longest := max(10*time.Minute, r.quiet) * time.Duration(o.QuietPercent) / 100 << o.MaxDoublings
		c.Quiet = min(max(c.Quiet, 0), longest)
		c.Words = clip(c.Words)
	}
	s.Flaps = slices.DeleteFunc(s.Flaps, func(f Flap) bool { return rank(f.Code) < 0 })
	s.Flaps = s.Flaps[:min(len(s.Flaps), len(rules))]
	for i := range s.Flaps {
		past(&s.Flaps[i].Ended)
		s.Flaps[i].Times = min(max(s.Flaps[i].Times, 0), o.MaxDoublings)
	}
	s.Errors = slices.DeleteFunc(s.Errors, func(e ApplicationError) bool { return len(e.Tenants) > maxTenants })
	s.Errors = s.Errors[:min(len(s.Errors), maxErrors)]
	for i := range s.Errors {
		past(&s.Errors[i].At)
		slices.Sort(s.Errors[i].Tenants)
	}
	slices.SortStableFunc(s.Errors, func(a, b ApplicationError) int { return a.At.Compare(b.At) })
	s.Questions = nil
	if latest := now.Add(o.BlameWindow); s.BlamelessUntil.After(latest) {
		s.BlamelessUntil = latest
	}
	s.MostLinks = max(s.MostLinks, 0)
	s.LastUncorrected, s.LastEnergy = max(s.LastUncorrected, Unknown), max(s.LastEnergy, Unknown)
	s.State = min(max(s.State, Healthy), Failed)
	d := &Device{o: o, s: s}
	d.settle(d.advance(now))
	return d
}
