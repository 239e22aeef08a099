package health

import (
	"cmp"
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

const (
	// watchSettles is how long a Watch must run without error to count as watching: the
	// interface has no sign that events are subscribed to.
	watchSettles = 5 * time.Second
	// watchPause is the first pause after a Watch that failed, watchPauseMost the
	// longest; each failure doubles it, a Watch that ran for that long begins anew.
	watchPause     = time.Second
	watchPauseMost = time.Minute
	// watchRetry is how often a back end without events is asked again.
	watchRetry = 10 * time.Minute
)

// watch receives events until the context ends.
func (m *Monitor) watch(ctx context.Context) {
	log := klog.FromContext(ctx)
	wait, said := watchPause, false
	for ctx.Err() == nil {
		begin := m.o.Now()
		err := m.watchOnce(ctx)
		if ctx.Err() != nil {
			return
		}
		m.called("watch", err, begin)
		if errors.Is(err, device.ErrNotSupported) {
			// Nothing is missed that could be had: health comes from samples alone.
			if !said {
				log.Info("The back end has no events; driver errors show in samples only")
				said = true
			}
			m.watching(true)
			pause(ctx, watchRetry)
			continue
		}
		m.watching(false)
		if m.o.Now().Sub(begin) >= watchPauseMost {
			wait = watchPause
		}
		log.Error(err, "Could not receive events of devices; will retry", "after", wait)
		pause(ctx, wait)
		wait = min(2*wait, watchPauseMost)
	}
}

var errWatchEnded = errors.New("watching ended without error")

// watchOnce is one call of Watch; it never returns nil.
func (m *Monitor) watchOnce(ctx context.Context) error {
	run := m.watchRun.Add(1)
	settled := time.AfterFunc(watchSettles, func() {
		if m.watchRun.Load() == run {
			m.watching(true)
		}
	})
	err := m.o.Backend.Watch(ctx, m.event)
	settled.Stop()
	m.watchRun.Add(1) // a timer that fires now comes too late
	return cmp.Or(err, errWatchEnded)
}

// watching notes whether events are received, and tells what changes by it.
func (m *Monitor) watching(yes bool) {
	now := m.o.Now()
	m.mu.Lock()
	m.setWatched(yes, now)
	m.collect()
	m.mu.Unlock()
	m.tell()
}
