package plugin

import (
	"context"
	"maps"
	"sync/atomic"

	v1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/tangram-dev/tangram/core/model"
	"github.com/tangram-dev/tangram/internal/kube/state"
)

// hints says which events may let a pod in that GPUFilter or GPUReserve refused. An
// event is about one node, so only that node is asked.
type hints struct {
	cluster *state.Cluster
	profile *profile
	// last is the object the ledger was last brought up to date with: the framework
	// asks about each event once for every waiting pod.
	last *atomic.Value
}

func newHints(c *state.Cluster, p *profile) hints { return hints{c, p, &atomic.Value{}} }

// EventsToRegister names what can make a refused pod fit: a holder that goes, a
// node that comes or changes, the pod's own wishes. GPUNodes, and holders a pod must
// be with, are followed by the shared state itself: kube-scheduler tells of a bound
// pod only those who wait for it by its own affinity.
func (h hints) EventsToRegister(context.Context) ([]fwk.ClusterEventWithHint, error) {
	return []fwk.ClusterEventWithHint{
		{Event: fwk.ClusterEvent{Resource: fwk.Pod, ActionType: fwk.Delete}, QueueingHintFn: h.afterPodGone},
		{Event: fwk.ClusterEvent{Resource: fwk.Pod, ActionType: fwk.Update}, QueueingHintFn: h.afterOwnEdit},
		{Event: fwk.ClusterEvent{Resource: fwk.Node, ActionType: fwk.Add | fwk.UpdateNodeAllocatable | fwk.UpdateNodeLabel | fwk.UpdateNodeAnnotation}, QueueingHintFn: h.afterNodeChange},
		{Event: fwk.ClusterEvent{Resource: fwk.Node, ActionType: fwk.Delete}, QueueingHintFn: h.afterNodeGone},
	}, nil
}

// upToDate brings the ledger up to date with an event's object, once per event.
func (h hints) upToDate(object any, sync func()) {
	if h.last.Swap(seen{object}) != any(seen{object}) {
		sync()
	}
}

// seen holds an object of any type: an atomic.Value must always hold the same type.
type seen struct{ object any }

// afterPodGone wakes a pod if it fits now where the other was. The event may arrive
// here before it arrives at the ledger's own handler, so the ledger is brought up to
// date first; doing that twice is harmless.
func (h hints) afterPodGone(_ klog.Logger, pod *v1.Pod, gone, _ any) (fwk.QueueingHint, error) {
	old, ok := gone.(*v1.Pod)
	if !ok {
		return fwk.Queue, nil
	}
	if old.Spec.NodeName == "" {
		return fwk.QueueSkip, nil
	}
	h.upToDate(old, func() { h.cluster.SyncPod(old) })
	return h.hint(pod, old.Spec.NodeName), nil
}

func (h hints) afterNodeChange(_ klog.Logger, pod *v1.Pod, _, now any) (fwk.QueueingHint, error) {
	node, ok := now.(*v1.Node)
	if !ok {
		return fwk.Queue, nil
	}
	h.upToDate(node, func() { h.cluster.SyncNode(node.Name) })
	return h.hint(pod, node.Name), nil
}

// afterNodeGone wakes a pod that had to be with somebody who was there.
func (h hints) afterNodeGone(_ klog.Logger, pod *v1.Pod, gone, _ any) (fwk.QueueingHint, error) {
	node, ok := gone.(*v1.Node)
	if !ok {
		return fwk.Queue, nil
	}
	r, err := h.profile.request(pod)
	if err != nil || r == nil || len(r.Affinity) == 0 {
		return fwk.QueueSkip, nil
	}
	h.upToDate(node, func() { h.cluster.SyncNode(node.Name) })
	return h.elsewhere(r), nil
}

// afterOwnEdit wakes a pod whose wishes (annotations, labels) were edited.
func (h hints) afterOwnEdit(_ klog.Logger, pod *v1.Pod, before, after any) (fwk.QueueingHint, error) {
	n, ok := after.(*v1.Pod)
	if !ok || n.UID != pod.UID {
		return fwk.QueueSkip, nil
	}
	if o, ok := before.(*v1.Pod); ok && maps.Equal(o.Annotations, n.Annotations) && maps.Equal(o.Labels, n.Labels) {
		return fwk.QueueSkip, nil
	}
	return fwk.Queue, nil
}

func (h hints) hint(pod *v1.Pod, node string) fwk.QueueingHint {
	r, err := h.profile.request(pod)
	if err != nil || r == nil {
		// Only a change of the pod itself can help it.
		return fwk.QueueSkip
	}
	if h.cluster.Fit(r, model.NodeID(node), nil) == nil {
		return fwk.Queue
	}
	return h.elsewhere(r)
}

// elsewhere: who leaves one node may free a pod everywhere, because it was the last
// one the pod had to be with.
func (h hints) elsewhere(r *model.Request) fwk.QueueingHint {
	if len(r.Affinity) > 0 && h.cluster.Fits(r) {
		return fwk.Queue
	}
	return fwk.QueueSkip
}
