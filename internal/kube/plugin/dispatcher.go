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

// dispatcher carries out what the cluster's engine decides: it is the only one who
// puts pods of gangs and queues into kube-scheduler's queue.
type dispatcher struct {
	cluster *state.Cluster
	handle  fwk.Handle
	teller  *teller
	begin   sync.Once
}

// DispatchWith starts the dispatcher when the scheduler asks for its first pod: only
// then does this process lead.
func (s *Shared) DispatchWith(ctx context.Context, sched *scheduler.Scheduler) {
	if s.cluster == nil {
		return
	}
	d := &dispatcher{cluster: s.cluster, handle: s.handle, teller: newTeller(s.handle, s.standsBack)}
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
	go d.teller.run(ctx)
	for {
		next := time.NewTimer(d.turn(ctx))
		select {
		case <-ctx.Done():
		case <-next.C:
		case <-d.cluster.Kicked():
		}
		next.Stop()
		if ctx.Err() != nil {
			return
		}
	}
}

// turn makes one decision and carries it out. It returns when to make the next one
// though nothing happens.
func (d *dispatcher) turn(ctx context.Context) time.Duration {
	t := d.cluster.Dispatch(time.Now())
	rejectAll(d.handle, t.Reject)
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
	if len(t.Look) > 0 {
		go d.look(ctx, t.Look)
	}
	d.teller.tell(t.Conditions)
	if len(t.Evict) > 0 {
		go d.evictAll(ctx, t.Evict) // others need not wait for it
	}
	return t.Next
}

// look finds members of gangs that have succeeded. It is asked once for a gang that
// waits for members, and again when it has lost some.
func (d *dispatcher) look(ctx context.Context, gangs []state.Look) {
	for _, g := range gangs {
		list, err := d.handle.ClientSet().CoreV1().Pods(g.Namespace).List(ctx, metav1.ListOptions{
			LabelSelector: g.Labels.String(), FieldSelector: "status.phase=" + string(v1.PodSucceeded),
			ResourceVersion: "0", // the API server's cache will do
		})
		if err != nil {
			klog.FromContext(ctx).Error(err, "Who of a gang has succeeded is not known", "gang", g.Gang)
			list = &v1.PodList{}
		}
		d.cluster.Succeeded(g, list.Items, err == nil)
	}
}

// evictAll evicts victims until one may not go: then it would not help.
func (d *dispatcher) evictAll(ctx context.Context, victims []state.Victim) {
	for _, v := range victims {
		if !d.evict(ctx, v) {
			return
		}
	}
}

// evict asks the API server to evict a pod: it keeps disruption budgets and grace
// periods. A refusal is not retried here: the engine proposes again, or others.
func (d *dispatcher) evict(ctx context.Context, v state.Victim) bool {
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
		return false
	}
	return true
}
