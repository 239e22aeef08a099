package query

import (
	"context"
	"net"
	"net/http"
	"sync"
	"time"
)

// Bounds besides the doorman's: before it is known who asks, after the answer is made, and of
// the engine's lock.

// How many tokens are checked at once, of all and of one address, and how long a request
// waits for that: checking a token that was not seen for a while asks the API server.
const (
	knocksMost   = 64
	knocksEach   = 16
	knockPatient = 200 * time.Millisecond
)

// porch bounds what those do of whom it is not yet known who they are.
type porch struct {
	free chan struct{}

	mu   sync.Mutex
	from map[string]int
}

func newPorch() *porch { return &porch{free: make(chan struct{}, knocksMost), from: map[string]int{}} }

// knock lets a request's token be checked; leave must be called afterwards. False: too many
// are being checked. Who brings no token asks nothing of the API server, and is let through:
// who has a certificate is answered whatever others do with tokens.
func (p *porch) knock(r *http.Request) (leave func(), ok bool) {
	if r.Header.Get("Authorization") == "" {
		return func() {}, true
	}
	host, _, err := net.SplitHostPort(r.RemoteAddr)
	if err != nil {
		host = r.RemoteAddr
	}
	p.mu.Lock()
	if p.from[host] >= knocksEach {
		p.mu.Unlock()
		return nil, false
	}
	p.from[host]++
	p.mu.Unlock()
	gone := func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		if p.from[host]--; p.from[host] == 0 {
			delete(p.from, host)
		}
	}
	patience := time.NewTimer(knockPatient)
	defer patience.Stop()
	select {
	case p.free <- struct{}{}:
		return func() {
			<-p.free
			gone()
		}, true
	case <-r.Context().Done():
	case <-patience.C:
	}
	gone()
	return nil, false
}

// How many bytes of answers may wait to be read, of all callers, and of one beside its first
// answer.
const (
	heldMost = 128 << 20
	heldEach = 16 << 20
)

// shelf bounds the answers that are kept for callers who read slowly.
type shelf struct {
	mu   sync.Mutex
	held int64
	by   map[string]*kept
}

// kept is what one caller has not read yet: how many answers, and bytes beside the first.
type kept struct {
	answers int
	bytes   int64
}

func newShelf() *shelf { return &shelf{by: map[string]*kept{}} }

// full says that nothing more can be put there for a user.
func (s *shelf) full(user string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	k := s.by[account(user)]
	return s.held >= heldMost || k != nil && k.bytes >= heldEach
}

// put keeps an answer until take is called. False: the caller has too much there, or all
// have.
func (s *shelf) put(user string, size int) (take func(), ok bool) {
	who, n := account(user), int64(size)
	s.mu.Lock()
	defer s.mu.Unlock()
	k := s.by[who]
	if k != nil && k.bytes+n > heldEach || s.held > 0 && s.held+n > heldMost {
		return nil, false
	}
	counted := n
	if k == nil {
		k, counted = &kept{}, 0 // the first answer may have any size
		s.by[who] = k
	}
	k.answers++
	k.bytes += counted
	s.held += n
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.held -= n
		k.bytes -= counted
		if k.answers--; k.answers == 0 {
			delete(s.by, who)
		}
	}, true
}

// What a caller may use of the engine's lock: one part in lockShare of the time, after so
// much at once as comes together in lockBurst. Who is beyond it waits, or is refused when
// that would take longer than lockPatient.
const (
	lockShare   = 10
	lockBurst   = 5 * time.Second
	lockPatient = time.Second
)

// toll counts for how long questions of a caller held the engine's lock.
type toll struct {
	mu   sync.Mutex
	paid map[string]time.Time // when what a caller used is made up for
}

func newToll() *toll { return &toll{paid: map[string]time.Time{}} }

// charge notes that a user's question held the lock.
func (t *toll) charge(user string, held time.Duration) {
	if held <= 0 {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	now := time.Now()
	if len(t.paid) > 1000 { // forget who has made up for it
		for who, at := range t.paid {
			if at.Before(now) {
				delete(t.paid, who)
			}
		}
	}
	who := account(user)
	at := t.paid[who]
	if at.Before(now) {
		at = now
	}
	t.paid[who] = at.Add(lockShare * held)
}

// wait lets a user ask what holds the lock: when it is their turn, or not at all.
func (t *toll) wait(ctx context.Context, user string) bool {
	t.mu.Lock()
	rest := time.Until(t.paid[account(user)].Add(-lockBurst)) // who used nothing: long ago
	t.mu.Unlock()
	switch {
	case rest <= 0:
		return true
	case rest > lockPatient:
		return false
	}
	timer := time.NewTimer(rest)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}
