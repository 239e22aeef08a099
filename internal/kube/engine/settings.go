package engine

import (
	"maps"
	"slices"
	"time"

	"github.com/tangram-dev/tangram/core/engine"
	"github.com/tangram-dev/tangram/core/topology"
	"github.com/tangram-dev/tangram/internal/kube/contest"
	"github.com/tangram-dev/tangram/internal/kube/inventory"
	"github.com/tangram-dev/tangram/internal/kube/observe"
	"github.com/tangram-dev/tangram/internal/kube/workload"
)

// BatchTimeout is how long members that start together may take until the last of them
// is at Permit, unless it was set to something else. They follow each other in
// kube-scheduler's queue, so it is less than a second, unless another plugin keeps one of
// them out of it.
const BatchTimeout = 2 * time.Minute

// Timing is how long the adapter waits; core's own times are in its options.
type Timing struct {
	// Step is how long decisions pause when nothing happens: ages depend on time.
	Step         time.Duration
	Terminating  time.Duration // how long after its grace period a pod is still expected to go
	Contest      time.Duration // how long records may contradict on a node with an agent: see contest.Grace
	InvalidQueue time.Duration // how long a queue may be invalid unreported: see queuePatience
	workload.Timing
}

// DefaultTiming is the scheduler's.
func DefaultTiming() Timing {
	return Timing{Step: 5 * time.Second, Terminating: 10 * time.Minute, Contest: contest.Grace, InvalidQueue: queuePatience, Timing: workload.DefaultTiming()}
}

// Settings are how the engine is configured.
type Settings struct {
	Options         engine.Options // Options has no Facts
	Timing          Timing
	Levels          topology.Levels // those of the configuration
	Profiles        map[string]workload.Profile
	Protected       []string // the namespaces whose pods are never victims; nil: the default
	TelemetryMaxAge time.Duration
}

// DefaultSettings are those of an engine that was not configured.
func DefaultSettings() Settings {
	options := engine.DefaultOptions()
	options.BatchTimeout, options.Facts = BatchTimeout, nil
	return Settings{Options: options, Timing: DefaultTiming(), Levels: topology.DefaultLevels(), Profiles: map[string]workload.Profile{}, TelemetryMaxAge: inventory.TelemetryMaxAge}
}

// settings are the engine's as they are now.
func (d *driver) settings() Settings {
	s := Settings{
		Options: d.core.Options(), Timing: d.timing, Levels: d.inventory.Configured(), Profiles: maps.Clone(d.reader.Profiles()),
		Protected: d.reader.ProtectedNamespaces(), TelemetryMaxAge: d.freshness.MaxAge(),
	}
	s.Options.Facts = nil
	if s.Profiles == nil {
		s.Profiles = map[string]workload.Profile{}
	}
	return s
}

// Configure changes settings, from the next step on. Where all nodes are to be read again
// for it, they are with the next events.
func (e *Engine) Configure(change func(*Settings)) {
	e.mu.Lock()
	defer e.mu.Unlock()
	d := e.driver
	was := d.settings()
	s := d.settings()
	change(&s)
	s.Options.Facts = nil // they stay
	d.tell(engine.Configured{Options: s.Options})
	d.timing = s.Timing
	d.work.SetTiming(s.Timing.Timing)
	d.contests.Grace = s.Timing.Contest
	for name, p := range s.Profiles {
		d.reader.Own(name, p)
	}
	if s.Protected != nil {
		d.reader.Protect(s.Protected)
	}
	levels, age := !slices.Equal(s.Levels, was.Levels), s.TelemetryMaxAge != was.TelemetryMaxAge
	if levels {
		d.inventory.SetLevels(s.Levels)
	}
	if age {
		d.freshness.SetMaxAge(s.TelemetryMaxAge)
	}
	if levels || age {
		for _, n := range d.inventory.All() {
			d.feed.push(NodeEvent(n.Object.Name))
		}
	}
}

// Own says that the pods of a scheduler name are placed here, and what its profile says
// about them.
func (e *Engine) Own(schedulerName string, p workload.Profile) {
	e.Configure(func(s *Settings) { s.Profiles[schedulerName] = p })
}

// Levels are the levels of domains, outermost first; not to be changed.
func (e *Engine) Levels() topology.Levels { return e.inventory.Levels() }

// ReportEvery sets how often conditions of waiting pods are brought up to date at most.
func (e *Engine) ReportEvery(every time.Duration) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.driver.notices.Every = every
}

// Observe changes what the observer counts.
func (e *Engine) Observe(change func(o *observe.Observer, now time.Time)) {
	e.mu.Lock()
	defer e.mu.Unlock()
	change(e.observer, e.clock())
}

// Autoscale makes the engine ask for nodes of the domains in which gangs lack some, and for
// those to stay that it keeps for gangs. patience is how long nodes of one domain are asked
// for that do not come.
func (e *Engine) Autoscale(patience time.Duration) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.driver.demands.Enable(patience)
}
