package plugin

import (
	"context"
	"errors"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/klog/v2"
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
		return scheduler.ScheduleResult{}, s.notNow(ctx, f, cs, pod, p, names.PluginGang, takenBack)
	}
	r, err := p.request(pod)
	if err == nil && r == nil {
		r = dialect.HostRequest(pod)
	}
	if err != nil {
		rejectAll(s.handle, s.cluster.Fail(pod, release, true))
		return scheduler.ScheduleResult{}, err
	}
	cs.Write(cycleKey, &cycle{request: r, fits: true, planned: release})
	node := release.Node.ID
	refusedBy, late, elsewhere := node, false, false
	allowed, status, _ := f.RunPreFilterPlugins(ctx, cs, pod)
	if !status.IsSuccess() {
		refusedBy = "" // no node would do
	} else if elsewhere = !allowed.AllNodes() && !allowed.NodeNames.Has(string(node)); elsewhere {
		status = fwk.NewStatus(fwk.UnschedulableAndUnresolvable, "node(s) didn't satisfy the pod's own rules")
	}
	if status.IsSuccess() {
		if info, err := f.SnapshotSharedLister().NodeInfos().Get(string(node)); err != nil {
			status, late = fwk.NewStatus(fwk.UnschedulableAndUnresolvable, "node(s) are not known yet"), true
		} else if status = f.RunFilterPluginsWithNominatedPods(ctx, cs, pod, info); !status.IsSuccess() {
			late = slices.ContainsFunc(info.GetPods(), func(p fwk.PodInfo) bool { return s.cluster.Gone(p.GetPod()) })
		}
	}
	if status.IsSuccess() {
		s.cluster.Took(pod, node)
		return scheduler.ScheduleResult{SuggestedHost: string(node), EvaluatedNodes: 1, FeasibleNodes: 1}, nil
	}
	klog.FromContext(ctx).V(2).Info("A place that was planned was refused", "pod", klog.KObj(pod), "node", node, "why", status.Message(), "late", late)
	if elsewhere {
		s.cluster.Only(pod, allowed.NodeNames, status.Message())
	} else {
		s.cluster.Veto(pod, refusedBy, status.Message(), late)
	}
	rejectAll(s.handle, s.cluster.Fail(pod, release, false))
	return scheduler.ScheduleResult{}, refused(f, status.Message(), names.PluginGang)
}

// notNow ends a cycle of a pod that waits: what is said, and by which plugin. GPUQueue
// says why it waits, for its owner; what GPUGang says is for nobody. Preemption is the
// dispatcher's, so kube-scheduler's own finds no node to try.
func (s *Shared) notNow(ctx context.Context, f framework.Framework, cs fwk.CycleState, pod *v1.Pod, p *profile, plugin, why string) error {
	if r, err := p.request(pod); err == nil && r != nil {
		cs.Write(cycleKey, &cycle{request: r, fits: true})
	}
	f.RunPreFilterPlugins(ctx, cs, pod) // plugins' PostFilters rely on it
	return refused(f, why, plugin)
}

func refused(f framework.Framework, why, plugin string) error {
	nodes, _ := f.SnapshotSharedLister().NodeInfos().List() // a snapshot knows no error
	return &framework.FitError{NumAllNodes: len(nodes), Diagnosis: framework.Diagnosis{
		NodeToStatus:         framework.NewNodeToStatus(map[string]*fwk.Status{}, fwk.NewStatus(fwk.UnschedulableAndUnresolvable)),
		UnschedulablePlugins: sets.New(plugin),
		PreFilterMsg:         why,
	}}
}

// KeepQuiet makes a scheduler say nothing about pods that only wait for others: no
// event, and no condition that would make an autoscaler add nodes. The dispatcher
// tells their owners why they wait, in its own words.
func (s *Shared) KeepQuiet(sched *scheduler.Scheduler) {
	loud := sched.FailureHandler
	sched.FailureHandler = func(ctx context.Context, f framework.Framework, info *framework.QueuedPodInfo, status *fwk.Status, nominating *fwk.NominatingInfo, start time.Time) {
		if nominating.Mode() == fwk.ModeOverride && nominating.NominatedNodeName == "" && info.Pod.Status.NominatedNodeName == "" {
			// Clearing what is not there makes kube-scheduler keep the pod in a list of those
			// nominated to no node, and walk through it with every failure and update.
			nominating = nil
		}
		var fit *framework.FitError
		errors.As(status.AsError(), &fit)
		switch {
		case fit != nil && fit.Diagnosis.UnschedulablePlugins.Has(names.PluginQueue):
			fit.Diagnosis.PostFilterMsg = "" // what kube-scheduler's own preemption thinks
			fallthrough
		case !quiet(status, fit):
			loud(ctx, f, info, status, nominating, start)
			return
		}
		logger := klog.FromContext(ctx)
		pod := info.Pod
		now, err := f.SharedInformerFactory().Core().V1().Pods().Lister().Pods(pod.Namespace).Get(pod.Name)
		if err != nil || now.Spec.NodeName != "" || now.UID != pod.UID {
			sched.SchedulingQueue.Done(pod.UID)
			return
		}
		info.ClearRejectorPlugins()
		info.UnschedulablePlugins = sets.New(names.PluginQueue)
		info.PodInfo, _ = framework.NewPodInfo(now.DeepCopy()) // as kube-scheduler does
		if err := sched.SchedulingQueue.AddUnschedulableIfNotPresent(logger, info, sched.SchedulingQueue.SchedulingCycle()); err != nil {
			logger.Error(err, "A pod could not be put back", "pod", klog.KObj(now))
		}
	}
}

// quiet says whether a cycle ended because the pod waits for others.
func quiet(status *fwk.Status, fit *framework.FitError) bool {
	return fit != nil && fit.Diagnosis.UnschedulablePlugins.Has(names.PluginGang) ||
		status.IsRejected() && (status.Plugin() == names.PluginGang || status.Message() == takenBack)
}
