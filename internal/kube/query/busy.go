package query

import (
	"context"
	"strings"
	"sync"
	"time"
)

// Limits of what is answered at once.
type Limits struct {
	// Running is how many answers are computed at the same time, RunningEach for one
	// caller. RunningEach is below Running, so that no caller keeps out all others.
	Running, RunningEach int
	// Open is how many requests may be there in all, waiting, computed or being written;
	// OpenEach of one caller. More get 429.
	Open, OpenEach int
	Wait, Timeout  time.Duration // how long a request waits for its turn, and an answer may take
}

// DefaultLimits are the scheduler's: a page that asks six things at once is served, and
// questions take a small part of the processor.
func DefaultLimits() Limits {
	return Limits{Running: 6, RunningEach: 2, Open: 256, OpenEach: 24, Wait: 5 * time.Second, Timeout: 30 * time.Second}
}

// doorman counts requests. Service accounts of one namespace count as one caller: who owns
// a namespace can make as many of them as they like.
type doorman struct {
	limits Limits

	mu      sync.Mutex
	open    int
	callers map[string]*counts
	running int
	turn    chan struct{} // closed and replaced when something ends
}

// counts are one caller's requests.
type counts struct{ open, running int }

func newDoorman(l Limits) *doorman {
	return &doorman{limits: l, callers: map[string]*counts{}, turn: make(chan struct{})}
}

// account is whom a user's requests are counted for.
func account(user string) string {
	if rest, ok := strings.CutPrefix(user, "system:serviceaccount:"); ok {
		namespace, _, _ := strings.Cut(rest, ":")
		return "system:serviceaccount:" + namespace
	}
	return user
}

// enter lets a request in; leave must be called when it is answered. False: too many are
// there.
func (d *doorman) enter(user string) (leave func(), ok bool) {
	who := account(user)
	d.mu.Lock()
	defer d.mu.Unlock()
	c := d.callers[who]
	if d.open >= d.limits.Open || c != nil && c.open >= d.limits.OpenEach {
		return nil, false
	}
	if c == nil {
		c = &counts{}
		d.callers[who] = c
	}
	c.open++
	d.open++
	return func() {
		d.mu.Lock()
		defer d.mu.Unlock()
		d.open--
		if c.open--; c.open == 0 {
			delete(d.callers, who)
		}
	}, true
}

// begin waits for the turn of a request that was let in; end must be called when its answer
// is computed. False: it did not come in time.
func (d *doorman) begin(ctx context.Context, user string) (end func(), ok bool) {
	ctx, cancel := context.WithTimeout(ctx, d.limits.Wait)
	defer cancel()
	who := account(user)
	for {
		d.mu.Lock()
		c := d.callers[who]
		if d.running < d.limits.Running && c.running < d.limits.RunningEach {
			d.running++
			c.running++
			d.mu.Unlock()
			return func() {
				d.mu.Lock()
				defer d.mu.Unlock()
				d.running--
				c.running--
				close(d.turn)
				d.turn = make(chan struct{})
			}, true
		}
		turn := d.turn
		d.mu.Unlock()
		select {
		case <-ctx.Done():
			return nil, false
		case <-turn:
		}
	}
}
