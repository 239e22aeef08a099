package plugin

import (
	"context"
	"sync"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	podutil "k8s.io/kubernetes/pkg/api/v1/pod"

	"github.com/tangram-dev/tangram/internal/kube/report"
)

// teller writes into pods' conditions why they wait, one after the other, when bindings
// leave room. kube-scheduler does that in its one scheduling cycle: with thousands of
// pods that wait, those that can start would wait for theirs to be told.
type teller struct {
	api       reachability
	handle    fwk.Handle
	recorders *recorders
	client    kubernetes.Interface

	mu sync.Mutex
	// written are pods as the last write of this teller left them, until the informer has
	// them: a reason that is back to what it was must not be taken for told.
	written map[types.UID]*v1.Pod
	// news is what is still to be written, the latest of each pod; order is theirs.
	news  map[types.UID]report.Notice
	order []types.UID
	some  chan struct{}
}

func newTeller(api reachability, h fwk.Handle, client kubernetes.Interface, r *recorders) *teller {
	if client == nil {
		client = h.ClientSet()
	}
	return &teller{api: api, handle: h, recorders: r, client: client, written: map[types.UID]*v1.Pod{}, news: map[types.UID]report.Notice{}, some: make(chan struct{}, 1)}
}

// reachability hears whether the API server could be written to.
type reachability interface {
	Reachable()
	Unreachable()
}

// tell queues news. It does not wait.
func (t *teller) tell(news []report.Notice) {
	if len(news) == 0 {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, w := range news {
		if _, queued := t.news[w.Pod.UID]; !queued {
			t.order = append(t.order, w.Pod.UID)
		}
		t.news[w.Pod.UID] = w
	}
	select {
	case t.some <- struct{}{}:
	default:
	}
}

func (t *teller) next() (w report.Notice, ok bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.order) == 0 {
		return w, false
	}
	uid := t.order[0]
	t.order = t.order[1:]
	w = t.news[uid]
	delete(t.news, uid)
	return w, true
}

func (t *teller) run(ctx context.Context) {
	for ctx.Err() == nil {
		w, ok := t.next()
		if ok {
			t.write(ctx, w)
			continue
		}
		select {
		case <-ctx.Done():
		case <-t.some:
		}
	}
}

// write makes a pod's condition say why it waits. The pod's version must be the one
// that was looked at: a late word must not undo what a binding says. What fails is
// found missing when the reason is looked for next.
func (t *teller) write(ctx context.Context, w report.Notice) {
	pods := t.client.CoreV1().Pods(w.Pod.Namespace)
	now, err := t.latest(w.Pod)
	for range 3 {
		if err != nil || now.UID != w.Pod.UID || now.Spec.NodeName != "" || now.DeletionTimestamp != nil {
			break
		}
		now = now.DeepCopy()
		if !podutil.UpdatePodCondition(&now.Status, &v1.PodCondition{
			Type: v1.PodScheduled, Status: v1.ConditionFalse, ObservedGeneration: now.Generation, Reason: w.Reason, Message: w.Text,
		}) {
			return // it says so
		}
		var done *v1.Pod
		if done, err = pods.UpdateStatus(ctx, now, metav1.UpdateOptions{}); err == nil {
			t.written[w.Pod.UID] = done
			t.api.Reachable()
			t.event(now, w)
			return
		}
		if !apierrors.IsConflict(err) {
			break
		}
		now, err = pods.Get(ctx, w.Pod.Name, metav1.GetOptions{})
	}
	switch {
	case err == nil || apierrors.IsNotFound(err) || ctx.Err() != nil:
	case unreachable(err):
		t.api.Unreachable()
		fallthrough
	default:
		klog.FromContext(ctx).Error(err, "Reason for waiting not written to the pod's condition", "pod", klog.KObj(w.Pod))
	}
}

// maxWritten bounds how many pods are remembered that the informer has not confirmed.
const maxWritten = 10_000

// latest is a pod as the informer has it, or as it was written since.
func (t *teller) latest(pod *v1.Pod) (*v1.Pod, error) {
	seen, err := t.handle.SharedInformerFactory().Core().V1().Pods().Lister().Pods(pod.Namespace).Get(pod.Name)
	written := t.written[pod.UID]
	if err != nil || written == nil {
		return seen, err
	}
	if seen.ResourceVersion == written.ResourceVersion || seen.Spec.NodeName != "" || len(t.written) > maxWritten {
		delete(t.written, pod.UID)
		return seen, nil
	}
	return written, nil // a conflict tells if the pod has changed since
}

// event says on a pod's events what its condition says.
func (t *teller) event(pod *v1.Pod, w report.Notice) {
	kind, reason := v1.EventTypeNormal, w.Reason
	if reason == v1.PodReasonUnschedulable {
		kind, reason = v1.EventTypeWarning, "FailedScheduling"
	}
	if w.Event {
		t.recorders.of(pod.Spec.SchedulerName).Eventf(pod, nil, kind, reason, "Scheduling", "%s", w.Text)
	}
}
