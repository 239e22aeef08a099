package e2e

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strconv"
	"sync"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/tangram-dev/tangram/api/names"
	"github.com/tangram-dev/tangram/lab/fleet"
	"github.com/tangram-dev/tangram/lab/local"
	"github.com/tangram-dev/tangram/test/cluster"
)

// gangWatch sees every change of every pod and judges gangs: one that has begun to
// be bound is whole within the time bindings take, or lost members to a node.
type gangWatch struct {
	mu    sync.Mutex
	gangs map[string]*watched
	wrong []string
}

type watched struct {
	size int
	// bound are members bound now or ended well; lost is whether a member was taken
	// away, by a node that went, while the gang was bound.
	bound map[string]bool
	lost  bool
	// since is when it was first seen with some members bound, but not all.
	since time.Time
	// longest is how long that ever took.
	longest time.Duration
}

func (g *gangWatch) see(before, after *v1.Pod) {
	p := after
	if p == nil {
		p = before
	}
	if gangOf(p) == "" {
		return
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	w := g.gangs[gangOf(p)]
	if w == nil {
		size, _ := strconv.Atoi(p.Labels[names.LabelGangSize])
		w = &watched{size: size, bound: map[string]bool{}}
		g.gangs[gangOf(p)] = w
	}
	switch {
	case after == nil || after.Status.Phase == v1.PodFailed:
		if w.bound[p.Name] && p.Status.Phase != v1.PodSucceeded {
			w.lost = true
			delete(w.bound, p.Name)
		}
	case after.Spec.NodeName != "":
		w.bound[p.Name] = true
	}
	switch n := len(w.bound); {
	case n == w.size:
		if !w.since.IsZero() && !w.lost {
			w.longest = max(w.longest, time.Since(w.since))
		}
		w.since, w.lost = time.Time{}, false
	case n == 0:
		w.since, w.lost = time.Time{}, false
	case w.since.IsZero():
		w.since = time.Now()
	}
}

// bindings is how long the bindings of a gang may take on a busy machine; on a quiet one it
// is a fraction of a second.
const bindings = 20 * time.Second

// check finds gangs that have been bound in part for longer than bindings take.
func (g *gangWatch) check(settle time.Duration) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for name, w := range g.gangs {
		if !w.since.IsZero() && !w.lost && time.Since(w.since) > settle {
			g.wrong = append(g.wrong, fmt.Sprintf("gang %s: %d of %d members bound for %s", name, len(w.bound), w.size, time.Since(w.since).Round(time.Millisecond)))
			w.lost = true // said once
		}
	}
}

// excuse says that the scheduler was killed: gangs in the middle of their binding are
// completed by the next one.
func (g *gangWatch) excuse() {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, w := range g.gangs {
		w.lost = w.lost || !w.since.IsZero()
	}
}

// TestGangsKilled: 40 gangs of 2 to 32 pods that need three times the capacity, mixed
// with single pods, while the scheduler is killed twice and nodes go away and come
// back. No gang runs in part by the scheduler's doing, all finish, nothing is held
// for ever.
func TestGangsKilled(t *testing.T) {
	t.Parallel()
	w := newGangWorld(t, local.Options{}, `
pools:
- {name: n, count: 20, gpu: {model: A100-80GB, count: 8}, rack: {size: 10}}
`)
	seed := cluster.Seed(t, "TANGRAM_SEED", 11) // another: TANGRAM_SEED=12 make e2e TESTFLAGS="-run GangsKilled"
	random := rand.New(rand.NewPCG(seed, 7))
	var pods []*v1.Pod
	gpus := 0
	for i := range 40 {
		size := []int{2, 3, 4, 6, 8, 8, 12, 16, 24, 32}[i%10]
		each := 1
		if size <= 4 && i%2 == 0 {
			each = []int{2, 4, 8}[random.IntN(3)]
		}
		for j := range size {
			pods = append(pods, pod(fmt.Sprintf("g%02d-%d", i, j), each, cluster.Gang(fmt.Sprintf("g%02d", i), size), func(p *v1.Pod) {
				if i%7 == 3 {
					p.Annotations[names.AnnotationTopology] = "required=rack"
				}
			}))
			gpus += each
		}
	}
	for i := range 60 {
		pods = append(pods, pod(fmt.Sprintf("s%02d", i), 1+i%2))
		gpus += 1 + i%2
	}
	// Members of different gangs come mixed, as from controllers at work.
	random.Shuffle(len(pods), func(i, j int) { pods[i], pods[j] = pods[j], pods[i] })
	t.Logf("%d pods ask for %d GPUs of 160", len(pods), gpus)

	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	watch := &gangWatch{gangs: map[string]*watched{}}
	lister, err := w.Follow(ctx, watch.see)
	w.Must(err)
	scheduler := w.Scheduler(nil)
	var background sync.WaitGroup
	background.Go(func() { // a kubelet: pods whose gang is whole end after two seconds
		since := map[string]time.Time{}
		for ctx.Err() == nil {
			watch.check(bindings)
			for _, p := range lister.Pods() {
				if p.Spec.NodeName == "" || !live(p) {
					continue
				}
				watch.mu.Lock()
				whole := gangOf(p) == "" || len(watch.gangs[gangOf(p)].bound) == watch.gangs[gangOf(p)].size
				watch.mu.Unlock()
				if !whole {
					delete(since, p.Name)
					continue
				}
				if since[p.Name].IsZero() {
					since[p.Name] = time.Now()
				}
				if time.Since(since[p.Name]) > 2*time.Second {
					patch := []byte(`{"status":{"phase":"Succeeded"}}`)
					if _, err := w.Client.CoreV1().Pods(p.Namespace).Patch(ctx, p.Name, types.MergePatchType, patch, metav1.PatchOptions{}, "status"); err != nil && !apierrors.IsNotFound(err) && ctx.Err() == nil {
						t.Errorf("finish %s: %v", p.Name, err)
					}
				}
			}
			time.Sleep(100 * time.Millisecond)
		}
	})
	create := func(p *v1.Pod) {
		if _, err := w.Client.CoreV1().Pods(p.Namespace).Create(ctx, p, metav1.CreateOptions{}); err != nil && ctx.Err() == nil {
			t.Errorf("create %s: %v", p.Name, err)
		}
	}
	background.Go(func() {
		for i, p := range pods {
			create(p)
			if i%50 == 49 {
				time.Sleep(100 * time.Millisecond)
			}
		}
	})
	ended := func() int {
		n := 0
		for _, p := range lister.Pods() {
			if !live(p) {
				n++
			}
		}
		return n
	}
	// lose takes nodes away with their pods, as the node life cycle does, and makes
	// the pods anew, as their controllers do.
	lose := func(names ...string) {
		for _, name := range names {
			if err := w.Client.CoreV1().Nodes().Delete(ctx, name, metav1.DeleteOptions{}); err != nil {
				t.Error(err)
			}
		}
		time.Sleep(300 * time.Millisecond) // pods that are being bound to it meanwhile
		now := int64(0)
		for _, p := range lister.Pods() {
			for _, name := range names {
				if p.Spec.NodeName != name || !live(p) {
					continue
				}
				if err := w.Client.CoreV1().Pods(p.Namespace).Delete(ctx, p.Name, metav1.DeleteOptions{GracePeriodSeconds: &now}); err != nil && !apierrors.IsNotFound(err) {
					t.Error(err)
				}
				create(&v1.Pod{ObjectMeta: metav1.ObjectMeta{Name: p.Name, Namespace: p.Namespace, Labels: p.Labels, Annotations: wishes(p)}, Spec: unbound(p)})
			}
		}
	}
	kill := func() {
		if err := scheduler.Kill(); err != nil {
			t.Error(err)
		}
		time.Sleep(200 * time.Millisecond) // what the API server had received is done
		watch.excuse()
		scheduler = w.Scheduler(nil)
	}
	for i, step := range []struct {
		at int
		do func()
	}{
		{40, kill},
		{120, func() { lose("n-3", "n-12") }},
		{200, kill},
		{280, func() { w.fleetAgain("n", 20) }},
		{330, func() { lose("n-0") }},
		{380, func() { w.fleetAgain("n", 20) }},
	} {
		w.Eventually(fmt.Sprintf("step %d: %d pods ended", i, step.at), func() (bool, string) {
			n := ended()
			return n >= step.at, fmt.Sprint(n)
		})
		step.do()
	}
	w.Eventually("all pods ended", func() (bool, string) {
		left, waiting := 0, ""
		for _, p := range lister.Pods() {
			if live(p) {
				if left++; left <= 5 {
					waiting += fmt.Sprintf("\n%s on %q: %s", p.Name, p.Spec.NodeName, cluster.Waiting(p))
				}
			}
		}
		return left == 0 && len(lister.Pods()) == len(pods), fmt.Sprintf("%d left%s", left, waiting)
	})
	cancel()
	background.Wait()
	longest := time.Duration(0)
	for _, g := range watch.gangs {
		longest = max(longest, g.longest)
	}
	for _, wrong := range watch.wrong {
		t.Error(wrong)
	}
	t.Logf("the longest time between a gang's first and last binding was %s", longest.Round(time.Millisecond))
	w.selfCheck(scheduler, 0)
	w.createGang("whole", 20, 8) // nothing is held
	w.gangNodes("whole-", 20)
	w.selfCheck(scheduler, 20)
}

// wishes are a pod's annotations without what the scheduler wrote.
func wishes(p *v1.Pod) map[string]string {
	out := map[string]string{}
	if text, ok := p.Annotations[names.AnnotationTopology]; ok {
		out[names.AnnotationTopology] = text
	}
	return out
}

// unbound is what a pod asks for, without where it was.
func unbound(p *v1.Pod) v1.PodSpec {
	return v1.PodSpec{SchedulerName: p.Spec.SchedulerName, Containers: []v1.Container{{Name: "main", Image: "pause", Resources: p.Spec.Containers[0].Resources}}}
}

// fleetAgain creates the nodes of a pool that are not there.
func (w *world) fleetAgain(pool string, count int) {
	w.T.Helper()
	f, err := fleet.Parse("fleet.yaml", fmt.Appendf(nil, `
pools:
- {name: %s, count: %d, gpu: {model: A100-80GB, count: 8}, rack: {size: 10}}
`, pool, count))
	w.Must(err)
	nodes := w.Client.CoreV1().Nodes()
	for _, n := range f.Nodes() {
		created, err := nodes.Create(context.Background(), n, metav1.CreateOptions{})
		if apierrors.IsAlreadyExists(err) {
			continue
		}
		w.Must(err)
		created.Status = n.Status
		if _, err := nodes.UpdateStatus(context.Background(), created, metav1.UpdateOptions{}); err != nil {
			w.T.Fatal(err)
		}
	}
}
