package publish

import (
	"cmp"
	"context"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/record"
	"k8s.io/klog/v2"

	"github.com/tangram-dev/tangram/api/v1alpha1"
	"github.com/tangram-dev/tangram/internal/agent/device"
)

// Options are what does not change while an agent runs.
type Options struct {
	// Node is the node's name.
	Node string
	API  API
	// Events writes events about the node (NewRecorder); nil for none.
	Events record.EventRecorder

	// Version and Mode describe the agent, Sharing how it sells devices to several containers (nil where it does not,
	// or does not know), MIGStrategy is none, single or mixed, empty where another device plugin decides it.
	Version     string
	Mode        v1alpha1.AgentMode
	Sharing     *v1alpha1.Sharing
	MIGStrategy string
	// TelemetryEvery is the least time between two writes of telemetry, 10 s when 0. It must be below Heartbeat.
	TelemetryEvery time.Duration
	// Heartbeat is the time after which telemetry is written though nothing moved, up to a
	// quarter more; 4 minutes when 0.
	Heartbeat time.Duration
	// Machine is the machine's product name, for a label; may be empty.
	Machine string
	// Wrote hears what came of each write: of spec, status or labels. It may be nil.
	Wrote func(part string, err error)
}

// observed are the options of an agent that only observes.
func (o Options) observed() *Options {
	o.Mode, o.Sharing, o.MIGStrategy = v1alpha1.Observing, nil, ""
	return &o
}

// Publisher keeps a node's GPUNode, labels and events equal to what it is told. The Set
// methods keep the newest and return at once; Run does the writing.
type Publisher struct {
	options Options
	logger  klog.Logger
	wake    chan struct{}

	mu sync.Mutex
	// Guarded by mu.
	state state
	// written is the telemetry that was written last, by UUID.
	written map[string]reading
	// pending are changes of health that were not yet told, oldest first.
	pending []notice
	told    *told // nil until the GPUNode was read
	devices []v1alpha1.Device

	// labels are the node's, as they were seen last.
	labels atomic.Value

	// The rest is the loop's alone.
	writer
}

// New returns a publisher for one node.
func New(o Options) *Publisher {
	o.Heartbeat = cmp.Or(o.Heartbeat, heartbeatFrom)
	o.TelemetryEvery = min(cmp.Or(o.TelemetryEvery, telemetryEvery), o.Heartbeat)
	if o.Wrote == nil {
		o.Wrote = func(string, error) {}
	}
	return &Publisher{options: o, logger: klog.Background().WithValues("node", o.Node), wake: make(chan struct{}, 1), written: map[string]reading{},
		writer: writer{taken: map[string]bool{}, wrote: map[string]string{}}}
}

// SetInventory tells what is built in, and which MIG instances (by UUID) the agent has made for pods. It also ends a
// problem with the driver. The publisher keeps the values: they must not be changed afterwards.
func (p *Publisher) SetInventory(inv *device.Inventory, owned map[string]bool) {
	p.set(true, func(s *state) {
		s.inventory, s.owned, s.problem = inv, owned, nil
		s.revision++
	})
}

// SetProblem tells that the driver cannot be used, and why. Devices that are published
// stay, as failed ones: pods may still hold them.
func (p *Publisher) SetProblem(problem Problem) {
	p.set(true, func(s *state) {
		if was := s.problem; was != nil && was.Reason == problem.Reason {
			problem.Since = was.Since // it lasts
		} else if problem.Since.IsZero() {
			problem.Since = time.Now()
		}
		s.problem = &problem
	})
}

// Observe tells that the agent only observes after all: another device plugin serves.
// The reason becomes an event on the node.
func (p *Publisher) Observe(reason string) {
	p.set(true, func(s *state) {
		if !s.observes {
			p.pending = append(p.pending, notice{v1.EventTypeWarning, "GPUAgentObserves", reason})
		}
		s.observes = true
		s.revision++
	})
}

// optionsFor are the options, in a state.
func (p *Publisher) optionsFor(s *state) *Options {
	if s.observes {
		return p.options.observed()
	}
	return &p.options
}

// NodeLabel is the value of a label of the node, as it was seen last; "" for none.
func (p *Publisher) NodeLabel(key string) string {
	labels, _ := p.labels.Load().(map[string]string)
	return labels[key]
}

// SetHealth tells the health of all devices; one that is not listed is healthy.
func (p *Publisher) SetHealth(all []Health) {
	health := make(map[string]*Health, len(all))
	for _, h := range all {
		health[h.UUID] = &h
	}
	p.set(true, func(s *state) { s.health = health })
}

// SetSamples tells what was measured last. A device that is not listed was not measured.
func (p *Publisher) SetSamples(all []device.Sample) {
	samples := make(map[string]*device.Sample, len(all))
	for _, sample := range all {
		samples[sample.UUID] = &sample
	}
	p.set(false, func(s *state) { s.samples = samples })
}

// SetOverMemory tells which pods use more of a device's memory than they were given, by
// the device's UUID, each sorted.
func (p *Publisher) SetOverMemory(over map[string][]v1alpha1.MemoryUse) {
	p.set(true, func(s *state) { s.over = over })
}

// set changes the state, and wakes the loop if that is worth it.
func (p *Publisher) set(always bool, change func(*state)) {
	p.mu.Lock()
	change(&p.state)
	if p.told != nil { // before that, the GPUNode says what was told
		p.pending = append(p.pending, p.told.changes(&p.state, p.devices)...)
		p.pending = slices.Delete(p.pending, 0, max(0, len(p.pending)-maxPending))
	}
	wake := always || p.moved()
	p.mu.Unlock()
	if wake {
		select {
		case p.wake <- struct{}{}:
		default:
		}
	}
}

// moved says whether telemetry differs noticeably from what was written. The caller holds the lock.
func (p *Publisher) moved() bool {
	if p.state.problem != nil {
		return false
	}
	return slices.ContainsFunc(p.devices, func(d v1alpha1.Device) bool {
		was, ok := p.written[d.UUID]
		if !ok {
			was = unmeasured
		}
		return readingOf(&p.state, d.UUID).movedFrom(was, d.MemoryMiB)
	})
}

// Pauses after a write that failed: each is twice as long as the one before, and anything between half and one and a
// half of that, so that agents that failed together do not come back together.
const (
	firstPause = time.Second
	longest    = 30 * time.Second
)

// Run writes until the context ends. Being unable to write is no error of it: it tries again.
func (p *Publisher) Run(ctx context.Context) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	pause := firstPause
	for {
		woken := true
		select {
		case <-ctx.Done():
			return
		case <-p.wake:
		case <-timer.C:
			woken = false
		}
		now := time.Now()
		if now.Before(p.retryAt) && woken {
			continue // the newest is written when the pause is over
		}
		next, err := p.sync(ctx, now)
		switch {
		case ctx.Err() != nil:
			return
		case err != nil:
			next = pause/2 + rand.N(pause)
			p.retryAt = now.Add(next)
			p.logger.Error(err, "Could not write the GPUNode or the node's labels; will retry", "in", next.Round(time.Millisecond))
			pause = min(2*pause, longest)
		default:
			if pause > firstPause {
				p.logger.Info("GPUNode and labels are written again")
			}
			pause, p.retryAt = firstPause, time.Time{}
		}
		timer.Reset(next)
	}
}
