package health

import (
	"context"
	"errors"
	"fmt"
	"time"

	"k8s.io/klog/v2"

	"github.com/tangram-dev/tangram/internal/agent/device"
)

// Run receives events and samples until the context ends; then it waits for resets that
// run.
func (m *Monitor) Run(ctx context.Context) {
	watching := make(chan struct{})
	go func() {
		defer close(watching)
		m.watch(ctx)
	}()
	timer := time.NewTimer(0)
	defer timer.Stop()
	for ctx.Err() == nil {
		select {
		case <-ctx.Done():
		case <-timer.C:
			m.Observe(ctx)
			timer.Reset(m.o.SampleEvery)
		case <-m.poked:
			m.Observe(ctx)
			// Errors in a loop must not make samples in a loop.
			if !pause(ctx, min(time.Second, m.o.SampleEvery)) {
				break
			}
			timer.Reset(m.o.SampleEvery)
		}
	}
	<-watching
	m.resetting.Wait()
}

// Poke asks for a sample soon.
func (m *Monitor) Poke() {
	select {
	case m.poked <- struct{}{}:
	default:
	}
}

// Observe samples all devices once, steps their states, and begins a reset where one is
// needed and allowed. Run calls it; a test may too.
func (m *Monitor) Observe(ctx context.Context) {
	asked := m.o.Now()
	samples, err := m.sample(ctx)
	if ctx.Err() != nil {
		return
	}
	if m.samples(samples, err, asked) {
		if log := klog.FromContext(ctx); err != nil {
			log.Error(err, "Could not sample devices; will retry")
		} else {
			log.Info("Devices are being sampled", "devices", len(samples))
		}
	}
	if err == nil {
		m.startReset(ctx)
	}
}

// sample asks the back end, and does not wait for one that breaks its promise to return:
// it counts as silent, and is not asked again until it does return.
func (m *Monitor) sample(ctx context.Context) ([]device.Sample, error) {
	if !m.sampling.CompareAndSwap(false, true) {
		return nil, fmt.Errorf("sample: the call before has not returned: %w", device.ErrTimeout)
	}
	ctx, cancel := context.WithTimeout(ctx, m.o.CallTimeout)
	type answer struct {
		samples []device.Sample
		err     error
	}
	answered := make(chan answer, 1)
	begin := m.o.Now()
	go func() {
		defer cancel()
		s, err := m.o.Backend.Sample(ctx)
		m.sampling.Store(false)
		answered <- answer{s, err}
	}()
	var a answer
	select {
	case a = <-answered:
	case <-ctx.Done():
		grace := time.NewTimer(time.Second)
		defer grace.Stop()
		select {
		case a = <-answered:
		case <-grace.C:
			a.err = fmt.Errorf("sample: %w", device.ErrTimeout)
		}
	}
	if errors.Is(a.err, context.DeadlineExceeded) {
		a.err = fmt.Errorf("sample: %w", device.ErrTimeout)
	}
	m.called("sample", a.err, begin)
	return a.samples, a.err
}

func (m *Monitor) called(call string, err error, begin time.Time) {
	if m.o.OnCall != nil {
		m.o.OnCall(call, err, m.o.Now().Sub(begin))
	}
}

// pause waits; false when the context ended.
func pause(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-t.C:
		return true
	}
}
