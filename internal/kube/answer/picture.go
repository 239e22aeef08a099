package answer

import (
	"fmt"
	"runtime/debug"
	"sync"
	"time"
)

// picture is something that costs a walk over all gangs or queues, as it was last drawn. It
// is drawn once for all who ask, and one that is a little old is shown while it is drawn
// anew: then questions do not wait for the engine's lock.
type picture[T any] struct {
	mu      sync.Mutex // held for long only while there is nothing to show
	drawing bool
	at      time.Time // zero: not drawn yet
	last    T         // shared: it is not changed
}

// ages of a picture: when it is drawn anew, and from when on it is too old to be shown.
type ages struct{ renew, most time.Duration }

// show returns the picture. lacks says that what was asked for is not in it: then it is not
// shown if it is to be drawn anew; nil: it has all.
func (p *picture[T]) show(a *Answers, g ages, draw func() T, lacks func(T) bool) T {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := a.Clock()
	age := now.Sub(p.at)
	switch old := p.at.IsZero() || age < 0 || age >= g.most; {
	case !old && age < g.renew:
	case old || lacks != nil && lacks(p.last):
		p.last, p.at = draw(), now
	case !p.drawing:
		p.drawing = true
		go p.redraw(a, now, draw)
	}
	return p.last
}

// redraw draws while questions are answered with what there is.
func (p *picture[T]) redraw(a *Answers, now time.Time, draw func() T) {
	var drawn T
	done := false
	defer func() {
		if x := recover(); x != nil { // a question must not end the scheduler
			a.Logger.Error(nil, "Answer to a question not drawn: panic", "panic", fmt.Sprint(x), "stack", string(debug.Stack()))
		}
		p.mu.Lock()
		defer p.mu.Unlock()
		p.drawing = false
		if done && now.After(p.at) {
			p.last, p.at = drawn, now
		}
	}()
	drawn = draw()
	done = true
}
