package e2e

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tangram-dev/tangram/api/names"
	"github.com/tangram-dev/tangram/internal/local"
)

// TestHoleManyKinds: one tenant submits 300 pods of 300 kinds that fit nowhere. A pod of
// another tenant starts on the idle cluster as if they were not there.
func TestHoleManyKinds(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name  string
		nodes int
		kind  func(i int) func(*v1.Pod)
	}{
		// 1,536 CPUs in all, so that no kind is larger than the whole cluster.
		{"cpu", 16, func(i int) func(*v1.Pod) { return needing("cpu", fmt.Sprint(200+i)) }},
		{"models", 4, func(i int) func(*v1.Pod) {
			return annotated(names.AnnotationUseModel, fmt.Sprintf("made-up-%d", i))
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			knownHole(t, "H1-"+tt.name)
			w := newGangWorld(t, local.Options{}, fmt.Sprintf(`pools: [{name: n, count: %d, gpu: {model: A100-80GB, count: 8}}]`, tt.nodes))
			w.queueOf("idle", "{weight: 1}")
			w.namespace("hostile")
			w.scheduler(nil)
			t.Logf("on an idle cluster after %s", w.startsWithin(20*time.Second, pod("before", 1)))
			flood := make([]*v1.Pod, 300)
			for i := range flood {
				flood[i] = pod(fmt.Sprintf("flood-%d", i), 1, inNamespace("hostile"), tt.kind(i))
			}
			w.createAll(flood)
			w.eventually("the flood is being refused", time.Minute, func() (bool, string) {
				n := 0
				for _, p := range w.pods() {
					if p.Namespace == "hostile" && scheduled(&p).Message != "" {
						n++
					}
				}
				return n >= 50, fmt.Sprintf("%d pods are told why they wait", n)
			})
			for i := range 3 { // in every pass, not in one lucky one
				t.Logf("behind the flood after %s", w.startsWithin(20*time.Second, pod(fmt.Sprintf("plain-%d", i), 1)))
			}
		})
	}
}

// TestHoleNoNodeMatches: 2,000 pods whose nodeSelector matches none of 500 nodes. A pod
// that fits starts about as fast as on an idle cluster, not after each of them has been
// tried on each node.
func TestHoleNoNodeMatches(t *testing.T) {
	knownHole(t, "H12")
	w := newGangWorld(t, local.Options{}, `pools: [{name: n, count: 500, gpu: {model: A100-80GB, count: 8}}]`)
	w.namespace("hostile")
	scheduler := w.scheduler(nil)
	var idle time.Duration
	for i := range 3 {
		idle = max(idle, w.startsWithin(30*time.Second, pod(fmt.Sprintf("before-%d", i), 1)))
	}
	flood := make([]*v1.Pod, 2000)
	for i := range flood {
		flood[i] = pod(fmt.Sprintf("flood-%d", i), 1, inNamespace("hostile"), func(p *v1.Pod) {
			p.Spec.NodeSelector = map[string]string{"disk": "made-up"}
		})
	}
	used := w.cpuTime(scheduler)
	w.createAll(flood)
	limit := max(3*time.Second, 5*idle)
	took := w.startsWithin(2*time.Minute, pod("plain", 1))
	t.Logf("idle %s, behind 2,000 pods %s; the scheduler used %s of processor time for them so far", idle, took, w.cpuTime(scheduler)-used)
	if took > limit {
		t.Errorf("started after %s, on an idle cluster after %s", took, idle)
	}
}

// TestHoleSteadyDeletes: 300 pods of many kinds, alone and in gangs, wait for whole nodes,
// for whole cards or for CPUs while small pods are created and deleted all the time. A deletion wakes
// only pods that it could help: a pod that fits starts within seconds, with a queue in
// the cluster and without.
func TestHoleSteadyDeletes(t *testing.T) {
	t.Parallel()
	for _, queue := range []bool{false, true} {
		t.Run(map[bool]string{false: "without-queue", true: "with-queue"}[queue], func(t *testing.T) {
			knownHole(t, "H18")
			steadyDeletes(t, queue)
		})
	}
}

func steadyDeletes(t *testing.T, queue bool) {
	const nodes = 100
	w := newGangWorld(t, local.Options{}, fmt.Sprintf(`pools: [{name: n, count: %d, gpu: {model: A100-80GB, count: 8}}]`, nodes))
	if queue {
		w.queueOf("idle", "{weight: 1}")
	}
	w.scheduler(nil)
	// One long pod on every node, so that nothing that waits ever fits.
	var long []*v1.Pod
	for i := range nodes {
		long = append(long, pod(fmt.Sprintf("long-%d", i), 1, func(p *v1.Pod) {
			p.Spec.NodeSelector = map[string]string{v1.LabelHostname: fmt.Sprintf("n-%d", i)}
		}))
	}
	w.createAll(long)
	w.gangNodes("long-", nodes, 30*time.Second)
	waiting := make([]*v1.Pod, 300)
	for i := range waiting {
		p := pod(fmt.Sprintf("waits-%d", i), 8, needing("cpu", fmt.Sprintf("%dm", 100+i%20)))
		switch {
		case i%3 == 0: // GPUs are free for it, CPUs are not
			p = pod(p.Name, 1, needing("cpu", fmt.Sprint(200+i)))
		case i%3 == 1 && queue: // gangs would start the engine
			gangLabels(fmt.Sprintf("gang-%d", i/12), 4)(p)
		case i%3 == 2:
			asking(map[string]string{"nvidia.com/gpu": "8", "nvidia.com/gpumem-percentage": fmt.Sprint(60 + i%30)})(p)
		}
		waiting[i] = p
	}
	w.createAll(waiting)
	w.eventually("they wait", time.Minute, func() (bool, string) {
		n := 0
		for _, p := range w.pods() {
			if scheduled(&p).Status == v1.ConditionFalse {
				n++
			}
		}
		return n >= 250, fmt.Sprint(n)
	})

	defer w.churn(40)()
	time.Sleep(3 * time.Second)
	var took []time.Duration
	for i := range 10 {
		name := fmt.Sprintf("probe-%d", i)
		took = append(took, w.startsWithin(time.Minute, pod(name, 1)))
		w.gone(name)
		time.Sleep(500 * time.Millisecond)
	}
	slices.Sort(took)
	t.Logf("median %s, slowest %s", took[len(took)/2], took[len(took)-1])
	if took[len(took)/2] > 2*time.Second || took[len(took)-1] > 6*time.Second {
		t.Errorf("pods that fit waited for %v", took)
	}
}

// churn keeps a number of small pods running and replaces up to twenty of them every
// second, until the returned function is called.
func (w *world) churn(running int) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	var done sync.WaitGroup
	done.Go(func() {
		for i := 0; ctx.Err() == nil; i++ {
			_, _ = w.client.CoreV1().Pods("default").Create(ctx, pod(fmt.Sprintf("small-%d", i), 1), metav1.CreateOptions{})
			if i >= running {
				now := int64(0)
				_ = w.client.CoreV1().Pods("default").Delete(ctx, fmt.Sprintf("small-%d", i-running), metav1.DeleteOptions{GracePeriodSeconds: &now})
				time.Sleep(50 * time.Millisecond)
			}
		}
	})
	return func() { cancel(); done.Wait() }
}
