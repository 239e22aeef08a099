package plugin

import (
	"context"

	v1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/tangram-dev/tangram/internal/dialect"
	"github.com/tangram-dev/tangram/internal/kube/state"
)

// hints says which events may let a pod in that GPUFilter or GPUReserve refused.
type hints struct {
	cluster *state.Cluster
	profile *profile
}

// EventsToRegister names what can make a refused pod fit: a holder that goes, a
// node that comes or changes. GPUNodes are followed by the shared state itself.
func (h hints) EventsToRegister(context.Context) ([]fwk.ClusterEventWithHint, error) {
	return []fwk.ClusterEventWithHint{
		{Event: fwk.ClusterEvent{Resource: fwk.Pod, ActionType: fwk.Delete}, QueueingHintFn: h.afterPodGone},
		{Event: fwk.ClusterEvent{Resource: fwk.Node, ActionType: fwk.Add | fwk.UpdateNodeAllocatable | fwk.UpdateNodeLabel}, QueueingHintFn: h.afterNodeChange},
	}, nil
}

// afterPodGone wakes a pod if it fits now. The event may arrive here before it
// arrives at the ledger's own handler, so the ledger is brought up to date
// first; doing that twice is harmless.
func (h hints) afterPodGone(_ klog.Logger, pod *v1.Pod, gone, _ any) (fwk.QueueingHint, error) {
	if old, ok := gone.(*v1.Pod); ok {
		if claims, _ := dialect.Claims(old); len(claims) == 0 {
			return fwk.QueueSkip, nil
		}
		h.cluster.SyncPod(old)
	}
	return h.hint(pod), nil
}

func (h hints) afterNodeChange(_ klog.Logger, pod *v1.Pod, _, now any) (fwk.QueueingHint, error) {
	if node, ok := now.(*v1.Node); ok {
		h.cluster.SyncNode(node.Name)
	}
	return h.hint(pod), nil
}

func (h hints) hint(pod *v1.Pod) fwk.QueueingHint {
	r, err := h.profile.request(pod)
	if err != nil || r == nil {
		// Only a change of the pod itself can help it.
		return fwk.QueueSkip
	}
	if h.cluster.Fits(pod, r) {
		return fwk.Queue
	}
	return fwk.QueueSkip
}
