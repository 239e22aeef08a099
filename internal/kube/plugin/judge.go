package plugin

import (
	"context"
	"slices"

	v1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/util"

	"github.com/tangram-dev/tangram/core/model"
	kubeengine "github.com/tangram-dev/tangram/internal/kube/engine"
	"github.com/tangram-dev/tangram/internal/kube/metrics"
)

// judge asks kube-scheduler's filters about one node. A refusal is late when the node is not
// known yet, or when pods are counted there that are gone.
func (s *Shared) judge(ctx context.Context, f framework.Framework, cs fwk.CycleState, pod *v1.Pod, node model.NodeID) (kubeengine.Verdict, bool) {
	info, err := f.SnapshotSharedLister().NodeInfos().Get(string(node))
	if err != nil {
		return kubeengine.Verdict{Node: node, Said: "node(s) are not known yet", Late: true}, false
	}
	status := s.takes(ctx, f, cs, pod, info)
	if status.IsSuccess() {
		return kubeengine.Verdict{}, true
	}
	late := slices.ContainsFunc(info.GetPods(), func(p fwk.PodInfo) bool { return s.engine.Gate().Gone(p.GetPod()) })
	if !late {
		metrics.Vetoed(status.Plugin())
	}
	return kubeengine.Verdict{Node: node, Said: status.Message(), Late: late}, false
}

// takes is what kube-scheduler's filters say of a node and a pod. The engine may have heard
// of the end of a pod before kube-scheduler's cache has: pods that are gone are not counted,
// or a start would be undone that is right, and its place could go to another pod.
func (s *Shared) takes(ctx context.Context, f framework.Framework, cs fwk.CycleState, pod *v1.Pod, node fwk.NodeInfo) *fwk.Status {
	status := f.RunFilterPluginsWithNominatedPods(ctx, cs, pod, node)
	if status.IsSuccess() {
		return status
	}
	if without, state := s.withoutGone(ctx, f, cs, pod, node); without != nil {
		return f.RunFilterPluginsWithNominatedPods(ctx, state, pod, without)
	}
	return status
}

// withoutGone returns a node without the pods that are gone, and the cycle's state for it;
// nil when there are none. Both are copies. A pod that wants a host port waits until
// kube-scheduler has heard of the end of pods that had one: its cache keeps one entry per port
// and not one per pod, and would drop that of the new pod with the old one.
func (s *Shared) withoutGone(ctx context.Context, f framework.Framework, cs fwk.CycleState, pod *v1.Pod, info fwk.NodeInfo) (without fwk.NodeInfo, state fwk.CycleState) {
	for _, p := range info.GetPods() {
		if !s.engine.Gate().Gone(p.GetPod()) {
			continue
		}
		if without == nil {
			without, state = info.Snapshot(), cs.Clone()
		}
		if wantsPort(pod) && wantsPort(p.GetPod()) {
			return nil, nil
		}
		if without.RemovePod(klog.FromContext(ctx), p.GetPod()) != nil || !f.RunPreFilterExtensionRemovePod(ctx, state, pod, p, without).IsSuccess() {
			return nil, nil // what the filters said of all pods counts
		}
	}
	return without, state
}

func wantsPort(pod *v1.Pod) bool { return len(util.GetHostPorts(pod)) > 0 }
