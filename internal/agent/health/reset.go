package health

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"k8s.io/klog/v2"

	"github.com/tangram-dev/tangram/core/health"
	"github.com/tangram-dev/tangram/internal/agent/device"
)

const (
	resetTimeout = 2 * time.Minute
	// resetPause is the first pause between two resets of a device, doubled by each up to
	// resetPauseMost, so that a reset that does not help is not tried for ever.
	resetPause     = 10 * time.Minute
	resetPauseMost = 4 * time.Hour
)

// ResetReport is how a reset went.
type ResetReport struct {
	UUID string
	// For is what the device was reset for.
	For  health.Status
	Took time.Duration
	// Err is nil when the device answered after it and needs no reset any more.
	Err error
}

// errNotCured: the device was reset and still needs to be.
var errNotCured = errors.New("the device still needs a reset after it")

// resetState is what is remembered of a device's resets.
type resetState struct {
	running bool
	never   bool // the hardware cannot
	next    time.Time
	wait    time.Duration
	done    time.Time
	verify  *ResetReport // done, not yet verified
}

// startReset resets the first device that needs it, that no process uses and no container
// holds. One at a time: a reset that goes wrong may take neighbours with it.
func (m *Monitor) startReset(ctx context.Context) {
	if !m.o.Reset {
		return
	}
	now := m.o.Now()
	m.mu.Lock()
	var chosen *tracked
	for _, uuid := range slices.Sorted(maps.Keys(m.devices)) {
		t := m.devices[uuid]
		if t.reset.running || t.reset.verify != nil {
			m.mu.Unlock()
			return
		}
		if chosen == nil && t.wantsReset(now) {
			chosen = t
		}
	}
	var status health.Status
	var uuid string
	if chosen != nil {
		status, uuid = chosen.state.Status(), chosen.device.UUID
	}
	m.mu.Unlock()
	if chosen == nil {
		return
	}
	release, ok := m.o.Claim(uuid)
	if !ok {
		return
	}
	m.mu.Lock()
	r := &chosen.reset
	r.running = true
	r.wait = min(max(2*r.wait, resetPause), resetPauseMost)
	r.next = now.Add(r.wait)
	m.mu.Unlock()
	m.resetting.Go(func() {
		defer release()
		m.reset(ctx, chosen, uuid, status)
	})
}

// wantsReset: a reset would help, nothing runs on the device, and the last one is long
// ago. Only causes that last count: after a reset the quiet time runs.
func (t *tracked) wantsReset(now time.Time) bool {
	s := t.state.Status()
	return s.State == health.Degraded && s.Help == health.Reset && s.Until.IsZero() &&
		!t.missing && t.err == nil && len(t.sample.Processes) == 0 &&
		!t.reset.never && !now.Before(t.reset.next)
}

func (m *Monitor) reset(ctx context.Context, t *tracked, uuid string, why health.Status) {
	log := klog.FromContext(ctx)
	log.Info("Resetting device", "device", uuid, "for", why.Reason)
	begin := m.o.Now()
	ctx, cancel := context.WithTimeout(ctx, resetTimeout)
	defer cancel()
	err := m.o.Backend.Reset(ctx, uuid)
	m.called("reset", err, begin)
	now := m.o.Now()
	report := ResetReport{UUID: uuid, For: why, Took: now.Sub(begin), Err: err}

	m.mu.Lock()
	t.reset.running = false
	switch {
	case err == nil:
		t.reset.verify, t.reset.done = &report, now
		t.state.Event(now, health.Event{Kind: health.ResetEvent})
	case errors.Is(err, device.ErrNotSupported):
		t.reset.never = true
	}
	m.collect()
	m.mu.Unlock()
	m.tell()
	if err != nil {
		m.report(report)
	}
	m.Poke()
}

// verifyReset looks at a device that was sampled after its reset. A sample that was asked
// for before shows nothing.
func (t *tracked) verifyReset(asked, now time.Time) (ResetReport, bool) {
	if t.reset.verify == nil || asked.Before(t.reset.done) {
		return ResetReport{}, false
	}
	r := *t.reset.verify
	t.reset.verify = nil
	switch s := t.state.Status(); {
	case t.err != nil:
		r.Err = fmt.Errorf("the device does not answer after the reset: %w", t.err)
	case s.State == health.Failed, s.Help == health.Reset && s.Until.IsZero():
		r.Err = fmt.Errorf("%w: %s", errNotCured, s.Reason)
	default:
		t.reset.wait, t.reset.next = 0, now.Add(resetPause)
	}
	return r, true
}

func (m *Monitor) report(r ResetReport) {
	if r.Err != nil {
		klog.Background().Error(r.Err, "Reset failed", "device", r.UUID)
	}
	if m.o.OnReset != nil {
		m.o.OnReset(r)
	}
}
