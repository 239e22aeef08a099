package plugin

import (
	"context"

	v1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/tangram-dev/tangram/internal/dialect"
)

// EventsToRegister names what can make a refused pod fit: a holder that goes, a
// node that comes or changes. GPUNodes are followed by the shared state itself.
func (f *filter) EventsToRegister(context.Context) ([]fwk.ClusterEventWithHint, error) {
	return []fwk.ClusterEventWithHint{
		{Event: fwk.ClusterEvent{Resource: fwk.Pod, ActionType: fwk.Delete}, QueueingHintFn: f.afterPodGone},
		{Event: fwk.ClusterEvent{Resource: fwk.Node, ActionType: fwk.Add | fwk.UpdateNodeAllocatable | fwk.UpdateNodeLabel}, QueueingHintFn: f.afterNodeChange},
	}, nil
}

// afterPodGone wakes a pod if it fits now. The event may arrive here before it
// arrives at the ledger's own handler, so the ledger is brought up to date
// first; doing that twice is harmless.
func (f *filter) afterPodGone(_ klog.Logger, pod *v1.Pod, gone, _ any) (fwk.QueueingHint, error) {
	if old, ok := gone.(*v1.Pod); ok {
		if claims, _ := dialect.Claims(old); len(claims) == 0 {
			return fwk.QueueSkip, nil
		}
		f.cluster.SyncPod(old)
	}
	return f.hint(pod), nil
}

func (f *filter) afterNodeChange(_ klog.Logger, pod *v1.Pod, _, now any) (fwk.QueueingHint, error) {
	if node, ok := now.(*v1.Node); ok {
		f.cluster.SyncNode(node.Name)
	}
	return f.hint(pod), nil
}

func (f *filter) hint(pod *v1.Pod) fwk.QueueingHint {
	r, err := f.profile.request(pod)
	if err != nil || r == nil {
		// Only a change of the pod itself can help it.
		return fwk.QueueSkip
	}
	if f.cluster.Fits(pod, r) {
		return fwk.Queue
	}
	return fwk.QueueSkip
}
