package controller

import (
	"sync"
	"time"

	"github.com/tangram-dev/tangram/internal/kube/controller/lifecycle"
)

const failedCreate = "FailedCreate"

// troubleKept is how long a message stays although the next failure has another: a
// changed status enqueues the job at once.
const troubleKept = 10 * time.Second

// trouble holds why objects of jobs could not be created, by the jobs' keys, for their
// status; losing it costs one more failed attempt.
type trouble struct {
	mu   sync.Mutex
	last map[string]setback
}

type setback struct {
	message string
	at      time.Time
}

func newTrouble() *trouble { return &trouble{last: map[string]setback{}} }

func (t *trouble) note(key string, err error, now time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if s, ok := t.last[key]; !ok || now.Sub(s.at) >= troubleKept {
		t.last[key] = setback{err.Error(), now}
	}
}

func (t *trouble) forget(key string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.last, key)
}

func (t *trouble) of(key string) *lifecycle.Problem {
	t.mu.Lock()
	defer t.mu.Unlock()
	if s, ok := t.last[key]; ok {
		return &lifecycle.Problem{Reason: failedCreate, Message: s.message}
	}
	return nil
}
