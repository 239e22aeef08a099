package engine

import (
	"time"

	"github.com/tangram-dev/tangram/core/model"
	"github.com/tangram-dev/tangram/internal/kube/inventory"
)

// TelemetryMaxAge is how old telemetry may be, unless it was set to something else.
// Agents write every five minutes at least, so it is three writes that did not come.
const TelemetryMaxAge = 15 * time.Minute

// sweepEvery is how often telemetry is looked for that nobody renewed.
const sweepEvery = time.Minute

// staleness knows which nodes have telemetry, and until when it counts: core has no
// clock, and an agent that is gone sends no event.
type staleness struct {
	maxAge time.Duration
	until  map[model.NodeID]time.Time
	sweep  time.Time // the next one
}

// fresh is a node's telemetry as far as it counts now: none when it is older than
// allowed, or as far in the future (then the clocks disagree and nothing is known of its
// age). Telemetry that does not say when it was measured counts.
func (s *staleness) fresh(id model.NodeID, d *inventory.Description, now time.Time) []model.Telemetry {
	delete(s.until, id)
	if d.Telemetry == nil || d.MeasuredAt.IsZero() {
		return d.Telemetry
	}
	age := now.Sub(d.MeasuredAt)
	if age > s.maxAge || age < -s.maxAge {
		return nil
	}
	s.until[id] = d.MeasuredAt.Add(s.maxAge)
	return d.Telemetry
}

// stale returns the nodes whose telemetry has become too old; now and then, and none in
// between.
func (s *staleness) stale(now time.Time) (out []model.NodeID) {
	if now.Before(s.sweep) {
		return nil
	}
	s.sweep = now.Add(min(sweepEvery, s.maxAge))
	for id, until := range s.until { // each for itself
		if now.After(until) {
			out = append(out, id)
		}
	}
	return out
}

// SetTelemetryMaxAge sets how old telemetry may be, and looks at every node again.
func (e *Engine) SetTelemetryMaxAge(age time.Duration) {
	e.mu.Lock()
	e.telemetry.maxAge, e.telemetry.sweep = age, time.Time{}
	e.mu.Unlock()
	for _, d := range e.inventory.All() {
		e.feed.push(event{kind: aboutNode, key: d.Object.Name}, nil)
	}
}
