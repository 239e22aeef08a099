package plugin

import (
	"context"
	"slices"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler"
	"k8s.io/kubernetes/pkg/scheduler/framework"

	kubeengine "github.com/tangram-dev/tangram/internal/kube/engine"
	"github.com/tangram-dev/tangram/internal/kube/metrics"
	"github.com/tangram-dev/tangram/internal/kube/workload"
)

// loop steps the engine and carries out what it decides: it is the only one that puts
// pods of the engine into kube-scheduler's queue.
type loop struct {
	engine    *kubeengine.Engine
	handle    fwk.Handle
	client    kubernetes.Interface // client writes what only a leader may
	sched     *scheduler.Scheduler
	teller    *teller
	fence     *fence
	audit     *auditor
	keeping   *keeping   // keeping restores what was learned before the first step
	demander  *demander  // demander tells gpu-controller what autoscalers are asked for; nil: nothing
	recorders *recorders // recorders say which scheduler an event comes from
	begin     sync.Once
	leads     chan struct{} // closed when this process leads
}

// RunLoop follows events at once, and starts to decide when the scheduler asks for its
// first pod: only then does this process lead.
func (s *Shared) RunLoop(ctx context.Context, sched *scheduler.Scheduler) {
	if s.engine == nil {
		return
	}
	l := &loop{engine: s.engine, handle: s.handle, client: s.writer(s.handle), sched: sched, teller: newTeller(s.engine, s.handle, s.standsBack, &s.recorders), fence: s.fence, audit: &s.audit, keeping: s.keeping, recorders: &s.recorders, leads: make(chan struct{})}
	if s.autoscales.Load() {
		l.demander = newDemander(s.handle.ClientSet(), s.fence.check)
	}
	next := sched.NextPod
	sched.NextPod = func(logger klog.Logger) (*framework.QueuedPodInfo, error) {
		l.begin.Do(func() { close(l.leads) })
		return next(logger)
	}
	if s.audit.on() {
		s.engine.WatchRefusals()
		go s.audit.log.Run(ctx)
	}
	go l.run(ctx)
	go wait.UntilWithContext(ctx, l.sample, sampleEvery)
}

func (l *loop) run(ctx context.Context) {
	if !l.engine.WaitForSync(ctx) || !l.follow(ctx) {
		return
	}
	l.keeping.begin(ctx)
	go l.teller.run(ctx)
	if l.demander != nil {
		go l.demander.run(ctx)
	}
	for ctx.Err() == nil {
		began := time.Now()
		next := l.step(ctx)
		// Steps without a pause would hold the engine's lock nearly always: cycles and
		// questions have it for as long as the step took.
		pause := min(time.Since(began), longestPause)
		if sleep(ctx, pause); next > pause {
			l.await(ctx, next-pause)
		}
	}
}

// longestPause is the most that a decision is delayed for that.
const longestPause = 5 * time.Millisecond

// sleep waits, or until the context ends.
func sleep(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	}
}

// await waits until something happens, and not longer than that.
func (l *loop) await(ctx context.Context, most time.Duration) {
	timer := time.NewTimer(most)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	case <-l.engine.Kicked():
	}
}

// follow keeps the ledger up to date until this process leads. Pods that turn out not to be
// the engine's go into the queue, from which only a leader takes pods.
func (l *loop) follow(ctx context.Context) bool {
	for {
		select {
		case <-ctx.Done():
			return false
		case <-l.leads:
			return true
		case <-l.engine.Kicked():
			l.activate(ctx, l.engine.Sync())
		}
	}
}

// step makes one decision and carries it out. It returns when to make the next one
// though nothing happens.
func (l *loop) step(ctx context.Context) time.Duration {
	t := l.engine.Step()
	stopAll(l.handle, t.Stop)
	l.activate(ctx, t.Activate)
	for _, p := range t.Requeue {
		if l.queued(p) {
			continue // other pods are before it, or another plugin keeps it out
		}
		klog.FromContext(ctx).Info("Released pod did not come to its scheduling cycle and is queued again", "pod", klog.KObj(p))
		l.sched.SchedulingQueue.Add(ctx, p)
	}
	if len(t.Lookups) > 0 {
		go l.lookUp(ctx, t.Lookups)
	}
	l.teller.tell(t.Notices)
	l.audit.refused(t.Refusals)
	l.demander.tell(t.Demand)
	if len(t.Evict)+len(t.Heal) > 0 {
		go l.evictAll(ctx, t.Heal, t.Evict) // starts need not wait for it
	}
	if len(t.GiveBack) > 0 {
		go l.giveBack(ctx, t.GiveBack)
	}
	return t.Next
}

// activate puts pods into the active part of kube-scheduler's queue.
func (l *loop) activate(ctx context.Context, list []*v1.Pod) {
	if len(list) == 0 {
		return
	}
	pods := make(map[string]*v1.Pod, len(list))
	for _, p := range list {
		pods[p.Namespace+"/"+p.Name] = p
	}
	l.sched.SchedulingQueue.Activate(klog.FromContext(ctx), pods)
}

// queued says whether a pod is in a part of kube-scheduler's queue, or in its cycle.
func (l *loop) queued(pod *v1.Pod) bool {
	if _, ok := l.sched.SchedulingQueue.GetPod(pod.Name, pod.Namespace); ok {
		return true
	}
	return slices.ContainsFunc(l.sched.SchedulingQueue.InFlightPods(), func(p *v1.Pod) bool { return p.UID == pod.UID })
}

// lookUp finds members of gangs that have succeeded. It is asked once for a gang that
// waits for members, and again when it has lost some.
func (l *loop) lookUp(ctx context.Context, gangs []workload.Lookup) {
	for _, g := range gangs {
		list, err := l.handle.ClientSet().CoreV1().Pods(g.Namespace).List(ctx, metav1.ListOptions{
			LabelSelector: g.Labels.String(), FieldSelector: "status.phase=" + string(v1.PodSucceeded),
			ResourceVersion: "0", // the API server's cache will do
		})
		if err != nil {
			klog.FromContext(ctx).Error(err, "Succeeded members of a gang not listed", "gang", g.Gang)
			list = &v1.PodList{}
		}
		l.engine.Succeeded(g, list.Items, err == nil)
	}
}

// evictAtOnce is how many victims are evicted at the same time.
const evictAtOnce = 32

// evictAll evicts victims: first those that a budget may refuse, one by one until one is
// refused; then the others at once, so that no gang runs on with half of its members.
// Pods whose devices older pods hold are deleted before all, whatever budgets say: two
// containers must not run on one device.
func (l *loop) evictAll(ctx context.Context, heal, victims []kubeengine.Victim) {
	for _, v := range heal {
		if !l.delete(ctx, v) {
			l.engine.HealFailed(v)
		}
	}
	var atOnce []kubeengine.Victim
	for _, v := range victims {
		if !v.Guarded {
			atOnce = append(atOnce, v)
		} else if !l.evict(ctx, v) {
			return
		}
	}
	workqueue.ParallelizeUntil(ctx, evictAtOnce, len(atOnce), func(i int) { l.evict(ctx, atOnce[i]) })
}

// delete removes a pod whose record cannot be honoured.
func (l *loop) delete(ctx context.Context, v kubeengine.Victim) bool {
	if l.fence.check() != nil {
		return false
	}
	err := l.client.CoreV1().Pods(v.Pod.Namespace).Delete(ctx, v.Pod.Name, metav1.DeleteOptions{Preconditions: metav1.NewUIDPreconditions(string(v.Pod.UID))})
	switch {
	case err == nil:
		l.recorders.of(v.Pod.Spec.SchedulerName).Eventf(v.Pod, nil, v1.EventTypeWarning, "Evicted", "Healing", "two pods were bound to one device: %s", v.Why)
		l.audit.evicted(v, "Contested")
	case apierrors.IsNotFound(err) || apierrors.IsConflict(err):
	default:
		klog.FromContext(ctx).Error(err, "Pod on devices that another pod holds not deleted", "pod", klog.KObj(v.Pod))
		return false
	}
	return true
}

// evict asks the API server to evict a pod: it keeps disruption budgets and grace
// periods. A refusal is not retried here: the engine proposes again, or others.
func (l *loop) evict(ctx context.Context, v kubeengine.Victim) bool {
	if l.fence.check() != nil {
		l.engine.EvictionRefused(v)
		return false
	}
	err := l.client.CoreV1().Pods(v.Pod.Namespace).EvictV1(ctx, &policyv1.Eviction{
		ObjectMeta:    metav1.ObjectMeta{Namespace: v.Pod.Namespace, Name: v.Pod.Name},
		DeleteOptions: &metav1.DeleteOptions{Preconditions: metav1.NewUIDPreconditions(string(v.Pod.UID))},
	})
	switch {
	case err == nil:
		metrics.Preempted(v.Queue, v.Cause, v.GPUHours)
		l.recorders.of(v.Pod.Spec.SchedulerName).Eventf(v.Pod, nil, v1.EventTypeNormal, "Preempted", "Preempting", "%s", v.Why)
		l.audit.evicted(v, "Preempted")
	case apierrors.IsNotFound(err) || apierrors.IsConflict(err):
	default:
		klog.FromContext(ctx).Info("Victim not evicted", "pod", klog.KObj(v.Pod), "why", v.Why, "for", v.For, "cause", err.Error())
		l.engine.EvictionRefused(v)
		return false
	}
	return true
}
