package memo

import "time"

// Timing is how long the engine waits: timeouts, pauses and back-offs. Search limits are
// counted steps and not here.
type Timing struct {
	// NudgeAfter is after how long a released member is activated again whose scheduling
	// cycle has not come: kube-scheduler's queue has lost it, or a plugin keeps it out.
	// After so many Nudges it is taken for lost.
	NudgeAfter time.Duration
	Nudges     int
	// BindTries is how often a member of a gang may fail to be bound before it loses its
	// place.
	BindTries int
	// Start is for a gang whose start failed for reasons that planning anew does not cure.
	Start Backoff
	// Veto is for a node that kube-scheduler's filters refused for a shape. VetoEverywhere
	// is the first pause when no node would do: what is missing (a claim, a class) does not
	// come within milliseconds.
	Veto           Backoff
	VetoEverywhere time.Duration
	// Suspend is for all starts, when the API server cannot be written to.
	Suspend Backoff
	// Hold is how long nodes are kept for a gang while victims leave: longer than any
	// sensible grace period. LastWait is how long once the last victim is gone: the gang
	// should start at once.
	Hold, LastWait time.Duration
	// Spared is how long a pod is left alone that could not be evicted.
	Spared time.Duration
	// ReclaimAfter is how long a queue has to be short of a gang before others are evicted
	// for it: pods that end by themselves meanwhile lose no work.
	ReclaimAfter time.Duration
	// FutilePause is how long no pod is evicted for a gang whose start failed after pods
	// had been evicted for it; twice as long each further time.
	FutilePause time.Duration
}

// Backoff is a pause that doubles each time, from First up to Most.
type Backoff struct{ First, Most time.Duration }

// After is the pause after so many failures before this one.
func (b Backoff) After(failures int) int64 {
	pause := int64(b.First)
	for range failures {
		if pause >= int64(b.Most)/2 {
			return int64(b.Most)
		}
		pause *= 2
	}
	return min(pause, int64(b.Most))
}

// DefaultTiming is the scheduler's.
func DefaultTiming() Timing {
	return Timing{
		NudgeAfter: 3 * time.Second, Nudges: 2, BindTries: 8,
		Start:   Backoff{time.Second, time.Minute},
		Veto:    Backoff{10 * time.Millisecond, 15 * time.Second},
		Suspend: Backoff{time.Second, 15 * time.Second}, VetoEverywhere: time.Second,
		Hold: 10 * time.Minute, LastWait: 30 * time.Second, Spared: 30 * time.Second,
		ReclaimAfter: 20 * time.Second, FutilePause: time.Minute,
	}
}

// Never is a time that does not come.
const Never = int64(1<<63 - 1)

// Later is a time after another, at most Never.
func Later(at, by int64) int64 {
	if by > Never-max(at, 0) {
		return Never
	}
	return at + by
}
