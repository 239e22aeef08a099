package plugin

import (
	"context"
	"fmt"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler"
	"k8s.io/kubernetes/pkg/scheduler/framework"

	"github.com/tangram-dev/tangram/api/names"
	"github.com/tangram-dev/tangram/internal/dialect"
)

// toItsPlace schedules a pod whose place is planned: kube-scheduler's filters judge
// that node and no other. If they refuse, the whole batch is planned anew without it.
func (s *Shared) toItsPlace(ctx context.Context, f framework.Framework, cs fwk.CycleState, pod *v1.Pod, p *profile) (scheduler.ScheduleResult, error) {
	release := s.cluster.ReleaseOf(pod)
	if release == nil {
		return scheduler.ScheduleResult{}, fmt.Errorf("pod %s/%s: its place was taken back while it was looked at", pod.Namespace, pod.Name)
	}
	r, err := p.request(pod)
	if err == nil && r == nil {
		r = dialect.HostRequest(pod)
	}
	if err != nil {
		return scheduler.ScheduleResult{}, err
	}
	cs.Write(cycleKey, &cycle{request: r, fits: true, planned: release})
	node := string(release.Node.ID)
	allowed, status, _ := f.RunPreFilterPlugins(ctx, cs, pod)
	if status.IsSuccess() && !allowed.AllNodes() && !allowed.NodeNames.Has(node) {
		status = fwk.NewStatus(fwk.UnschedulableAndUnresolvable, "node(s) didn't satisfy the pod's own rules")
	}
	if status.IsSuccess() {
		var info fwk.NodeInfo
		if info, err = f.SnapshotSharedLister().NodeInfos().Get(node); err != nil {
			status = fwk.NewStatus(fwk.UnschedulableAndUnresolvable, "node is gone")
		} else {
			status = f.RunFilterPluginsWithNominatedPods(ctx, cs, pod, info)
		}
	}
	if status.IsSuccess() {
		return scheduler.ScheduleResult{SuggestedHost: node, EvaluatedNodes: 1, FeasibleNodes: 1}, nil
	}
	s.cluster.Veto(pod, node)
	(&gang{s.cluster, s.handle}).rejectAll(s.cluster.Fail(pod), pod)
	statuses := framework.NewNodeToStatus(map[string]*fwk.Status{node: fwk.NewStatus(fwk.UnschedulableAndUnresolvable, status.Message())}, fwk.NewStatus(fwk.UnschedulableAndUnresolvable))
	return scheduler.ScheduleResult{}, &framework.FitError{Pod: pod, NumAllNodes: 1, Diagnosis: framework.Diagnosis{
		NodeToStatus: statuses, UnschedulablePlugins: sets.New(names.PluginGang),
	}}
}

// notNow tells a pod's owner why it waits, by way of its condition. Preemption is the
// dispatcher's, so kube-scheduler's own finds no node to try.
func (s *Shared) notNow(ctx context.Context, f framework.Framework, cs fwk.CycleState, pod *v1.Pod, p *profile, why string) error {
	if r, err := p.request(pod); err == nil && r != nil {
		cs.Write(cycleKey, &cycle{request: r, fits: true})
	}
	f.RunPreFilterPlugins(ctx, cs, pod)                     // plugins' PostFilters rely on it
	nodes, _ := f.SnapshotSharedLister().NodeInfos().List() // a snapshot knows no error
	return &framework.FitError{Pod: pod, NumAllNodes: len(nodes), Diagnosis: framework.Diagnosis{
		NodeToStatus:         framework.NewNodeToStatus(map[string]*fwk.Status{}, fwk.NewStatus(fwk.UnschedulableAndUnresolvable)),
		UnschedulablePlugins: sets.New(names.PluginGang),
		PreFilterMsg:         why,
	}}
}
