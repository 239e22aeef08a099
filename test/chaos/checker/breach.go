package checker

import (
	"slices"
	"time"
)

// Kind is which invariant was broken.
type Kind string

// The kinds of breaches.
const (
	DoubleBooking Kind = "double-booking"
	Overbooked    Kind = "node-overbooked"
	LimitExceeded Kind = "limit-exceeded"
	HalfGang      Kind = "half-gang"
	BadRecord     Kind = "bad-record"
	NotBound      Kind = "not-bound"
)

// Breach is one broken invariant.
type Breach struct {
	Time time.Time `json:"time"`
	Kind Kind      `json:"kind"`
	// Active are the faults that were active, LastFault is the last that had begun.
	Active    []string `json:"activeFaults,omitempty"`
	LastFault string   `json:"lastFault,omitempty"`
	// SinceFault is how long before it that fault ended, or began if it is active.
	SinceFault time.Duration `json:"sinceFaultNanos,omitempty"`
	Text       string        `json:"text"`
	Pods       []string      `json:"pods,omitempty"`
	Devices    []string      `json:"devices,omitempty"`
	Queue      string        `json:"queue,omitempty"`
	// LastedMillis and BothRan are of a double booking: until one of the pods was
	// gone, and whether containers of both ran meanwhile.
	LastedMillis int64 `json:"lastedMillis,omitempty"`
	BothRan      bool  `json:"bothRan,omitempty"`
	// History are the events around it, oldest first: those of its pods, and all
	// faults.
	History []string `json:"history,omitempty"`

	complete bool
}

func (c *Checker) breach(now time.Time, b Breach) *Breach {
	b.Time, b.Active, b.LastFault = now, slices.Clone(c.faults), c.lastFault
	slices.Sort(b.Active)
	if b.LastFault != "" {
		b.SinceFault = now.Sub(c.faultChanged)
	}
	c.breaches = append(c.breaches, &b)
	c.history.note(now, "BREACH", string(b.Kind)+": "+b.Text, b.Pods...)
	return &b
}

// Summary is the numbers of a run.
type Summary struct {
	Bindings int `json:"bindings"`
	// HandConflicts are bindings by hand onto held devices, HandRaces bindings of the
	// scheduler in the moment after one by hand; neither is a breach.
	HandConflicts int `json:"handConflicts"`
	HandRaces     int `json:"handRaces"`
	// HalfGangs is how many times a gang was seen between its first and last binding,
	// and HalfGangLongest the longest of these while the scheduler could work.
	HalfGangs       int           `json:"halfGangs"`
	HalfGangLongest time.Duration `json:"halfGangLongestNanos"`
	AbleTime        time.Duration `json:"schedulerAbleNanos"`
}

// Summary returns the numbers so far.
func (c *Checker) Summary() Summary {
	c.mu.Lock()
	defer c.mu.Unlock()
	s := Summary{
		Bindings: c.bindings, HandConflicts: c.handConflicts, HandRaces: c.handRaces,
		HalfGangs: len(c.halfStates), AbleTime: c.able.total,
	}
	for _, d := range c.halfStates {
		s.HalfGangLongest = max(s.HalfGangLongest, d)
	}
	return s
}
