package answer

import (
	"context"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"

	apiquery "github.com/tangram-dev/tangram/api/query"
	"github.com/tangram-dev/tangram/core/arbiter"
)

// How much history is kept: an hour. Of more queues than maxHistory the first are kept, by
// the order of the tree.
const (
	historyEvery = 10 * time.Second
	historySize  = 360
	maxHistory   = 1000
)

// history is samples of the queues, the oldest first.
type history struct {
	mu      sync.Mutex
	samples []sample
}

// sample is the queues at one time.
type sample struct {
	at     time.Time
	queues map[string]point
}

// point is GPUs in thousandths.
type point struct{ entitled, used, wanted int64 }

// KeepHistory takes samples while this process leads, until the context ends.
func (a *Answers) KeepHistory(ctx context.Context) {
	wait.UntilWithContext(ctx, func(context.Context) {
		if a.Gate.Leads() {
			a.sampleQueues(a.Clock())
		}
	}, historyEvery)
}

// sampleQueues takes one sample.
func (a *Answers) sampleQueues(now time.Time) {
	var accounts []arbiter.Account
	a.look(func(v *View) { accounts = v.Core.Queues.Accounts() })
	s := sample{at: now, queues: make(map[string]point, min(len(accounts), maxHistory))}
	for i := range accounts[:min(len(accounts), maxHistory)] {
		q := queueAnswer(&accounts[i])
		s.queues[q.Name] = point{q.GPUs.Entitled, q.GPUs.Used, q.GPUs.Wanted}
	}
	h := &a.history
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.samples = append(h.samples, s); len(h.samples) > historySize {
		h.samples = append(h.samples[:0], h.samples[len(h.samples)-historySize:]...)
	}
}

// History is the samples of queues that a predicate names, in the order of Queues.
func (a *Answers) History(shows func(queue string) bool) apiquery.History {
	queues, _ := a.Queues()
	h := &a.history
	h.mu.Lock()
	defer h.mu.Unlock()
	out := apiquery.History{EverySeconds: int64(historyEvery / time.Second), Queues: []apiquery.QueueSeries{}}
	for i := range queues.Items {
		name := queues.Items[i].Name
		if !shows(name) {
			continue
		}
		s := apiquery.QueueSeries{Queue: name, At: []time.Time{}, Entitled: []int64{}, Used: []int64{}, Wanted: []int64{}}
		for _, at := range h.samples {
			if p, there := at.queues[name]; there {
				s.At, s.Entitled, s.Used, s.Wanted = append(s.At, at.at), append(s.Entitled, p.entitled), append(s.Used, p.used), append(s.Wanted, p.wanted)
			}
		}
		out.Queues = append(out.Queues, s)
	}
	return out
}
