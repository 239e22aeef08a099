package plugin

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	internalqueue "k8s.io/kubernetes/pkg/scheduler/backend/queue"
	"k8s.io/kubernetes/pkg/scheduler/metrics"
	"pgregory.net/rapid"

	"github.com/tangram-dev/tangram/api/names"
)

// doorkeeper stands for the engine: it places pods whose label is not "free", and lets in those
// that it has released. Deleted pods are gone.
type doorkeeper struct {
	mu                sync.Mutex
	released, deleted map[types.UID]bool
}

func newDoorkeeper() *doorkeeper {
	return &doorkeeper{released: map[types.UID]bool{}, deleted: map[types.UID]bool{}}
}

func (d *doorkeeper) gone(pod *v1.Pod) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.deleted[pod.UID]
}

func (d *doorkeeper) waits(pod *v1.Pod) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return pod.Labels["free"] == "" && !d.released[pod.UID]
}

func (d *doorkeeper) release(id types.UID, let bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.released[id] = let
}

func (d *doorkeeper) delete(id types.UID) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.deleted[id], d.released[id] = true, false
}

// Name and PreEnqueue are GPUQueue's.
func (d *doorkeeper) Name() string { return names.PluginQueue }
func (d *doorkeeper) PreEnqueue(_ context.Context, pod *v1.Pod) *fwk.Status {
	if d.waits(pod) {
		return fwk.NewStatus(fwk.UnschedulableAndUnresolvable)
	}
	return nil
}

// newRoom is a room before kube-scheduler's own queue.
func newRoom(ctx context.Context, d *doorkeeper) *waitingRoom {
	metrics.Register()
	first := func(a, b fwk.QueuedPodInfo) bool { return a.GetTimestamp().Before(b.GetTimestamp()) }
	hints := internalqueue.QueueingHintMap{}
	events, _ := woken{}.EventsToRegister(ctx)
	for _, e := range events {
		hints[e.Event] = append(hints[e.Event], &internalqueue.QueueingHintFunction{PluginName: names.PluginQueue, QueueingHintFn: e.QueueingHintFn})
	}
	q := internalqueue.NewTestQueue(ctx, first,
		internalqueue.WithPreEnqueuePluginMap(map[string]map[string]fwk.PreEnqueuePlugin{names.SchedulerName: {names.PluginQueue: d}}),
		internalqueue.WithQueueingHintMapPerProfile(internalqueue.QueueingHintMapPerProfile{names.SchedulerName: hints}),
		internalqueue.WithPodInitialBackoffDuration(time.Nanosecond), internalqueue.WithPodMaxBackoffDuration(time.Nanosecond))
	return newWaitingRoom(q, d.waits, d.gone)
}

// counter counts pods in the room as its gauge does.
type counter struct{ n int }

func (c *counter) Inc()   { c.n++ }
func (c *counter) Dec()   { c.n-- }
func (c *counter) Clear() { c.n = 0 }

// TestWaitingRoom: whatever comes in whatever order, a pod that exists is in the room or in the
// queue and not in both, one that is gone is in neither; who may be scheduled is in the queue's
// active part, or will be by itself, in the version that was told last, and who was never let in is not in the queue.
func TestWaitingRoom(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d := newDoorkeeper()
		r := newRoom(context.Background(), d)
		count := &counter{}
		r.gated = count
		defer r.Close()
		ctx, logger := context.Background(), klog.New(nil)
		now, entered := map[string]*v1.Pod{}, map[types.UID]bool{}
		var ghosts []*v1.Pod
		uid := 0
		let := func(p *v1.Pod) { // as the loop does
			r.Activate(logger, map[string]*v1.Pod{p.Namespace + "/" + p.Name: p})
		}
		for range rapid.IntRange(1, 40).Draw(t, "steps") {
			name := fmt.Sprintf("p%d", rapid.IntRange(0, 3).Draw(t, "pod"))
			pod := now[name]
			switch what := rapid.SampledFrom([]string{"add", "edit", "free", "replace", "delete", "release", "release first", "activate", "forget", "lose", "cycle", "lost in its cycle", "replaced in its cycle"}).Draw(t, "what"); {
			case what == "add" || what == "release first":
				if pod != nil {
					continue
				}
				uid++
				pod = gpuPod(name, 1)
				pod.UID = types.UID(strconv.Itoa(uid))
				if what == "release first" { // the engine's informer was faster
					d.release(pod.UID, true)
					let(pod)
				}
				now[name] = pod
				r.Add(ctx, pod)
			case what == "lose": // the loop queues pods again that it takes for lost, also late
				if len(ghosts) > 0 {
					r.Add(ctx, ghosts[rapid.IntRange(0, len(ghosts)-1).Draw(t, "ghost")])
				}
			case strings.HasSuffix(what, "cycle"): // a cycle that fails, its release gone
				if len(r.PodsInActiveQ()) == 0 {
					continue
				}
				info, err := r.Pop(logger)
				if err != nil {
					t.Fatal(err)
				}
				d.release(info.Pod.UID, false)
				if what == "lost in its cycle" && d.waits(info.Pod) {
					r.Add(ctx, info.Pod)
				}
				if what == "replaced in its cycle" {
					d.delete(info.Pod.UID)
					r.Delete(info.Pod)
					uid++
					next := gpuPod(info.Pod.Name, 1)
					next.UID = types.UID(strconv.Itoa(uid))
					now[next.Name] = next
					r.Add(ctx, next)
				}
				info.UnschedulablePlugins = sets.New(names.PluginQueue)
				if err := r.AddUnschedulableIfNotPresent(logger, info, r.SchedulingCycle()); err != nil {
					t.Fatal(err)
				}
				if !d.waits(info.Pod) && what != "replaced in its cycle" {
					let(info.Pod)
				}
			case pod == nil:
			case what == "forget": // nobody says that it may be scheduled
				kept := r.pods[nameOf(pod)] != nil
				d.release(pod.UID, true)
				found := r.needless()
				if kept != slices.ContainsFunc(found, func(p *v1.Pod) bool { return p.UID == pod.UID }) {
					t.Fatalf("in the room %v, %d found", kept, len(found))
				}
				if r.letIn(logger, found); !kept {
					let(pod)
				}
			case what == "edit" || what == "free" || what == "replace":
				edited := pod.DeepCopy()
				edited.ResourceVersion = fmt.Sprint(uid, "-", len(pod.ResourceVersion))
				edited.Labels["edited"] += "x"
				if what == "free" {
					edited.Labels["free"] = "yes"
				}
				if what == "replace" && d.waits(pod) { // its deletion was missed
					d.delete(pod.UID)
					uid++
					edited.UID = types.UID(strconv.Itoa(uid))
				}
				now[name] = edited
				first := rapid.Bool().Draw(t, "the engine is first") && what == "free"
				if first {
					let(edited)
				}
				r.Update(ctx, pod, edited)
				if what == "free" && !first {
					let(edited)
				}
			case what == "delete":
				delete(now, name)
				d.delete(pod.UID)
				ghosts = append(ghosts, pod)
				r.Delete(pod)
			case what == "release":
				d.release(pod.UID, true)
				let(pod)
			case what == "activate": // without a reason
				let(pod)
			}
			active := map[string]*v1.Pod{}
			for _, p := range append(r.PodsInActiveQ(), r.PodsInBackoffQ()...) { // the latter in a second
				active[p.Name] = p
			}
			inside, _ := r.PendingPods()
			if len(inside)+len(r.pods) != len(now) || count.n != len(r.pods) {
				t.Fatalf("%d in the queue, %d in the room, gauge %d; there are %d", len(inside), len(r.pods), count.n, len(now))
			}
			for _, p := range inside {
				if !d.waits(p) {
					entered[p.UID] = true
				}
				if !entered[p.UID] {
					t.Fatalf("%s is in the queue and was never let in", p.Name)
				}
			}
			for name, p := range now {
				if kept := r.pods[nameOf(p)]; kept != nil && (kept != p || !d.waits(p)) {
					t.Fatalf("the room keeps %v, waits %v", kept == p, d.waits(p))
				}
				if !d.waits(p) && (active[name] == nil || active[name].Labels["edited"] != p.Labels["edited"]) {
					t.Fatalf("%s may be scheduled and is not in the active queue as it is", name)
				}
			}
		}
	})
}

// inside is a queue that takes note of who came in.
type inside struct {
	internalqueue.SchedulingQueue
	pods []*v1.Pod
}

func (q *inside) Run(klog.Logger)                    {}
func (q *inside) Close()                             {}
func (q *inside) Add(_ context.Context, pod *v1.Pod) { q.pods = append(q.pods, pod) }

// TestWaitingRoomIsSearched: a pod that nobody lets in, though it need not wait any more, is let
// in by itself; the others stay.
func TestWaitingRoomIsSearched(t *testing.T) {
	metrics.Register()
	synctest.Test(t, func(t *testing.T) {
		d, q := newDoorkeeper(), &inside{}
		r := newWaitingRoom(q, d.waits, d.gone)
		pod, other := gpuPod("p", 1), gpuPod("q", 1)
		r.Add(t.Context(), pod)
		r.Add(t.Context(), other)
		r.Run(klog.New(nil))
		defer r.Close()
		d.release(pod.UID, true)
		count := func() (in, kept int) {
			r.mu.Lock()
			defer r.mu.Unlock()
			return len(q.pods), len(r.pods)
		}
		time.Sleep(lookEvery + time.Second)
		if in, _ := count(); in > 0 {
			t.Error("let in at first sight: it may be on its way")
		}
		time.Sleep(onItsWay)
		if in, kept := count(); in != 1 || q.pods[0] != pod || kept != 1 {
			t.Errorf("%d were let in, %d are in the room", in, kept)
		}
	})
}

// TestWaitingRoomRaces: pods are released while they come, and none stays in the room.
func TestWaitingRoomRaces(t *testing.T) {
	d := newDoorkeeper()
	r := newRoom(t.Context(), d)
	defer r.Close()
	const pods = 500
	var all sync.WaitGroup
	for i := range pods {
		pod := gpuPod(fmt.Sprintf("p%d", i), 1)
		pod.UID = types.UID(strconv.Itoa(i))
		all.Go(func() { r.Add(t.Context(), pod) })
		all.Go(func() {
			d.release(pod.UID, true)
			r.Activate(klog.FromContext(t.Context()), map[string]*v1.Pod{pod.Name: pod})
		})
	}
	all.Wait()
	if in := len(r.PodsInActiveQ()); in != pods || len(r.pods) > 0 {
		t.Errorf("%d in the active queue, %d in the room", in, len(r.pods))
	}
}
