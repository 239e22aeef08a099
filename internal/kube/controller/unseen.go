package controller

import (
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	batch "volcano.sh/apis/pkg/apis/batch/v1alpha1"

	"github.com/tangram-dev/tangram/internal/kube/controller/lifecycle"
)

const unseenPatience = 5 * time.Second // how long a created pod may be missing from the informer's cache

// unseenPods are pods that were created and are not yet in the informer's cache. It
// only saves requests: while an informer is behind, every reconcile would create the
// same pods again.
type unseenPods struct {
	mu sync.Mutex
	of map[string]map[createdPod]time.Time // by the job's key
}

// createdPod is a pod at the version it was made for: a restart makes another.
type createdPod struct {
	job     types.UID
	slot    lifecycle.Slot
	version int32
}

func createdPodOf(job *batch.Job, slot lifecycle.Slot) createdPod {
	return createdPod{job.UID, slot, job.Status.Version}
}

func newUnseenPods() *unseenPods { return &unseenPods{of: map[string]map[createdPod]time.Time{}} }

func (b *unseenPods) made(job *batch.Job, slot lifecycle.Slot, now time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	key := keyOf(job)
	if b.of[key] == nil {
		b.of[key] = map[createdPod]time.Time{}
	}
	b.of[key][createdPodOf(job, slot)] = now
}

// left are the slots, of those without a pod in the cache, that are still to be filled,
// and how long to wait for the others.
func (b *unseenPods) left(job *batch.Job, slots []lifecycle.Slot, now time.Time) (out []lifecycle.Slot, wait time.Duration) {
	b.mu.Lock()
	defer b.mu.Unlock()
	key := keyOf(job)
	before := b.of[key]
	delete(b.of, key) // a pod that is not asked for any more was seen
	if len(before) == 0 {
		return slots, 0
	}
	unseen := map[createdPod]time.Time{}
	for _, s := range slots {
		one := createdPodOf(job, s)
		at, ok := before[one]
		rest := unseenPatience - now.Sub(at)
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

func (b *unseenPods) forget(key string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.of, key)
}
