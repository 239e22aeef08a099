package simulated

import (
	"context"
	"sync"

	"github.com/tangram-dev/tangram/internal/agent/device"
)

// maxWaiting bounds the events that wait for a watch.
const maxWaiting = 1024

// mailbox hands events to watches, without ever making the sender wait. Events that come
// while there is no watch wait for the next one: a fault that is injected while
// an agent starts is not lost.
type mailbox struct {
	mu      sync.Mutex
	readers []*reader
	waiting []device.Event
}

// reader is one watch.
type reader struct {
	mu     sync.Mutex
	events []device.Event
	ready  chan struct{} // holds one token while there are events
}

func (r *reader) put(events ...device.Event) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.events = append(r.events, events...)
	select {
	case r.ready <- struct{}{}:
	default:
	}
}

func (r *reader) take() []device.Event {
	r.mu.Lock()
	defer r.mu.Unlock()
	events := r.events
	r.events = nil
	return events
}

func (m *mailbox) put(e device.Event) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(m.readers) == 0 {
		if len(m.waiting) < maxWaiting {
			m.waiting = append(m.waiting, e)
		}
		return
	}
	for _, r := range m.readers {
		r.put(e)
	}
}

// open adds a reader, which gets what has waited.
func (m *mailbox) open() *reader {
	r := &reader{ready: make(chan struct{}, 1)}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.readers = append(m.readers, r)
	if len(m.waiting) > 0 {
		r.put(m.waiting...)
		m.waiting = nil
	}
	return r
}

func (m *mailbox) close(closed *reader) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for i, r := range m.readers {
		if r == closed {
			m.readers = append(m.readers[:i:i], m.readers[i+1:]...)
			return
		}
	}
}

// Watch implements device.Backend. It ends with ErrNoDriver while the driver is missing.
func (b *backend) Watch(ctx context.Context, report func(device.Event)) error {
	if err := b.usable(); err != nil {
		return err
	}
	if missing, _ := b.node.driver(); missing {
		return device.ErrNoDriver // before events are taken that another would get
	}
	r := b.node.events.open()
	defer b.node.events.close(r)
	for {
		missing, changed := b.node.driver()
		if missing {
			return device.ErrNoDriver
		}
		select {
		case <-ctx.Done():
			return nil
		case <-changed:
		case <-r.ready:
			for _, e := range r.take() {
				report(e)
			}
		}
	}
}

// driver says whether the driver is missing, and returns what is closed when that may
// have changed.
func (n *node) driver() (missing bool, changed <-chan struct{}) {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.noDriver, n.changed
}
