package plugin

import (
	"context"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler"
	"k8s.io/kubernetes/pkg/scheduler/framework"

	"github.com/tangram-dev/tangram/api/names"
)

// HandleFailures makes a scheduler put pods of the engine back without an event or a
// condition: the engine explains why they wait, in its own words and seldom, and an
// autoscaler must not add nodes because a cycle ended early.
func (s *Shared) HandleFailures(sched *scheduler.Scheduler) {
	loud := sched.FailureHandler
	sched.FailureHandler = func(ctx context.Context, f framework.Framework, info *framework.QueuedPodInfo, status *fwk.Status, nominating *fwk.NominatingInfo, start time.Time) {
		if nominating.Mode() == fwk.ModeOverride && nominating.NominatedNodeName == "" && info.Pod.Status.NominatedNodeName == "" {
			// Clearing what is not there makes kube-scheduler keep the pod in a list of those
			// nominated to no node, and walk through it with every failure and update.
			nominating = nil
		}
		if p := s.profiles[f.ProfileName()]; p == nil || !p.filters || !s.engine.Gate().Manages(info.Pod) {
			loud(ctx, f, info, status, nominating, start)
			return
		}
		if !status.IsRejected() {
			klog.FromContext(ctx).V(2).Info("Start failed", "pod", klog.KObj(info.Pod), "reason", status.Message())
		}
		s.putBack(ctx, sched, f, info, status.IsRejected())
	}
}

// putBack returns a pod to kube-scheduler's queue, where it waits for the engine: at once
// when it was rejected, after kube-scheduler's back-off when its start failed (such a pod
// is in its binding cycle, for which the queue keeps no events).
func (s *Shared) putBack(ctx context.Context, sched *scheduler.Scheduler, f framework.Framework, info *framework.QueuedPodInfo, rejected bool) {
	logger, pod := klog.FromContext(ctx), info.Pod
	latest, err := f.SharedInformerFactory().Core().V1().Pods().Lister().Pods(pod.Namespace).Get(pod.Name)
	if err != nil || latest.Spec.NodeName != "" || latest.UID != pod.UID {
		sched.SchedulingQueue.Done(pod.UID)
		return
	}
	info.ClearRejectorPlugins()
	if rejected {
		info.UnschedulablePlugins = sets.New(names.PluginQueue)
	}
	info.PodInfo, _ = framework.NewPodInfo(latest.DeepCopy()) // as kube-scheduler does
	if err := sched.SchedulingQueue.AddUnschedulableIfNotPresent(logger, info, sched.SchedulingQueue.SchedulingCycle()); err != nil {
		logger.Error(err, "Pod not put back into the scheduling queue", "pod", klog.KObj(latest))
	}
	if s.engine.Gate().Released(latest) { // while the cycle ended: activation came too early
		sched.SchedulingQueue.Activate(logger, map[string]*v1.Pod{latest.Namespace + "/" + latest.Name: latest})
	}
}
