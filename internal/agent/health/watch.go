package health

import (
	"cmp"
	"context"
	"errors"
	"time"

	"k8s.io/klog/v2"

	"github.com/tangram-dev/tangram/internal/agent/device"
)

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
