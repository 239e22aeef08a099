package plugin

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/events"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler"
	internalqueue "k8s.io/kubernetes/pkg/scheduler/backend/queue"
	"k8s.io/kubernetes/pkg/scheduler/framework"

	"github.com/tangram-dev/tangram/api/names"
	kubeengine "github.com/tangram-dev/tangram/internal/kube/engine"
)

// newLoop is a loop over kube-scheduler's own queue.
func (b *bench) newLoop(q *waitingRoom) *loop {
	h := handle{client: b.client, recorder: events.NewFakeRecorder(100)}
	r := &recorders{any: h.recorder}
	return &loop{engine: b.Engine, handle: h, client: b.client, sched: &scheduler.Scheduler{SchedulingQueue: unlocked{q, b.Engine}}, teller: newTeller(b.Engine, h, b.client, r), fence: &fence{}, recorders: r}
}

// unlocked is a queue in which nothing is activated under the engine's lock: whatever
// kube-scheduler asks meanwhile must be answered.
type unlocked struct {
	internalqueue.SchedulingQueue
	engine *kubeengine.Engine
}

func (u unlocked) Activate(logger klog.Logger, pods map[string]*v1.Pod) {
	u.engine.Sync()
	u.SchedulingQueue.Activate(logger, pods)
}

// within fails when something does not come to its end.
func within(t *testing.T, what string, f func()) {
	t.Helper()
	done := make(chan struct{})
	go func() { defer close(done); f() }()
	select {
	case <-done:
	case <-time.After(time.Minute):
		t.Fatalf("hangs: %s", what)
	}
}

// TestQueueNeverWaits: everything that kube-scheduler's queue does under its lock comes
// to its end while a decision holds the engine's (hole H10).
func TestQueueNeverWaits(t *testing.T) {
	var objects []runtime.Object
	var pods []*v1.Pod
	for i := range 6 {
		p := gpuPod(fmt.Sprintf("p%d", i), 2)
		pods, objects = append(pods, p), append(objects, p.DeepCopy())
	}
	b := newBench(t, objects...)
	q := b.newQueue(t.Context())
	b.Step() // four of them fit
	locked, unlock := make(chan struct{}), make(chan struct{})
	defer close(unlock)
	go b.Configure(func(*kubeengine.Settings) { close(locked); <-unlock })
	<-locked
	logger := klog.FromContext(t.Context())
	within(t, "Add", func() {
		for _, p := range pods {
			q.Add(t.Context(), p)
		}
	})
	if n := len(q.PodsInActiveQ()); n != 4 {
		t.Errorf("%d in the active queue, 4 are released", n)
	}
	within(t, "Update", func() {
		for _, p := range pods {
			edited := p.DeepCopy()
			edited.Labels["x"] = "y"
			q.Update(t.Context(), p, edited)
		}
	})
	within(t, "Activate", func() {
		for _, p := range pods {
			q.Activate(logger, map[string]*v1.Pod{p.Namespace + "/" + p.Name: p})
		}
	})
	within(t, "Pop and back", func() {
		info, err := q.Pop(logger)
		if err != nil {
			t.Error(err)
			return
		}
		info.UnschedulablePlugins = sets.New(names.PluginQueue)
		if err := q.AddUnschedulableIfNotPresent(logger, info, q.SchedulingCycle()); err != nil {
			t.Error(err)
		}
	})
	within(t, "events", func() {
		bound := gpuPod("other", 1)
		bound.Spec.NodeName = "n"
		q.AssignedPodAdded(logger, bound)
		for _, e := range []fwk.ClusterEvent{framework.EventAssignedPodDelete, {Resource: fwk.Node, ActionType: fwk.Add}, {Resource: fwk.Pod, ActionType: fwk.Update}} {
			q.MoveAllToActiveOrBackoffQueue(logger, e, bound, bound, nil)
		}
	})
	within(t, "Delete", func() { q.Delete(pods[5]) })
}

// TestLoopAndQueue: the loop steps, activates and queues again while the queue is used
// from all sides, and everything comes to its end: neither waits for the other's lock.
func TestLoopAndQueue(t *testing.T) {
	b := newBench(t)
	bound := b.bindings()
	q := b.newQueue(t.Context())
	l := b.newLoop(q)
	const pods = 200
	logger := klog.FromContext(t.Context())
	var stepping, wg sync.WaitGroup
	stop := make(chan struct{})
	stepping.Go(func() {
		for {
			select {
			case <-stop:
				return
			case <-l.engine.Kicked():
			case <-time.After(10 * time.Millisecond):
			}
			l.step(t.Context())
		}
	})
	informed := func(p *v1.Pod) *v1.Pod {
		if err := b.client.Tracker().Add(p.DeepCopy()); err != nil {
			t.Error(err)
		}
		for deadline := time.Now().Add(time.Minute); b.Gone(p) && time.Now().Before(deadline); {
			time.Sleep(100 * time.Microsecond) // the fake API server queues few events
		}
		return p
	}
	wg.Go(func() { // informers
		for i := range pods {
			p := informed(gpuPod(fmt.Sprintf("p%d", i), 1))
			q.Add(t.Context(), p)
			edited := p.DeepCopy()
			edited.Labels["x"] = "y"
			q.Update(t.Context(), p, edited)
			q.MoveAllToActiveOrBackoffQueue(logger, framework.EventAssignedPodDelete, p, p, nil)
		}
	})
	binder := b.binder()
	wg.Go(func() { // cycles, and pods that end
		for range pods {
			info, err := q.Pop(logger)
			if err != nil || info == nil {
				return
			}
			c, ok := b.Begin(info.Pod)
			if !ok {
				t.Errorf("%s is in the queue and not released", info.Pod.Name)
				continue
			}
			cs := framework.NewCycleState()
			cs.Write(cycleKey, &cycle{Cycle: c})
			c.Reserved()
			if got := binder.Bind(t.Context(), cs, info.Pod, "n"); !got.IsSuccess() {
				t.Error(got)
			}
			q.Done(info.Pod.UID)
			if err := b.client.CoreV1().Pods("default").Delete(t.Context(), info.Pod.Name, metav1.DeleteOptions{}); err != nil {
				t.Error(err)
			}
		}
	})
	within(t, "the loop and the queue", wg.Wait)
	close(stop)
	within(t, "the loop", stepping.Wait)
	if bound() != pods {
		t.Errorf("%d of %d were bound", bound(), pods)
	}
}

// TestLostPod: a released pod that is in none of the queue's parts comes back within
// seconds (hole H16); one that is there is not queued twice.
func TestLostPod(t *testing.T) {
	t.Parallel()
	lost, waits := gpuPod("lost", 1), gpuPod("waits", 1)
	b := newBench(t, lost.DeepCopy(), waits.DeepCopy())
	q := b.newQueue(t.Context())
	l := b.newLoop(q)
	q.Add(t.Context(), waits)
	l.step(t.Context())
	if _, there := q.GetPod("lost", "default"); there || !b.Released(lost) {
		t.Fatal("it is not lost")
	}
	before, there := q.GetPod("waits", "default")
	if !there {
		t.Fatal("the other is not in the queue")
	}
	began := time.Now()
	eventually(t, "the lost pod is back", 15*time.Second, func() bool {
		l.step(t.Context())
		return slices.ContainsFunc(q.PodsInActiveQ(), func(p *v1.Pod) bool { return p.Name == "lost" })
	})
	t.Logf("back after %s", time.Since(began).Round(time.Millisecond))
	if after, _ := q.GetPod("waits", "default"); after != before {
		t.Error("a pod that is in the queue was queued again")
	}
}

// TestEvictAtOnce: members of a gang that no budget guards are evicted at the same time.
// Fails when one eviction waits for the one before.
func TestEvictAtOnce(t *testing.T) {
	pods := []*v1.Pod{gpuPod("a", 1), gpuPod("b", 1), gpuPod("c", 1)}
	b := newBench(t, pods[0], pods[1], pods[2])
	var inFlight atomic.Int32
	api := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		inFlight.Add(1)
		eventually(t, "all evictions are under way", 10*time.Second, func() bool { return int(inFlight.Load()) == len(pods) })
	}))
	defer api.Close()
	// The fake client answers one request at a time.
	client, err := kubernetes.NewForConfig(&rest.Config{Host: api.URL})
	if err != nil {
		t.Fatal(err)
	}
	l := b.newLoop(b.newQueue(t.Context()))
	l.handle = otherClient{l.handle, client}
	l.evictAll(t.Context(), nil, []kubeengine.Victim{{Pod: pods[0]}, {Pod: pods[1]}, {Pod: pods[2]}})
}

// otherClient is a handle with another client.
type otherClient struct {
	fwk.Handle
	client kubernetes.Interface
}

func (o otherClient) ClientSet() kubernetes.Interface { return o.client }

// TestEvictAll: victims are evicted until one may not go; pods on devices that older
// pods hold are deleted, and the engine hears of what failed.
func TestEvictAll(t *testing.T) {
	pods := []*v1.Pod{gpuPod("a", 1), gpuPod("b", 1), gpuPod("c", 1), gpuPod("heal", 1)}
	var objects []runtime.Object
	for _, p := range pods {
		objects = append(objects, p)
	}
	b := newBench(t, objects...)
	var asked []string
	b.react("create", "eviction", func(a clienttesting.Action) (bool, runtime.Object, error) {
		name := a.(clienttesting.CreateAction).GetObject().(metav1.Object).GetName()
		asked = append(asked, name)
		if name == "b" {
			return true, nil, apierrors.NewTooManyRequests("a disruption budget", 1)
		}
		return true, nil, nil
	})
	q := b.newQueue(t.Context())
	l := b.newLoop(q)
	recorder := l.handle.EventRecorder().(*events.FakeRecorder)
	victims := []kubeengine.Victim{{Pod: pods[2]}, {Pod: pods[0], Why: "evicted for default/u", Guarded: true}, {Pod: pods[1], Guarded: true}}
	l.evictAll(t.Context(), []kubeengine.Victim{{Pod: pods[3], Why: "held twice"}}, victims)
	if !slices.Equal(asked, []string{"a", "b"}) {
		t.Errorf("asked to evict %v", asked)
	}
	if _, err := b.client.CoreV1().Pods("default").Get(t.Context(), "heal", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("not deleted: %v", err)
	}
	var said []string
	for len(recorder.Events) > 0 {
		said = append(said, <-recorder.Events)
	}
	if want := []string{"Warning Evicted two pods were bound to one device: held twice", "Normal Preempted evicted for default/u"}; !slices.Equal(said, want) {
		t.Errorf("events %q", said)
	}
}
