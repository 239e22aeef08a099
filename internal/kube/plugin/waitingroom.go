package plugin

import (
	"context"
	"sync"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"
	"k8s.io/kubernetes/pkg/scheduler"
	internalqueue "k8s.io/kubernetes/pkg/scheduler/backend/queue"
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
	// gated is kube-scheduler's own gauge of pods that wait outside.
	gated metrics.MetricRecorder

	// mu is held while a pod is let in: an activation comes before that or after it. Nothing
	// that holds the queue's lock asks for it.
	mu   sync.Mutex
	pods map[types.NamespacedName]*v1.Pod
}

// KeepOut builds the room before a scheduler's queue. Events must not have begun.
func (s *Shared) KeepOut(sched *scheduler.Scheduler) {
	if s.engine != nil {
		sched.SchedulingQueue = newWaitingRoom(sched.SchedulingQueue, s.engine.Waits)
	}
}

func newWaitingRoom(queue internalqueue.SchedulingQueue, waits func(*v1.Pod) bool) *waitingRoom {
	return &waitingRoom{SchedulingQueue: queue, waits: waits, gated: metrics.NewGatedPodsRecorder(), pods: map[types.NamespacedName]*v1.Pod{}}
}

func nameOf(pod *v1.Pod) types.NamespacedName {
	return types.NamespacedName{Namespace: pod.Namespace, Name: pod.Name}
}

// Add takes in a new pod, or one whose release was lost.
func (r *waitingRoom) Add(ctx context.Context, pod *v1.Pod) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.leave(pod)
	if r.waits(pod) {
		r.enter(pod)
		return
	}
	r.SchedulingQueue.Add(ctx, pod)
}

// Update takes note of an edit: it may be that the engine does not place the pod any more.
func (r *waitingRoom) Update(ctx context.Context, before, pod *v1.Pod) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.leave(pod) {
		r.SchedulingQueue.Update(ctx, before, pod)
		return
	}
	if r.waits(pod) {
		r.enter(pod)
		return
	}
	r.SchedulingQueue.Add(ctx, pod)
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
		// Edits after the one kept here will be told; but the engine may have seen the edit that
		// frees the pod before.
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

func (r *waitingRoom) enter(pod *v1.Pod) {
	r.pods[nameOf(pod)] = pod
	r.gated.Inc()
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
