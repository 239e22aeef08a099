package plugin

import (
	"context"
	"errors"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	corev1helpers "k8s.io/component-helpers/scheduling/corev1"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler"
	"k8s.io/kubernetes/pkg/scheduler/framework"

	"github.com/tangram-dev/tangram/api/names"
	"github.com/tangram-dev/tangram/core/explain"
	"github.com/tangram-dev/tangram/core/model"
	kubeengine "github.com/tangram-dev/tangram/internal/kube/engine"
	"github.com/tangram-dev/tangram/internal/kube/metrics"
)

// maxAlternatives is how many other nodes kube-scheduler's filters judge when they
// refuse the planned one. Beyond that something other than GPUs decides.
const maxAlternatives = 128

// ScheduleByPlan makes a scheduler take pods to the places that the engine has planned
// for them. kube-scheduler's own filters judge the planned node; nothing looks at the
// cluster. Pods that the engine does not place go kube-scheduler's way.
func (s *Shared) ScheduleByPlan(sched *scheduler.Scheduler) {
	whole := sched.SchedulePod
	sched.SchedulePod = func(ctx context.Context, f framework.Framework, cs fwk.CycleState, info *framework.QueuedPodInfo) (scheduler.ScheduleResult, error) {
		p := s.profiles[f.ProfileName()]
		if p == nil || !p.filters || !s.engine.Gate().Manages(info.Pod) {
			return whole(ctx, f, cs, info)
		}
		s.awaitSync(ctx)
		c, ok := s.engine.Begin(info.Pod)
		if !ok {
			return scheduler.ScheduleResult{}, s.waits(ctx, f, cs, info.Pod)
		}
		cs.Write(cycleKey, &cycle{Cycle: c})
		if c.Alone && !c.ByClaim() && (p.priority || len(sched.Extenders) > 0 || !plain(info.Pod) || unwelcome(ctx, f, info.Pod, c.Node.ID)) {
			return s.byScores(ctx, f, cs, info, whole, len(sched.Extenders) > 0, &c)
		}
		return s.toItsPlace(ctx, f, cs, info.Pod, &c)
	}
}

// plain says whether nothing but the pod's hard requirements and its GPUs decide
// where it goes. Pods that prefer nodes or neighbours need scores of all nodes.
func plain(pod *v1.Pod) bool {
	for _, c := range pod.Spec.TopologySpreadConstraints {
		if c.WhenUnsatisfiable == v1.ScheduleAnyway {
			return false
		}
	}
	a := pod.Spec.Affinity
	if a == nil {
		return true
	}
	return (a.NodeAffinity == nil || len(a.NodeAffinity.PreferredDuringSchedulingIgnoredDuringExecution) == 0) &&
		(a.PodAffinity == nil || len(a.PodAffinity.PreferredDuringSchedulingIgnoredDuringExecution) == 0) &&
		(a.PodAntiAffinity == nil || len(a.PodAntiAffinity.PreferredDuringSchedulingIgnoredDuringExecution) == 0)
}

// unwelcome says whether the planned node has a PreferNoSchedule taint that the pod does
// not tolerate: scores of all nodes weigh that.
func unwelcome(ctx context.Context, f framework.Framework, pod *v1.Pod, node model.NodeID) bool {
	info, err := f.SnapshotSharedLister().NodeInfos().Get(string(node))
	if err != nil || len(info.Node().Spec.Taints) == 0 {
		return false
	}
	_, found := corev1helpers.FindMatchingUntoleratedTaint(klog.FromContext(ctx), info.Node().Spec.Taints, pod.Spec.Tolerations,
		func(t *v1.Taint) bool { return t.Effect == v1.TaintEffectPreferNoSchedule }, false)
	return found
}

// toItsPlace schedules a pod to its planned node, if kube-scheduler's filters let it.
// If they refuse, a pod that starts alone takes the best other node they accept; a gang
// is planned anew without the nodes they refused.
func (s *Shared) toItsPlace(ctx context.Context, f framework.Framework, cs fwk.CycleState, pod *v1.Pod, c *kubeengine.Cycle) (scheduler.ScheduleResult, error) {
	allowed, status, _ := f.RunPreFilterPlugins(ctx, cs, pod)
	if !status.IsSuccess() {
		return s.refusedEverywhere(ctx, f, pod, c, status.Message(), nil)
	}
	node := c.Node.ID
	if !allowed.AllNodes() && !allowed.NodeNames.Has(string(node)) {
		var some []model.NodeID
		for _, name := range sets.List(allowed.NodeNames) {
			some = append(some, model.NodeID(name))
		}
		return s.refusedEverywhere(ctx, f, pod, c, "node(s) didn't satisfy the pod's own rules", some)
	}
	refusals := []kubeengine.Verdict{}
	found := func(node model.NodeID) (scheduler.ScheduleResult, error) {
		c.Excluded(refusals)
		return scheduler.ScheduleResult{SuggestedHost: string(node), EvaluatedNodes: len(refusals) + 1, FeasibleNodes: 1}, nil
	}
	verdict, ok := s.judge(ctx, f, cs, pod, node)
	if ok {
		c.Took(node)
		return found(node)
	}
	refusals = append(refusals, verdict)
	// What the allocator of claims saw was the planned node alone.
	if !verdict.Late && !s.engine.Claims().Decides(pod, string(node)) {
		for _, other := range c.Alternatives(maxAlternatives) {
			if !allowed.AllNodes() && !allowed.NodeNames.Has(string(other)) || s.engine.Claims().Decides(pod, string(other)) {
				continue
			}
			verdict, ok := s.judge(ctx, f, cs, pod, other)
			switch {
			case ok && c.Alone:
				return found(other)
			case ok: // the gang is planned anew, and may use this node
				return s.refused(ctx, f, pod, c, refusals)
			}
			refusals = append(refusals, verdict)
		}
	}
	return s.refused(ctx, f, pod, c, refusals)
}

// byScores lets kube-scheduler's scores of all nodes decide, ours among them, for a pod
// that starts alone and prefers nodes or neighbours. That it fits somewhere is planned.
// extended: extenders have a say as well.
func (s *Shared) byScores(ctx context.Context, f framework.Framework, cs fwk.CycleState, info *framework.QueuedPodInfo, whole schedulePod, extended bool, c *kubeengine.Cycle) (scheduler.ScheduleResult, error) {
	result, err := whole(ctx, f, cs, info)
	if err == nil {
		return result, nil
	}
	var fit *framework.FitError
	if !errors.As(err, &fit) {
		metrics.Failed(metrics.FailedCycle)
		stopAll(s.handle, c.Failed(err.Error()))
		return result, err
	}
	if fit.Diagnosis.PreFilterMsg != "" {
		return s.refusedEverywhere(ctx, f, info.Pod, c, fit.Diagnosis.PreFilterMsg, nil)
	}
	if planned, err := f.SnapshotSharedLister().NodeInfos().Get(string(c.Node.ID)); err == nil && !extended {
		if s.takes(ctx, f, cs, info.Pod, planned).IsSuccess() { // but for pods that are gone
			c.Took(c.Node.ID)
			return scheduler.ScheduleResult{SuggestedHost: string(c.Node.ID), EvaluatedNodes: fit.NumAllNodes, FeasibleNodes: 1}, nil
		}
	}
	var refusals []kubeengine.Verdict
	fit.Diagnosis.NodeToStatus.ForEachExplicitNode(func(node string, status *fwk.Status) {
		if status.Plugin() != names.PluginFilter { // what the ledger knows need not be remembered
			refusals = append(refusals, kubeengine.Verdict{Node: model.NodeID(node), Said: status.Message()})
			metrics.Vetoed(status.Plugin())
		}
	})
	return s.refused(ctx, f, info.Pod, c, refusals)
}

type schedulePod = func(context.Context, framework.Framework, fwk.CycleState, *framework.QueuedPodInfo) (scheduler.ScheduleResult, error)

// refused ends a cycle whose planned node, and others, were refused.
func (s *Shared) refused(ctx context.Context, f framework.Framework, pod *v1.Pod, c *kubeengine.Cycle, refusals []kubeengine.Verdict) (scheduler.ScheduleResult, error) {
	said := ""
	if len(refusals) > 0 {
		said = refusals[0].Said
	}
	klog.FromContext(ctx).V(2).Info("Planned node refused", "pod", klog.KObj(pod), "node", c.Node.ID, "refusedNodes", len(refusals), "reason", said)
	metrics.Unschedulable(explain.Filtered.String(), 1)
	stopAll(s.handle, c.Refused(refusals))
	return scheduler.ScheduleResult{}, fitError(f, said)
}

// refusedEverywhere ends a cycle of a pod that no node, or only some, would take.
func (s *Shared) refusedEverywhere(ctx context.Context, f framework.Framework, pod *v1.Pod, c *kubeengine.Cycle, said string, except []model.NodeID) (scheduler.ScheduleResult, error) {
	said = withClaims(said, pod)
	klog.FromContext(ctx).V(2).Info("Pod refused before its node was looked at", "pod", klog.KObj(pod), "reason", said, "allowedNodes", len(except))
	metrics.Unschedulable(explain.Rejected.String(), 1)
	stopAll(s.handle, c.RefusedEverywhere(said, except))
	return scheduler.ScheduleResult{}, fitError(f, said)
}

// withClaims adds the names of a pod's volume claims to what kube-scheduler says of them
// without naming one.
func withClaims(said string, pod *v1.Pod) string {
	if !strings.Contains(said, "PersistentVolumeClaims") {
		return said
	}
	var claims []string
	for _, v := range pod.Spec.Volumes {
		if v.PersistentVolumeClaim != nil {
			claims = append(claims, v.PersistentVolumeClaim.ClaimName)
		}
	}
	return said + " (" + strings.Join(claims, ", ") + ")"
}

// waits ends the cycle of a pod that the engine has not released, or not any more.
func (s *Shared) waits(ctx context.Context, f framework.Framework, cs fwk.CycleState, pod *v1.Pod) error {
	if r, err := s.engine.Request(pod); err == nil && r != nil {
		cs.Write(cycleKey, &cycle{Cycle: kubeengine.Cycle{Request: r}})
	}
	f.RunPreFilterPlugins(ctx, cs, pod) // plugins' PostFilters rely on it
	klog.FromContext(ctx).V(2).Info("Pod is not released", "pod", klog.KObj(pod))
	return fitError(f, "waits for its turn")
}

// fitError is a failure that kube-scheduler's own preemption does not act on: victims
// are the engine's to find.
func fitError(f framework.Framework, why string) error {
	nodes, _ := f.SnapshotSharedLister().NodeInfos().List() // a snapshot knows no error
	return &framework.FitError{NumAllNodes: len(nodes), Diagnosis: framework.Diagnosis{
		NodeToStatus:         framework.NewNodeToStatus(map[string]*fwk.Status{}, fwk.NewStatus(fwk.UnschedulableAndUnresolvable)),
		UnschedulablePlugins: sets.New(names.PluginQueue),
		PreFilterMsg:         why,
	}}
}
