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

	"github.com/tangram-dev/tangram/lab/local"
	"github.com/tangram-dev/tangram/test/await"
	"github.com/tangram-dev/tangram/test/cluster"
)

// fairFleet has 40 GPUs.
const fairFleet = `
pools:
- {name: n, count: 5, gpu: {model: A100-80GB, count: 8}}
`

// TestFairShares: four queues with weights 1:2:3:4, saturated with short pods, use
// the cluster by their weights; what one leaves idle the others use, and it gets its
// share back when it returns.
func TestFairShares(t *testing.T) {
	t.Parallel()
	w := newGangWorld(t, local.Options{}, fairFleet)
	weights := map[string]int{"a": 1, "b": 2, "c": 3, "d": 4}
	for name, weight := range weights {
		w.AddQueue(name, fmt.Sprintf("{weight: %d}", weight))
	}
	l := saturate(w, []int{1}, "a", "b", "c", "d")
	l.reach("the queues have their shares", map[string]int{"a": 4, "b": 8, "c": 12, "d": 16})
	l.converges(400, map[string]float64{"a": 0.1, "b": 0.2, "c": 0.3, "d": 0.4})

	for range 3 {
		l.setIdle("d", true)
		l.reach("the others use what is idle", map[string]int{"a": 7, "b": 13, "c": 20})
		l.setIdle("d", false)
		l.reach("the share comes back", map[string]int{"a": 4, "b": 8, "c": 12, "d": 16})
	}
}

// TestFairSharesInATree: two departments with weights 1:2 and two queues in each,
// saturated with gangs of one, two and four pods. Shares are by weight at both levels;
// what a queue leaves idle stays in its department; it comes back.
func TestFairSharesInATree(t *testing.T) {
	t.Parallel()
	w := newGangWorld(t, local.Options{}, fairFleet)
	w.AddQueue("north", "{weight: 1}")
	w.AddQueue("south", "{weight: 2}")
	w.AddQueue("n1", "{parent: north, weight: 1}")
	w.AddQueue("n2", "{parent: north, weight: 2}")
	w.AddQueue("s1", "{parent: south, weight: 1}")
	w.AddQueue("s2", "{parent: south, weight: 3}")
	l := saturate(w, []int{1, 2, 4}, "n1", "n2", "s1", "s2")
	shares := map[string]int{"n1": 4, "n2": 9, "s1": 7, "s2": 20}
	l.reach("the queues have their shares", shares)
	l.converges(2000, map[string]float64{"n1": 1. / 9, "n2": 2. / 9, "s1": 1. / 6, "s2": 1. / 2})

	l.setIdle("s2", true)
	l.reach("its sister uses what is idle", map[string]int{"n1": 4, "n2": 9, "s1": 27})
	l.setIdle("s2", false)
	l.reach("the share comes back", shares)
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
	w.T.Helper()
	w.Scheduler(nil)
	ctx, cancel := context.WithCancel(context.Background())
	w.T.Cleanup(cancel)
	l := &queueLoad{
		world: w, ctx: ctx, sizes: sizes, largest: sizes[len(sizes)-1],
		idle: map[string]bool{}, gangs: map[string]*queuedGang{}, held: map[string]hold{}, used: map[string]float64{},
	}
	_, err := w.Follow(ctx, l.see)
	w.Must(err)
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
		p := pod(fmt.Sprintf("%s-%d", name, i), 1, cluster.Queue(queue), cluster.Gang(name, g.size))
		if _, err := l.Client.CoreV1().Pods("default").Create(l.ctx, p, metav1.CreateOptions{}); err != nil && l.ctx.Err() == nil {
			l.T.Error(err)
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
		err := l.Client.CoreV1().Pods("default").Delete(l.ctx, fmt.Sprintf("%s-%d", gang, i), metav1.DeleteOptions{GracePeriodSeconds: &now})
		if err != nil && !apierrors.IsNotFound(err) && l.ctx.Err() == nil {
			l.T.Error(err)
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

// converges waits until the GPU-seconds that queues have used from now on are theirs by
// their parts: at least so many, within 2 %, and for gangs what the largest uses in ten
// seconds, because balances take their time (core/engine measures for longer).
func (l *queueLoad) converges(least float64, parts map[string]float64) {
	l.T.Helper()
	l.mu.Lock()
	clear(l.used)
	start := time.Now()
	for _, h := range l.held { // what they used before does not count
		l.used[h.queue] -= start.Sub(h.since).Seconds()
	}
	l.mu.Unlock()
	await.Eventually(l.T, "queues have used GPUs by their weights", 3*cluster.Limit, func() (bool, string) {
		l.mu.Lock()
		used, total := maps.Clone(l.used), 0.0
		for _, h := range l.held {
			used[h.queue] += time.Since(h.since).Seconds()
		}
		l.mu.Unlock()
		for _, u := range used {
			total += u
		}
		grain := 0.0
		if l.largest > 1 {
			grain = float64(l.largest) * 10 / total
		}
		seen, ok := fmt.Sprintf("%.0f GPU-seconds", total), total >= least
		for _, q := range sortedKeys(parts) {
			seen += fmt.Sprintf("; queue %s %.4f, by its weight %.4f", q, used[q]/total, parts[q])
			ok = ok && math.Abs(used[q]/total-parts[q]) <= 0.02*parts[q]+grain
		}
		if ok {
			l.T.Log(seen)
		}
		return ok, seen
	})
}

// reach waits until every queue uses what is wanted, give or take a gang.
func (l *queueLoad) reach(what string, want map[string]int) {
	l.T.Helper()
	l.Eventually(what, func() (bool, string) {
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
