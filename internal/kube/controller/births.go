package controller

import (
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	batch "volcano.sh/apis/pkg/apis/batch/v1alpha1"

	"github.com/tangram-dev/tangram/internal/kube/controller/lifecycle"
)

// birthPatience is how long a pod that was created may stay unseen by the informer.
const birthPatience = 5 * time.Second

// births are pods that were created and not seen yet. It only saves requests: while
// an informer is behind, every look at a job would ask to create the same pods.
type births struct {
	mu sync.Mutex
	of map[string]map[birth]time.Time // by the job's key
}

// birth is a pod at the version it was made for: a restart makes another.
type birth struct {
	job     types.UID
	slot    lifecycle.Slot
	version int32
}

func birthOf(job *batch.Job, slot lifecycle.Slot) birth {
	return birth{job.UID, slot, job.Status.Version}
}

func newBirths() *births { return &births{of: map[string]map[birth]time.Time{}} }

// made notes that a slot was filled.
func (b *births) made(job *batch.Job, slot lifecycle.Slot, now time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	key := keyOf(job)
	if b.of[key] == nil {
		b.of[key] = map[birth]time.Time{}
	}
	b.of[key][birthOf(job, slot)] = now
}

// left are the slots that are still to be filled, of those without a pod that is
// seen, and how long to wait for the others.
func (b *births) left(job *batch.Job, slots []lifecycle.Slot, now time.Time) (out []lifecycle.Slot, wait time.Duration) {
	b.mu.Lock()
	defer b.mu.Unlock()
	key := keyOf(job)
	before := b.of[key]
	delete(b.of, key) // whoever is not asked for any more was seen
	if len(before) == 0 {
		return slots, 0
	}
	unseen := map[birth]time.Time{}
	for _, s := range slots {
		one := birthOf(job, s)
		at, ok := before[one]
		rest := birthPatience - now.Sub(at)
		if !ok || rest <= 0 {
			out = append(out, s)
			continue
		}
		unseen[one] = at
		wait = max(wait, rest)
	}
	if len(unseen) > 0 {
		b.of[key] = unseen
	}
	return out, wait
}

// forget drops what is known of a job that is gone.
func (b *births) forget(key string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.of, key)
}
