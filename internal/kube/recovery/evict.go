package recovery

import (
	"context"

	v1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/klog/v2"

	"github.com/tangram-dev/tangram/core/recovery"
)

// evict asks the API server to evict pods: it keeps disruption budgets and grace periods.
// Several pods are a gang that goes as a whole: first it is asked of each whether it may
// go, so that a budget which guards one of them keeps all.
func (r *Recovery) evict(ctx context.Context, a recovery.Action) error {
	var pods []*v1.Pod
	for _, uid := range a.Pods {
		if p := r.podOf(uid); p != nil && p.DeletionTimestamp == nil {
			pods = append(pods, p)
		}
	}
	if len(pods) > 1 {
		for _, p := range pods {
			if err := r.evictOne(ctx, p, true); err != nil {
				r.refused(ctx, a, p, err)
				return err
			}
		}
	}
	var first error
	for _, p := range pods {
		switch err := r.evictOne(ctx, p, false); {
		case err == nil:
			klog.FromContext(ctx).Info("Pod evicted", "pod", klog.KObj(p), "why", a.Why)
			r.Metrics.evicted(a.Cause, "evicted")
			r.event(p, v1.EventTypeWarning, "EvictedByRecovery", a.Why)
		case first == nil:
			first = err
			fallthrough
		default:
			r.refused(ctx, a, p, err)
		}
	}
	return first
}

func (r *Recovery) refused(ctx context.Context, a recovery.Action, p *v1.Pod, err error) {
	result := "failed"
	if apierrors.IsTooManyRequests(err) {
		result = "refused" // by a disruption budget
	}
	klog.FromContext(ctx).Info("Pod not evicted, will be retried", "pod", klog.KObj(p), "why", a.Why, "err", err.Error())
	r.Metrics.evicted(a.Cause, result)
	r.once("refused/"+string(p.UID), func() {
		r.event(p, v1.EventTypeWarning, "EvictionRefused", "should be evicted ("+a.Why+"), but: "+err.Error())
	})
}

// evictOne asks for exactly this pod, not for a later one of the same name.
func (r *Recovery) evictOne(ctx context.Context, p *v1.Pod, dry bool) error {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	o := &metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &p.UID}}
	if dry {
		o.DryRun = []string{metav1.DryRunAll}
	}
	return unlessGone(r.Client.CoreV1().Pods(p.Namespace).EvictV1(ctx, &policyv1.Eviction{ObjectMeta: metav1.ObjectMeta{Namespace: p.Namespace, Name: p.Name}, DeleteOptions: o}))
}
