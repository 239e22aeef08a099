package query

import (
	"fmt"
	"net/http"
	"sync"
	"time"
)

// timing is what a question's time was spent on. It is told in the answer's Server-Timing
// header, in milliseconds, so that who waits can see for what: for the API server's word on
// what they may see (access), for other questions (turn), for the engine's lock (lock). Access
// asked for by several goroutines at once counts for each.
type timing struct {
	began time.Time

	mu                       sync.Mutex
	access, turn, lock, held time.Duration
}

func (t *timing) add(part *time.Duration, took time.Duration) {
	t.mu.Lock()
	defer t.mu.Unlock()
	*part += took
}

// tell writes the header.
func (t *timing) tell(h http.Header) {
	t.mu.Lock()
	defer t.mu.Unlock()
	ms := func(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }
	h.Set("Server-Timing", fmt.Sprintf("access;dur=%.1f, turn;dur=%.1f, lock;dur=%.1f, held;dur=%.1f, total;dur=%.1f",
		ms(t.access), ms(t.turn), ms(t.lock), ms(t.held), ms(time.Since(t.began))))
}
