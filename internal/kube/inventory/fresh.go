package inventory

import (
	"slices"
	"time"

	"github.com/tangram-dev/tangram/core/model"
)

// TelemetryMaxAge is how old telemetry may be, unless it was set to something else. Agents
// write every five minutes at least, so it is three writes that did not come.
const TelemetryMaxAge = 15 * time.Minute

// sweepEvery is how often telemetry is looked for that was not renewed.
const sweepEvery = time.Minute

// Freshness knows which nodes have telemetry, and until when it counts: core has no clock,
// and an agent that is gone sends no event. Not safe for concurrent use.
type Freshness struct {
	maxAge time.Duration
	until  map[model.NodeID]time.Time
	sweep  time.Time // the next one
}

// NewFreshness returns a Freshness with TelemetryMaxAge.
func NewFreshness() *Freshness {
	return &Freshness{maxAge: TelemetryMaxAge, until: map[model.NodeID]time.Time{}}
}

// MaxAge is how old telemetry may be.
func (f *Freshness) MaxAge() time.Duration { return f.maxAge }

// SetMaxAge sets how old telemetry may be. Every node has to be read again.
func (f *Freshness) SetMaxAge(age time.Duration) { f.maxAge, f.sweep = age, time.Time{} }

// Forget forgets a node that is gone.
func (f *Freshness) Forget(id model.NodeID) { delete(f.until, id) }

// Telemetry is a node's telemetry as far as it counts now: none when it is older than
// allowed, or as far in the future (then the clocks disagree and nothing is known of its
// age). Telemetry that does not say when it was measured counts.
func (f *Freshness) Telemetry(id model.NodeID, d *Description, now time.Time) []model.Telemetry {
	delete(f.until, id)
	if d.Telemetry == nil || d.MeasuredAt.IsZero() {
		return d.Telemetry
	}
	age := now.Sub(d.MeasuredAt)
	if age > f.maxAge || age < -f.maxAge {
		return nil
	}
	f.until[id] = d.MeasuredAt.Add(f.maxAge)
	return d.Telemetry
}

// Stale are the nodes whose telemetry has become too old, to be read again; now and then,
// and none in between.
func (f *Freshness) Stale(now time.Time) (out []model.NodeID) {
	if now.Before(f.sweep) {
		return nil
	}
	f.sweep = now.Add(min(sweepEvery, f.maxAge))
	for id, until := range f.until { // sorted below
		if now.After(until) {
			out = append(out, id)
		}
	}
	slices.Sort(out)
	return out
}
