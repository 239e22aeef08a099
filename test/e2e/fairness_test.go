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

	"github.com/tangram-dev/tangram/internal/local"
)

// fairFleet has 40 GPUs.
const fairFleet = `
pools:
- {name: n, count: 5, gpu: {model: A100-80GB, count: 8}}
`

// TestFairShares: four queues with weights 1:2:3:4, saturated with short pods, use
// the cluster by their weights; what one leaves idle the others use, and it gets its
// share back at once when it returns.
func TestFairShares(t *testing.T) {
	w := newGangWorld(t, local.Options{}, fairFleet)
	weights := map[string]int{"a": 1, "b": 2, "c": 3, "d": 4}
	for name, weight := range weights {
		w.queueOf(name, fmt.Sprintf("{weight: %d}", weight))
	}
	l := saturate(w, []int{1}, "a", "b", "c", "d")
	l.reach("the queues have their shares", time.Minute, map[string]int{"a": 4, "b": 8, "c": 12, "d": 16})
	l.measure(12*time.Second, map[string]float64{"a": 0.1, "b": 0.2, "c": 0.3, "d": 0.4})

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

// TestFairSharesInATree: two departments with weights 1:2 and two queues in each,
// saturated with gangs of one, two and four pods. Shares are by weight at both levels;
// what a queue leaves idle stays in its department; it comes back at once.
func TestFairSharesInATree(t *testing.T) {
	w := newGangWorld(t, local.Options{}, fairFleet)
	w.queueOf("north", "{weight: 1}")
	w.queueOf("south", "{weight: 2}")
	w.queueOf("n1", "{parent: north, weight: 1}")
	w.queueOf("n2", "{parent: north, weight: 2}")
	w.queueOf("s1", "{parent: south, weight: 1}")
	w.queueOf("s2", "{parent: south, weight: 3}")
	l := saturate(w, []int{1, 2, 4}, "n1", "n2", "s1", "s2")
	shares := map[string]int{"n1": 4, "n2": 9, "s1": 7, "s2": 20}
	l.reach("the queues have their shares", time.Minute, shares)
	l.measure(time.Minute, map[string]float64{"n1": 1. / 9, "n2": 2. / 9, "s1": 1. / 6, "s2": 1. / 2})

	l.setIdle("s2", true)
	l.reach("its sister uses what is idle", 30*time.Second, map[string]int{"n1": 4, "n2": 9, "s1": 27})
	start := time.Now()
	l.setIdle("s2", false)
	l.reach("the share comes back", time.Minute, shares)
	t.Logf("the share came back within %s", time.Since(start).Round(10*time.Millisecond))
}

// queueLoad keeps queues saturated with gangs of one-GPU pods that end after a while.
// It plays owners and kubelets as the API server tells of pods.
type queueLoad struct {
	*world
	ctx   context.Context
	sizes []int
	// largest is the largest gang.
	largest int

	mu      sync.Mutex
	idle    map[string]bool
	gangs   map[string]*queuedGang
	held    map[string]hold
	used    map[string]float64
	created int
}

type queuedGang struct {
	queue string
	size  int
	// started: a member holds a GPU; over: its pods end.
	started, over bool
}

// hold is a pod that holds a GPU.
type hold struct {
	queue string
	since time.Time
}

// lifetime is how long gangs run: one to two of it.
const lifetime = time.Second

// backlog is how many gangs wait in a queue.
const backlog = 20

// saturate starts the scheduler and keeps queues saturated with gangs of some sizes.
func saturate(w *world, sizes []int, queues ...string) *queueLoad {
	w.t.Helper()
	w.scheduler(nil)
	ctx, cancel := context.WithCancel(context.Background())
	w.t.Cleanup(cancel)
	l := &queueLoad{
		world: w, ctx: ctx, sizes: sizes, largest: sizes[len(sizes)-1],
		idle: map[string]bool{}, gangs: map[string]*queuedGang{}, held: map[string]hold{}, used: map[string]float64{},
	}
	w.follow(ctx, l.see)
	for _, q := range queues {
		l.fill(q)
	}
	return l
}

// fill creates a queue's backlog.
func (l *queueLoad) fill(queue string) {
	for range backlog {
		l.another(queue)
	}
}

// another creates a gang.
func (l *queueLoad) another(queue string) {
	l.mu.Lock()
	if l.idle[queue] {
		l.mu.Unlock()
		return
	}
	l.created++
	name, g := fmt.Sprintf("%s-%d", queue, l.created), &queuedGang{queue: queue, size: l.sizes[l.created%len(l.sizes)]}
	l.gangs[name] = g
	l.mu.Unlock()
	for i := range g.size {
		p := pod(fmt.Sprintf("%s-%d", name, i), 1, inQueue(queue), gangLabels(name, g.size))
		if _, err := l.client.CoreV1().Pods("default").Create(l.ctx, p, metav1.CreateOptions{}); err != nil && l.ctx.Err() == nil {
			l.t.Error(err)
		}
	}
}

// end deletes the pods of a gang.
func (l *queueLoad) end(gang string) {
	l.mu.Lock()
	g := l.gangs[gang]
	if g == nil {
		l.mu.Unlock()
		return
	}
	g.over = true
	delete(l.gangs, gang)
	l.mu.Unlock()
	for i := range g.size {
		now := int64(0)
		err := l.client.CoreV1().Pods("default").Delete(l.ctx, fmt.Sprintf("%s-%d", gang, i), metav1.DeleteOptions{GracePeriodSeconds: &now})
		if err != nil && !apierrors.IsNotFound(err) && l.ctx.Err() == nil {
			l.t.Error(err)
		}
	}
}

func (l *queueLoad) see(before, after *v1.Pod) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if after == nil {
		if h, ok := l.held[before.Name]; ok {
			delete(l.held, before.Name)
			l.used[h.queue] += time.Since(h.since).Seconds()
		}
		return
	}
	name := gangOf(after)
	g := l.gangs[name]
	switch {
	case g == nil: // its pods are being deleted
	case after.DeletionTimestamp != nil: // evicted: it ends at once, and another takes its place
		go l.end(name)
		if !g.started {
			go l.another(g.queue)
		}
	case after.Spec.NodeName != "" && l.held[after.Name].queue == "":
		l.held[after.Name] = hold{g.queue, time.Now()}
		if !g.started {
			g.started = true
			go l.another(g.queue)
			time.AfterFunc(lifetime+rand.N(lifetime), func() { l.end(name) })
		}
	}
}

// setIdle takes a queue's gangs away, or brings them back.
func (l *queueLoad) setIdle(queue string, idle bool) {
	l.mu.Lock()
	l.idle[queue] = idle
	var gone []string
	for name, g := range l.gangs {
		if g.queue == queue && idle {
			gone = append(gone, name)
		}
	}
	l.mu.Unlock()
	for _, name := range gone {
		l.end(name)
	}
	if !idle {
		l.fill(queue)
	}
}

// measure compares the GPU-seconds each queue uses in a while with its part of them:
// within 2 %, and for gangs what the largest uses in ten seconds, because balances
// take their time (core/engine measures for longer).
func (l *queueLoad) measure(during time.Duration, parts map[string]float64) {
	l.t.Helper()
	l.mu.Lock()
	clear(l.used)
	start := time.Now()
	for _, h := range l.held { // what they used before does not count
		l.used[h.queue] -= start.Sub(h.since).Seconds()
	}
	l.mu.Unlock()
	time.Sleep(during)
	l.mu.Lock()
	used := maps.Clone(l.used)
	for _, h := range l.held {
		used[h.queue] += time.Since(h.since).Seconds()
	}
	l.mu.Unlock()
	total := 0.0
	for _, u := range used {
		total += u
	}
	l.t.Logf("%.0f of %.0f GPU-seconds used", total, 40*during.Seconds())
	if total < 0.8*40*during.Seconds() {
		l.t.Errorf("%.0f of %.0f GPU-seconds used", total, 40*during.Seconds())
	}
	grain := 0.0
	if l.largest > 1 {
		grain = float64(l.largest) * 10 / total
	}
	for _, q := range sortedKeys(parts) {
		share, want := used[q]/total, parts[q]
		l.t.Logf("queue %s: %.4f of what is used, by its weight %.4f", q, share, want)
		if math.Abs(share-want) > 0.02*want+grain {
			l.t.Errorf("queue %s: %.4f, more than 2 %% from %.4f", q, share, want)
		}
	}
}

// reach waits until every queue uses what is wanted, give or take a gang.
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
			if d := running[q] - n; d < -l.largest || d > l.largest {
				return false, fmt.Sprint(running)
			}
		}
		return true, ""
	})
}
