package state

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tangram-dev/tangram/api/names"
	"github.com/tangram-dev/tangram/core/state"
	"github.com/tangram-dev/tangram/lab/local"
	"github.com/tangram-dev/tangram/test/await"
	"github.com/tangram-dev/tangram/test/cluster"
)

// shares is a run of two queues of equal weight on 16 GPUs. For the first seconds pods of
// queue a hold all of them while pods of b wait; then both have pods of one GPU that run
// for some seconds. b is owed what it missed, and gets it back one pod at a time.
type shares struct {
	*world
	mu   sync.Mutex
	made int
	held map[string]held
	used map[string]float64 // GPU-seconds
	over bool
}

type held struct {
	queue string
	since time.Time
}

const (
	gpus    = 16
	alone   = 8 * time.Second // how long a has everything
	podRuns = 2 * time.Second // one to two of it
	// grain is how far a balance is paid back, in GPU-seconds: ten seconds of one pod.
	grain = 10
)

// see plays owners and kubelets, as the API server tells of pods.
func (s *shares) see(p *v1.Pod, gone bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	queue := p.Labels[names.LabelQueue]
	h, holds := s.held[p.Name]
	switch {
	case gone && holds:
		delete(s.held, p.Name)
		s.used[h.queue] += time.Since(h.since).Seconds()
	case !gone && !holds && p.Spec.NodeName != "":
		s.held[p.Name] = held{queue, time.Now()}
		runs := podRuns + rand.N(podRuns)
		if p.Annotations["runs"] == "long" {
			runs = alone
		}
		time.AfterFunc(runs, func() { s.end(p.Name, queue) })
	}
}

// end deletes a pod, and another one takes its place in the queue.
func (s *shares) end(name, queue string) {
	s.mu.Lock()
	over := s.over
	s.mu.Unlock()
	if over {
		return
	}
	now := int64(0)
	_ = s.Client.CoreV1().Pods("default").Delete(context.Background(), name, metav1.DeleteOptions{GracePeriodSeconds: &now}) // the end of the test may be before it
	s.another(queue, "")
}

func (s *shares) another(queue, runs string) {
	s.mu.Lock()
	s.made++
	p := pod(fmt.Sprintf("%s-%d", queue, s.made), queue, 1)
	s.mu.Unlock()
	p.Annotations = map[string]string{"runs": runs, names.AnnotationPreemptible: "false"}
	_, err := s.Client.CoreV1().Pods("default").Create(context.Background(), p, metav1.CreateOptions{})
	s.mu.Lock()
	defer s.mu.Unlock()
	if err != nil && !s.over {
		s.T.Error(err)
	}
}

// missed is how many GPU-seconds less queue b has used than queue a, and how many both used.
func (s *shares) missed() (less, total float64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	used := maps.Clone(s.used)
	for _, h := range s.held {
		used[h.queue] += time.Since(h.since).Seconds()
	}
	return used["a"] - used["b"], used["a"] + used["b"]
}

// owing starts a run and returns it when b is being paid back what it missed, and the
// scheduler has saved that it is owed more.
func owing(t *testing.T) (s *shares, scheduler *local.Serving) {
	s = &shares{world: newWorld(t, `[{name: n, count: 2, gpu: {model: A100-80GB, count: 8}}]`), held: map[string]held{}, used: map[string]float64{}}
	for _, q := range []string{"a", "b"} {
		s.AddQueue(q, "{weight: 1}")
	}
	ctx, cancel := context.WithCancel(context.Background())
	t.Cleanup(func() {
		cancel()
		s.mu.Lock()
		defer s.mu.Unlock()
		s.over = true
	})
	_, err := s.Follow(ctx, func(before, after *v1.Pod) { s.see(cmp.Or(after, before), after == nil) })
	s.Must(err)
	scheduler = s.Scheduler(saving)
	for range gpus {
		s.another("a", "long")
	}
	holds := func(queue string, n int) {
		s.Eventually(fmt.Sprintf("queue %s has %d GPUs", queue, n), func() (bool, string) {
			s.mu.Lock()
			defer s.mu.Unlock()
			has := map[string]int{}
			for _, h := range s.held {
				has[h.queue]++
			}
			return has[queue] >= n, fmt.Sprint(has)
		})
	}
	holds("a", gpus)
	for range gpus + 4 {
		s.another("a", "")
		s.another("b", "")
	}
	holds("b", gpus/2)
	s.saved("what b is owed", func(x *state.State) bool {
		for _, q := range x.Learned.Queues.Queues {
			if q.Queue == "b" && q.Owed["gpu/nvidia"] > 0 {
				return true
			}
		}
		return false
	})
	return s, scheduler
}

// saving is the configuration of a scheduler that saves its state every second.
var saving = cluster.QueueArguments("state: {every: 1s}")

// paid waits until b has been paid back.
func (s *shares) paid() {
	s.T.Helper()
	await.Eventually(s.T, "b has used as much as a", 2*cluster.Limit, func() (bool, string) {
		less, total := s.missed()
		return less <= grain+0.02*total/2, fmt.Sprintf("%.0f of %.0f GPU-seconds less", less, total)
	})
	less, total := s.missed()
	s.T.Logf("after %.0f GPU-seconds b has used %.0f less than a", total, less)
}

// TestRestartKeepsShares: a scheduler is killed while a queue is paid back what it missed,
// and started anew. The queue gets all of it, as it does without the restart; without the
// state it does not.
func TestRestartKeepsShares(t *testing.T) {
	t.Parallel()
	t.Run("without a restart", func(t *testing.T) {
		t.Parallel()
		s, _ := owing(t)
		s.paid()
	})
	t.Run("with a restart", func(t *testing.T) {
		t.Parallel()
		s, scheduler := owing(t)
		s.Must(scheduler.Kill())
		s.Scheduler(saving)
		s.paid()
	})
	t.Run("with a restart that forgets", func(t *testing.T) {
		t.Parallel()
		s, scheduler := owing(t)
		s.Must(scheduler.Kill())
		s.setState("")
		s.Scheduler(saving)
		owed, before := s.missed()
		await.Eventually(t, "as much is used as pays b back where its balance is kept", 2*cluster.Limit, func() (bool, string) {
			_, total := s.missed()
			return total-before >= 6*owed, fmt.Sprintf("%.0f of %.0f GPU-seconds", total-before, 6*owed)
		})
		if less, _ := s.missed(); less < owed/2 {
			t.Errorf("b had missed %.0f GPU-seconds, and %.0f at the end: this test shows nothing", owed, less)
		}
	})
}
