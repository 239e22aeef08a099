package health

import (
	"errors"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/tangram-dev/tangram/core/health"
	"github.com/tangram-dev/tangram/internal/agent/device"
)

// event feeds one event of the back end.
func (m *Monitor) event(e device.Event) {
	var tenants []string
	if m.o.Tenants != nil && e.Kind == device.XID && e.UUID != "" {
		tenants = m.o.Tenants(e.UUID, e.GPUInstance)
	}
	now := m.o.Now()
	m.mu.Lock()
	m.setWatched(true, now)
	for uuid, t := range m.devices {
		if e.UUID == uuid || e.UUID == "" || t.owns(e.UUID) {
			m.feed(t, now, e, tenants)
		}
	}
	m.collect()
	m.mu.Unlock()
	m.tell()
	// The driver's verdict on it is in the next sample.
	m.Poke()
}

// owns: the UUID is of an instance of the device.
func (t *tracked) owns(uuid string) bool {
	return slices.ContainsFunc(slices.Collect(maps.Values(t.instances)), func(i *instance) bool { return i.uuid == uuid })
}

// feed gives an event to the state machine of the device, or of the instance if it
// concerns that alone.
func (m *Monitor) feed(t *tracked, now time.Time, e device.Event, tenants []string) {
	switch e.Kind {
	case device.XID:
		code := min(max(e.Code, 0), health.MaxXID)
		t.lastXID = code
		if t.xids[code] == nil {
			t.xids[code] = &xidCount{}
		}
		t.xids[code].add(now)
		state := t.state
		class := m.rules.Table.Class(code)
		if i := t.instances[e.GPUInstance]; i != nil && (class == health.Application || class == health.RestartApp) {
			state = i.state
		}
		state.Event(now, health.Event{Kind: health.XIDEvent, XID: code, Tenants: tenants})
	case device.ECC:
		t.state.Event(now, health.Event{Kind: health.MemoryEvent})
	case device.Unavailable:
		t.state.Event(now, health.Event{Kind: health.LostEvent})
	}
	// An event without a verdict does not say that the verdict is none: sampling does.
	if e.Recovery != device.RecoveryNone {
		t.state.Event(now, health.Event{Kind: health.VerdictEvent, Verdict: verdict(e.Recovery)})
	}
}

// samples feeds the answer to a question for samples that was put at the time asked. It
// says whether the driver began to answer, or ceased to.
func (m *Monitor) samples(samples []device.Sample, err error, asked time.Time) (turned bool) {
	byUUID := make(map[string]*device.Sample, len(samples))
	for i := range samples {
		byUUID[samples[i].UUID] = &samples[i]
	}
	now := m.o.Now()
	var reports []ResetReport
	m.mu.Lock()
	turned = !m.asked || m.answers != (err == nil)
	m.asked, m.answers = true, err == nil
	for uuid, t := range m.devices {
		s := byUUID[uuid]
		switch {
		case err != nil:
			t.err = err
		case s == nil:
			t.err = device.ErrNotFound
		default:
			t.err = s.Err
		}
		for _, i := range t.instances {
			i.state.Tick(now)
		}
		switch {
		case t.reset.running && t.err != nil: // a device that is being reset need not answer
			t.state.Tick(now)
		case errors.Is(t.err, device.ErrNotFound) && err == nil:
			t.state.Sample(now, health.Sample{Lost: true})
		case t.err != nil:
			t.state.Sample(now, health.Sample{Silent: true})
		default:
			t.keep(*s)
			t.state.Sample(now, measured(s, &t.device))
		}
		if r, ok := t.verifyReset(asked, now); ok {
			reports = append(reports, r)
		}
	}
	m.collect()
	m.mu.Unlock()
	m.tell()
	for _, r := range reports {
		m.report(r)
	}
	return turned
}

// keep remembers a sample. The values are copied: the back end may use its own again,
// and the last XID is added.
func (t *tracked) keep(s device.Sample) {
	values := make(map[device.Field]float64, len(s.Values)+1)
	maps.Copy(values, s.Values)
	values[device.LastXID] = float64(t.lastXID)
	s.Values = values
	t.sample = s
}

// measured is a sample in core's words.
func measured(s *device.Sample, d *device.Device) health.Sample {
	out := health.Blank()
	out.Verdict = verdict(s.Recovery)
	out.Temperature = int(number(s, device.Temperature))
	out.HardwareThrottle = 0
	if slices.ContainsFunc(s.Throttle, func(reason string) bool { return strings.HasPrefix(reason, "hw-") }) {
		out.HardwareThrottle = 1
	}
	out.RemapPending = int(number(s, device.RemapPending))
	out.RemapFailed = int(number(s, device.RemapFailed))
	out.RetiredPending = int(number(s, device.RetiredPagesPending))
	out.Uncorrected = number(s, device.ECCUncorrected)
	out.Energy = number(s, device.Energy)
	if d.MIG == nil || !d.MIG.Enabled { // with MIG, NVLinks are off
		out.Links = int(number(s, device.NVLinksActive))
	}
	out.Lanes = int(number(s, device.PCIeLanes))
	if d.PCIeWidth > 0 {
		out.MaxLanes = d.PCIeWidth
	}
	return out
}

// number is a measured value, Unknown when there is none that can be true.
func number(s *device.Sample, f device.Field) int64 {
	v, ok := s.Values[f]
	if !ok || math.IsNaN(v) || v < 0 || v > 1<<53 {
		return health.Unknown
	}
	return int64(v)
}

func verdict(r device.Recovery) health.Verdict {
	switch r {
	case device.RecoveryNone:
		return health.VerdictNone
	case device.RecoveryUnknown:
		return health.VerdictUnknown
	default:
		return health.Verdict(r)
	}
}

// setWatched tells all devices whether events are received. Call it with the lock held.
func (m *Monitor) setWatched(watched bool, now time.Time) {
	if m.watched == watched {
		return
	}
	m.watched = watched
	kind := health.UnwatchedEvent
	if watched {
		kind = health.WatchedEvent
	}
	for _, t := range m.devices {
		t.state.Event(now, health.Event{Kind: kind})
	}
}
