package plugin

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"
	"k8s.io/kubernetes/pkg/scheduler"
	internalqueue "k8s.io/kubernetes/pkg/scheduler/backend/queue"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/metrics"
)

// waitingRoom is kube-scheduler's queue with a room before it, for pods that wait for the
// engine. In the queue itself they would be looked at with every pod that is bound: with 5,000
// of them that is a third of a scheduler's CPU time.
//
// A pod is in the room or in the queue, never in both. Once inside it stays there: one that was
// released and is put back waits in the queue, as GPUQueue's PreEnqueue says.
type waitingRoom struct {
	internalqueue.SchedulingQueue
	waits func(*v1.Pod) bool
	// gone says whether a pod is gone, by the store from which the queue's events come.
	gone func(*v1.Pod) bool
	// gated is kube-scheduler's own gauge of pods that wait outside.
	gated  metrics.MetricRecorder
	closed chan struct{} // closed ends what Run began

	// mu is held while a pod is let in. Nothing that holds the queue's lock asks for it.
	mu   sync.Mutex
	pods map[types.NamespacedName]*v1.Pod
}

// KeepOut builds the room before a scheduler's queue. Events must not have begun.
func (s *Shared) KeepOut(sched *scheduler.Scheduler) {
	if s.engine != nil {
		sched.SchedulingQueue = newWaitingRoom(sched.SchedulingQueue, s.engine.Gate().Waits, s.engine.Gate().Gone)
	}
}

func newWaitingRoom(queue internalqueue.SchedulingQueue, waits, gone func(*v1.Pod) bool) *waitingRoom {
	return &waitingRoom{
		SchedulingQueue: queue, waits: waits, gone: gone,
		gated: metrics.NewGatedPodsRecorder(), closed: make(chan struct{}), pods: map[types.NamespacedName]*v1.Pod{},
	}
}

func nameOf(pod *v1.Pod) types.NamespacedName {
	return types.NamespacedName{Namespace: pod.Namespace, Name: pod.Name}
}

// Add takes in a new pod, or one whose release was lost.
func (r *waitingRoom) Add(ctx context.Context, pod *v1.Pod) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.add(ctx, pod)
}

// add takes in a pod of which the queue knows nothing. The caller holds the lock.
func (r *waitingRoom) add(ctx context.Context, pod *v1.Pod) {
	if r.gone(pod) {
		return // its deletion may have been told before the loop took it for lost
	}
	r.leave(pod)
	if r.waits(pod) {
		r.pods[nameOf(pod)] = pod
		r.gated.Inc()
		return
	}
	r.SchedulingQueue.Add(ctx, pod)
}

// Update takes note of an edit: it may be that the engine does not place the pod any more. If
// it is another pod of that name, the deletion of the one before was missed.
func (r *waitingRoom) Update(ctx context.Context, before, pod *v1.Pod) {
	r.mu.Lock()
	defer r.mu.Unlock()
	another := before != nil && before.UID != pod.UID
	if another {
		r.SchedulingQueue.Delete(before)
	}
	if another || r.leave(pod) {
		r.add(ctx, pod)
	} else {
		r.SchedulingQueue.Update(ctx, before, pod)
	}
}

// Delete removes a pod.
func (r *waitingRoom) Delete(pod *v1.Pod) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.leave(pod)
	r.SchedulingQueue.Delete(pod)
}

// Activate lets pods in that the engine has released, or does not place.
func (r *waitingRoom) Activate(logger klog.Logger, pods map[string]*v1.Pod) {
	r.mu.Lock()
	defer r.mu.Unlock()
	ctx := klog.NewContext(context.Background(), logger)
	inside := make(map[string]*v1.Pod, len(pods))
	for key, pod := range pods {
		kept := r.pods[nameOf(pod)]
		if kept == nil || kept.UID != pod.UID {
			inside[key] = pod
			continue
		}
		// Later edits will be told; but the engine may have seen the edit that frees the pod.
		if r.waits(kept) {
			kept = pod
		}
		if r.waits(kept) {
			continue // the release was taken back meanwhile
		}
		r.leave(kept)
		r.SchedulingQueue.Add(ctx, kept)
	}
	if len(inside) > 0 {
		r.SchedulingQueue.Activate(logger, inside)
	}
}

// AddUnschedulableIfNotPresent puts a pod back whose cycle ended. The room has it if its
// cycle was taken for lost, or has another pod of that name if it was deleted.
func (r *waitingRoom) AddUnschedulableIfNotPresent(logger klog.Logger, info *framework.QueuedPodInfo, cycle int64) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if kept := r.pods[nameOf(info.Pod)]; kept != nil && kept.UID != info.Pod.UID {
		r.SchedulingQueue.Done(info.Pod.UID)
		return nil
	}
	r.leave(info.Pod)
	return r.SchedulingQueue.AddUnschedulableIfNotPresent(logger, info, cycle)
}

// lookEvery is how often the room is searched for pods that need not be there; one that was
// released is let in sooner than onItsWay.
const (
	lookEvery = time.Minute
	onItsWay  = 3 * time.Second
)

// Run also searches the room, as kube-scheduler's queue does with what has been in it for
// long: no pod may wait for ever because an activation was lost.
func (r *waitingRoom) Run(logger klog.Logger) {
	r.SchedulingQueue.Run(logger)
	go func() {
		for r.sleep(lookEvery) {
			if found := r.needless(); len(found) > 0 && r.sleep(onItsWay) {
				r.letIn(logger, found)
			}
		}
	}()
}

// Close ends what Run began.
func (r *waitingRoom) Close() {
	close(r.closed)
	r.SchedulingQueue.Close()
}

// sleep says whether the queue is still open after a time.
func (r *waitingRoom) sleep(d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-r.closed:
		return false
	case <-timer.C:
		return true
	}
}

// needless are pods in the room that need not wait. The lock is not held for as long as that
// takes, because the scheduler's events wait for it.
func (r *waitingRoom) needless() []*v1.Pod {
	r.mu.Lock()
	all := slices.Collect(maps.Values(r.pods))
	r.mu.Unlock()
	return slices.DeleteFunc(all, r.waits)
}

// letIn lets pods in that are still in the room and need not wait.
func (r *waitingRoom) letIn(logger klog.Logger, found []*v1.Pod) {
	forgotten := map[string]*v1.Pod{}
	r.mu.Lock()
	for _, pod := range found {
		if kept := r.pods[nameOf(pod)]; kept != nil && kept.UID == pod.UID && !r.waits(kept) {
			logger.Info("Pod was kept out of the scheduling queue though it need not wait", "pod", klog.KObj(kept))
			forgotten[nameOf(pod).String()] = kept
		}
	}
	r.mu.Unlock()
	if len(forgotten) > 0 {
		r.Activate(logger, forgotten)
	}
}

// leave says whether a pod of that name was in the room.
func (r *waitingRoom) leave(pod *v1.Pod) bool {
	if _, there := r.pods[nameOf(pod)]; !there {
		return false
	}
	delete(r.pods, nameOf(pod))
	r.gated.Dec()
	return true
}
