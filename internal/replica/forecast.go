package replica

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/tangram-dev/tangram/api/query"
	"github.com/tangram-dev/tangram/core/engine"
)

// Forecast is when waiting gangs are expected to start, by the expected ends of what runs
// and of what starts before them, if nothing else comes.
type Forecast struct {
	At time.Time
	// Starts are the gangs that start in the simulation, Until is how far it went.
	Starts map[engine.ID]time.Time
	Until  time.Time
	// Waited are the gangs that waited when it was made: it knows nothing of others.
	Waited map[engine.ID]bool
	// Unknown is how many of the gangs that ran have no known end.
	Unknown int
	guesses string
	stopped Stop
}

// Forecast steps a replica until all gangs that wait have started, or as far as the limits
// let it.
func (s *State) Forecast(ctx context.Context) (*Forecast, error) {
	x, err := NewRun(s.snapshot, s.limits)
	if err != nil {
		return nil, err
	}
	return x.forecast(ctx)
}

func (x *Run) forecast(ctx context.Context) (*Forecast, error) {
	waiting := x.Waiting()
	waited := make(map[engine.ID]bool, len(waiting))
	for _, id := range waiting {
		waited[id] = true
	}
	unknown := x.unknownEnds()
	why, err := x.Forward(ctx, func() bool {
		waiting = slices.DeleteFunc(waiting, func(id engine.ID) bool { _, ok := x.Starts[id]; return ok })
		return len(waiting) == 0
	})
	if err != nil {
		return nil, err
	}
	return &Forecast{At: x.began, Starts: x.Starts, Until: x.Now(), Waited: waited, Unknown: unknown, guesses: x.guesses(), stopped: why}, nil
}

// Start is when a gang is expected to start, told at a time; false when the forecast does
// not know: the gang came after it was made, or should have started already.
func (f *Forecast) Start(id engine.ID, now time.Time) (query.Start, bool) {
	at, starts := f.Starts[id]
	if !f.Waited[id] || starts && !at.After(now) {
		return query.Start{}, false
	}
	out := query.Start{Known: query.StartsUnknown}
	switch {
	case starts:
		out.Known, out.At = query.StartsForecast, &at
		out.Because = "by the expected ends of what runs and of what starts before it, if nothing else comes" + f.guesses
	case f.stopped == StopSteps || f.stopped == StopHorizon || f.stopped == StopContext:
		out.Because = fmt.Sprintf("not before %s; the forecast goes no further", clock(f.Until))
	case f.Unknown > 0:
		out.Because = runtimesUnknown(f.Unknown)
	default:
		out.Because = "it does not start in the forecast, although all that runs and waits before it ends"
	}
	out.Because += fmt.Sprintf(" (a forecast of %s ago)", max(0, now.Sub(f.At)).Round(time.Second))
	return out, true
}
