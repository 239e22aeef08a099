package e2e

import (
	"context"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tangram-dev/tangram/api/names"
	"github.com/tangram-dev/tangram/internal/local"
)

// TestFairShares: four queues with weights 1:2:3:4, saturated with short pods, use
// the cluster by their weights; what one leaves idle the others use, and it gets its
// share back at once when it returns.
func TestFairShares(t *testing.T) {
	w := newGangWorld(t, local.Options{}, `
pools:
- {name: n, count: 5, gpu: {model: A100-80GB, count: 8}}
`)
	weights := map[string]int{"a": 1, "b": 2, "c": 3, "d": 4}
	for name, weight := range weights {
		w.queueOf(name, fmt.Sprintf("{weight: %d}", weight))
	}
	w.scheduler(nil)
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	l := &queueLoad{world: w, ctx: ctx, idle: map[string]bool{}, held: map[string]hold{}, used: map[string]float64{}}
	w.follow(ctx, l.see)
	for name := range weights {
		l.fill(name)
	}

	l.reach("the queues have their shares", time.Minute, map[string]int{"a": 4, "b": 8, "c": 12, "d": 16})
	used := l.measure(12 * time.Second)
	total := used["a"] + used["b"] + used["c"] + used["d"]
	t.Logf("%.0f of %d GPU-seconds used", total, 40*12)
	for _, name := range sortedKeys(weights) {
		share, want := used[name]/total, float64(weights[name])/10
		t.Logf("queue %s: %.4f of what is used, by its weight %.4f", name, share, want)
		if math.Abs(share-want) > 0.02*want {
			t.Errorf("queue %s: %.4f, more than 2 %% from %.4f", name, share, want)
		}
	}
	if total < 0.9*40*12 {
		t.Errorf("%.0f of %d GPU-seconds used", total, 40*12)
	}

	var slowest time.Duration
	for range 3 {
		l.setIdle("d", true)
		l.reach("the others use what is idle", 30*time.Second, map[string]int{"a": 7, "b": 13, "c": 20})
		start := time.Now()
		l.setIdle("d", false)
		l.reach("the share comes back", time.Minute, map[string]int{"a": 4, "b": 8, "c": 12, "d": 16})
		slowest = max(slowest, time.Since(start))
	}
	t.Logf("the share came back within %s each time", slowest.Round(10*time.Millisecond))
}

// queueLoad keeps queues saturated with pods of one GPU that end after a while. It
// plays owners and kubelets as the API server tells of pods.
type queueLoad struct {
	*world
	ctx context.Context

	mu      sync.Mutex
	idle    map[string]bool
	held    map[string]hold
	used    map[string]float64
	created int
}

// hold is a pod that holds a GPU.
type hold struct {
	queue string
	since time.Time
}

// backlog is how many pods wait in a queue.
const backlog = 20

// fill creates a queue's backlog.
func (l *queueLoad) fill(queue string) {
	for range backlog {
		l.another(queue)
	}
}

func (l *queueLoad) another(queue string) {
	l.mu.Lock()
	idle := l.idle[queue]
	l.created++
	name := fmt.Sprintf("%s-%d", queue, l.created)
	l.mu.Unlock()
	if idle {
		return
	}
	if _, err := l.client.CoreV1().Pods("default").Create(l.ctx, pod(name, 1, inQueue(queue)), metav1.CreateOptions{}); err != nil && l.ctx.Err() == nil {
		l.t.Error(err)
	}
}

func (l *queueLoad) end(name string) {
	now := int64(0)
	if err := l.client.CoreV1().Pods("default").Delete(l.ctx, name, metav1.DeleteOptions{GracePeriodSeconds: &now}); err != nil && !apierrors.IsNotFound(err) && l.ctx.Err() == nil {
		l.t.Error(err)
	}
}

func (l *queueLoad) see(before, after *v1.Pod) {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case after == nil:
		if h, ok := l.held[before.Name]; ok {
			delete(l.held, before.Name)
			l.used[h.queue] += time.Since(h.since).Seconds()
		}
	case after.DeletionTimestamp != nil:
		go l.end(after.Name) // evicted
	case after.Spec.NodeName != "" && l.held[after.Name].queue == "":
		queue := after.Labels[names.LabelQueue]
		l.held[after.Name] = hold{queue, time.Now()}
		go l.another(queue)
		lifetime := time.Second + time.Duration(rand.IntN(1000))*time.Millisecond
		time.AfterFunc(lifetime, func() { l.end(after.Name) })
	}
}

// setIdle takes a queue's pods away, or brings them back.
func (l *queueLoad) setIdle(queue string, idle bool) {
	l.mu.Lock()
	l.idle[queue] = idle
	l.mu.Unlock()
	if !idle {
		l.fill(queue)
		return
	}
	for _, p := range l.world.pods() {
		if p.Labels[names.LabelQueue] == queue {
			l.end(p.Name)
		}
	}
}

// measure returns the GPU-seconds each queue uses in a while.
func (l *queueLoad) measure(during time.Duration) map[string]float64 {
	l.mu.Lock()
	clear(l.used)
	start := time.Now()
	for _, h := range l.held { // what they used before does not count
		l.used[h.queue] -= start.Sub(h.since).Seconds()
	}
	l.mu.Unlock()
	time.Sleep(during)
	l.mu.Lock()
	defer l.mu.Unlock()
	out := maps.Clone(l.used)
	for _, h := range l.held {
		out[h.queue] += time.Since(h.since).Seconds()
	}
	return out
}

// reach waits until every queue uses what is wanted, give or take one.
func (l *queueLoad) reach(what string, limit time.Duration, want map[string]int) {
	l.t.Helper()
	l.eventually(what, limit, func() (bool, string) {
		l.mu.Lock()
		defer l.mu.Unlock()
		running := map[string]int{}
		for _, h := range l.held {
			running[h.queue]++
		}
		for q, n := range want {
			if d := running[q] - n; d < -1 || d > 1 {
				return false, fmt.Sprint(running)
			}
		}
		return true, ""
	})
}
