package plugin

import (
	"context"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler"
	"k8s.io/kubernetes/pkg/scheduler/framework"

	"github.com/tangram-dev/tangram/internal/kube/state"
)

// dispatchEvery is how long decisions are left alone when nothing happens: time
// itself changes things (ages, reservations whose time came).
const dispatchEvery = 5 * time.Second

// dispatcher carries out what the cluster's engine decides: it is the only one who
// puts pods of gangs and queues into kube-scheduler's queue.
type dispatcher struct {
	cluster *state.Cluster
	handle  fwk.Handle
	begin   sync.Once
}

// DispatchWith starts the dispatcher when the scheduler asks for its first pod: only
// then does this process lead.
func (s *Shared) DispatchWith(ctx context.Context, sched *scheduler.Scheduler) {
	if s.cluster == nil {
		return
	}
	d := &dispatcher{cluster: s.cluster, handle: s.handle}
	next := sched.NextPod
	sched.NextPod = func(logger klog.Logger) (*framework.QueuedPodInfo, error) {
		d.begin.Do(func() { go d.run(ctx) })
		return next(logger)
	}
}

func (d *dispatcher) run(ctx context.Context) {
	if !d.cluster.WaitForSync(ctx) {
		return
	}
	tick := time.NewTicker(dispatchEvery)
	defer tick.Stop()
	for {
		d.turn(ctx)
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		case <-d.cluster.Kicked():
		}
	}
}

// turn makes one decision and carries it out.
func (d *dispatcher) turn(ctx context.Context) {
	t := d.cluster.Dispatch(time.Now())
	if len(t.Wake) > 0 {
		pods := make(map[string]*v1.Pod, len(t.Wake))
		for _, p := range t.Wake {
			pods[p.Namespace+"/"+p.Name] = p
		}
		d.handle.Activate(klog.FromContext(ctx), pods)
	}
	for _, w := range t.News {
		d.handle.EventRecorder().Eventf(w.Pod, nil, v1.EventTypeNormal, w.Reason, "Scheduling", "%s", w.Text)
	}
	for _, v := range t.Evict {
		d.evict(ctx, v)
	}
}

// evict asks the API server to evict a pod: it keeps disruption budgets and grace
// periods. A refusal is not retried here: the engine proposes again, or others.
func (d *dispatcher) evict(ctx context.Context, v state.Victim) {
	uid := v.Pod.UID
	err := d.handle.ClientSet().CoreV1().Pods(v.Pod.Namespace).EvictV1(ctx, &policyv1.Eviction{
		ObjectMeta:    metav1.ObjectMeta{Namespace: v.Pod.Namespace, Name: v.Pod.Name},
		DeleteOptions: &metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &uid}},
	})
	switch {
	case err == nil:
		d.handle.EventRecorder().Eventf(v.Pod, nil, v1.EventTypeNormal, "Preempted", "Preempting", "evicted for %s", string(v.For))
	case apierrors.IsNotFound(err) || apierrors.IsConflict(err):
	default:
		klog.FromContext(ctx).Info("A victim may not be evicted now", "pod", klog.KObj(v.Pod), "for", v.For, "cause", err.Error())
		d.cluster.Spared(v)
	}
}
