package e2e

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tangram-dev/tangram/api/names"
	"github.com/tangram-dev/tangram/lab/local"
	"github.com/tangram-dev/tangram/test/cluster"
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
		{"cpu", 16, func(i int) func(*v1.Pod) { return cluster.Needs("cpu", fmt.Sprint(200+i)) }},
		{"models", 4, func(i int) func(*v1.Pod) {
			return cluster.Annotate(names.AnnotationUseModel, fmt.Sprintf("made-up-%d", i))
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			w := newGangWorld(t, local.Options{}, fmt.Sprintf(`pools: [{name: n, count: %d, gpu: {model: A100-80GB, count: 8}}]`, tt.nodes))
			w.AddQueue("idle", "{weight: 1}")
			w.AddNamespace("hostile")
			w.Scheduler(nil)
			flood := make([]*v1.Pod, 300)
			for i := range flood {
				flood[i] = pod(fmt.Sprintf("flood-%d", i), 1, cluster.In("hostile"), tt.kind(i))
			}
			w.CreateAll(flood)
			w.Eventually("the flood is being refused", func() (bool, string) {
				n := 0
				for _, p := range w.AllPods() {
					if p.Namespace == "hostile" && cluster.Scheduled(&p).Message != "" {
						n++
					}
				}
				return n >= 50, fmt.Sprintf("%d pods are told why they wait", n)
			})
			for i := range 3 { // in every pass, not in one lucky one
				w.starts(pod(fmt.Sprintf("plain-%d", i), 1))
			}
		})
	}
}

// TestHoleNoNodeMatches: 2,000 pods whose nodeSelector matches none of 500 nodes. They are
// alike and are refused once: a pod that fits starts before each of them has been tried on
// each node.
func TestHoleNoNodeMatches(t *testing.T) {
	t.Parallel()
	w := newGangWorld(t, local.Options{}, `pools: [{name: n, count: 500, gpu: {model: A100-80GB, count: 8}}]`)
	w.AddNamespace("hostile")
	scheduler := w.Scheduler(nil, cluster.Alone, cluster.OpenMetrics)
	w.starts(pod("before", 1))
	flood := make([]*v1.Pod, 2000)
	for i := range flood {
		flood[i] = pod(fmt.Sprintf("flood-%d", i), 1, cluster.In("hostile"), cluster.On("disk", "made-up"))
	}
	before := w.Attempts(scheduler)
	w.CreateAll(flood)
	w.starts(pod("plain", 1))
	if n := w.Attempts(scheduler) - before; n > len(flood)/20 {
		t.Errorf("%d attempts to place pods before the one that fits started", n)
	}
}

// TestHoleSteadyDeletes: 300 pods of many kinds, alone and in gangs, wait for whole nodes,
// for whole cards or for CPUs while small pods are created and deleted all the time. A
// deletion wakes only pods that it could help: none of those that wait is tried, and pods
// that fit start, with a queue in the cluster and without.
func TestHoleSteadyDeletes(t *testing.T) {
	t.Parallel()
	for _, queue := range []bool{false, true} {
		t.Run(map[bool]string{false: "without-queue", true: "with-queue"}[queue], func(t *testing.T) {
			steadyDeletes(t, queue)
		})
	}
}

func steadyDeletes(t *testing.T, queue bool) {
	const nodes = 100
	w := newGangWorld(t, local.Options{}, fmt.Sprintf(`pools: [{name: n, count: %d, gpu: {model: A100-80GB, count: 8}}]`, nodes))
	if queue {
		w.AddQueue("idle", "{weight: 1}")
	}
	scheduler := w.Scheduler(nil, cluster.Alone, cluster.OpenMetrics)
	// One long pod on every node, so that nothing that waits ever fits.
	var long []*v1.Pod
	for i := range nodes {
		long = append(long, pod(fmt.Sprintf("long-%d", i), 1, cluster.On(v1.LabelHostname, fmt.Sprintf("n-%d", i))))
	}
	w.CreateAll(long)
	w.gangNodes("long-", nodes)
	waiting := make([]*v1.Pod, 300)
	for i := range waiting {
		p := pod(fmt.Sprintf("waits-%d", i), 8, cluster.Needs("cpu", fmt.Sprintf("%dm", 100+i%20)))
		switch {
		case i%3 == 0: // GPUs are free for it, CPUs are not
			p = pod(p.Name, 1, cluster.Needs("cpu", fmt.Sprint(200+i)))
		case i%3 == 1 && queue: // gangs would start the engine
			cluster.Gang(fmt.Sprintf("gang-%d", i/12), 4)(p)
		case i%3 == 2:
			asking(map[string]string{"nvidia.com/gpu": "8", "nvidia.com/gpumem-percentage": fmt.Sprint(60 + i%30)})(p)
		}
		waiting[i] = p
	}
	w.CreateAll(waiting)
	w.Eventually("they wait", func() (bool, string) {
		n := 0
		for _, p := range w.AllPods() {
			if cluster.Scheduled(&p).Status == v1.ConditionFalse {
				n++
			}
		}
		return n >= 250, fmt.Sprint(n)
	})

	tried := func() int {
		samples, err := cluster.Scrape(scheduler)
		w.Must(err)
		return int(samples.Sum("scheduler_schedule_attempts_total", `result="unschedulable"`))
	}
	before := tried()
	stop := w.churn(40)
	for i := range 10 {
		name := fmt.Sprintf("probe-%d", i)
		w.starts(pod(name, 1))
		w.Delete(name)
		time.Sleep(500 * time.Millisecond)
	}
	deleted := stop()
	if n := tried() - before; n > deleted {
		t.Errorf("%d deletions woke pods %d times", deleted, n)
	} else {
		t.Logf("%d deletions woke pods %d times", deleted, n)
	}
}

// churn keeps a number of small pods running and replaces up to twenty of them every
// second, until the returned function is called, which says how many went.
func (w *world) churn(running int) (stop func() (deleted int)) {
	ctx, cancel := context.WithCancel(context.Background())
	var done sync.WaitGroup
	deleted := 0
	done.Go(func() {
		for i := 0; ctx.Err() == nil; i++ {
			_, _ = w.Client.CoreV1().Pods("default").Create(ctx, pod(fmt.Sprintf("small-%d", i), 1), metav1.CreateOptions{})
			if i >= running {
				now := int64(0)
				_ = w.Client.CoreV1().Pods("default").Delete(ctx, fmt.Sprintf("small-%d", i-running), metav1.DeleteOptions{GracePeriodSeconds: &now})
				deleted++
				time.Sleep(50 * time.Millisecond)
			}
		}
	})
	return func() int { cancel(); done.Wait(); return deleted }
}
