package plugin

import (
	"context"

	v1 "k8s.io/api/core/v1"
	corev1helpers "k8s.io/component-helpers/scheduling/corev1"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler"
	"k8s.io/kubernetes/pkg/scheduler/framework"

	"github.com/tangram-dev/tangram/api/names"
	"github.com/tangram-dev/tangram/core/model"
	"github.com/tangram-dev/tangram/internal/kube/state"
)

// How many candidates kube-scheduler's filters judge one by one: a first handful,
// nearly always enough, then more. Beyond that something other than GPUs decides
// (a selector only few nodes satisfy, full CPUs), and kube-scheduler's own
// parallel scan is the better tool.
const (
	firstCandidates = 8
	maxCandidates   = 128
)

// TakeShortcut makes a scheduler find nodes without looking at the cluster: the
// ledger's index proposes, kube-scheduler's own filters dispose. Whatever the
// shortcut does not cover goes the whole way.
func (s *Shared) TakeShortcut(sched *scheduler.Scheduler) {
	whole := sched.SchedulePod
	sched.SchedulePod = func(ctx context.Context, f framework.Framework, cs fwk.CycleState, info *framework.QueuedPodInfo) (scheduler.ScheduleResult, error) {
		p := s.profiles[f.ProfileName()]
		if p != nil && p.filters {
			switch standing, why := s.standing(ctx, info.Pod, p); standing {
			case state.Released:
				return s.toItsPlace(ctx, f, cs, info.Pod, p)
			case state.Told:
				return scheduler.ScheduleResult{}, s.notNow(ctx, f, cs, info.Pod, p, names.PluginQueue, why)
			case state.Gated:
				return scheduler.ScheduleResult{}, s.notNow(ctx, f, cs, info.Pod, p, names.PluginGang, "waits for its turn")
			}
		}
		if p == nil || !p.filters || p.priority || len(sched.Extenders) > 0 || !plain(info.Pod) || cs.IsPodGroupSchedulingCycle() {
			return whole(ctx, f, cs, info)
		}
		r, err := p.request(info.Pod)
		if err != nil || r == nil {
			return whole(ctx, f, cs, info)
		}
		node, judged := s.firstThatPasses(ctx, f, cs, info.Pod, p, r)
		if node == "" {
			// Start over: the whole way says why, and whether preemption helps.
			cs.Delete(cycleKey)
			return whole(ctx, f, cs, info)
		}
		return scheduler.ScheduleResult{SuggestedHost: node, EvaluatedNodes: judged, FeasibleNodes: 1}, nil
	}
}

// standing says how a pod stands once it is known who belongs together.
func (s *Shared) standing(ctx context.Context, pod *v1.Pod, p *profile) (state.Standing, string) {
	standing, why := s.cluster.StandingOf(pod)
	if standing == state.Free && !s.complete.Load() {
		if r, _ := p.request(pod); r != nil { // others need not wait for it
			s.awaitSync(ctx)
			return s.cluster.StandingOf(pod)
		}
	}
	return standing, why
}

// plain says whether nothing but the pod's hard requirements and its GPUs decide
// where it goes. Pods that prefer nodes or neighbours need scores of all nodes.
func plain(pod *v1.Pod) bool {
	if pod.Status.NominatedNodeName != "" {
		return false
	}
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

// unwelcome says whether a node would rather not have the pod (an untolerated
// PreferNoSchedule taint). It is left to the whole way, which weighs that.
func unwelcome(ctx context.Context, pod *v1.Pod, node *v1.Node) bool {
	if len(node.Spec.Taints) == 0 {
		return false
	}
	_, found := corev1helpers.FindMatchingUntoleratedTaint(klog.FromContext(ctx), node.Spec.Taints, pod.Spec.Tolerations,
		func(t *v1.Taint) bool { return t.Effect == v1.TaintEffectPreferNoSchedule }, false)
	return found
}

// firstThatPasses returns the best candidate that passes every filter, and how
// many were judged; "" when none of the first maxCandidates does.
func (s *Shared) firstThatPasses(ctx context.Context, f framework.Framework, cs fwk.CycleState, pod *v1.Pod, p *profile, r *model.Request) (string, int) {
	s.awaitSync(ctx)
	candidates := s.cluster.Search(r, p.weights, 0, firstCandidates)
	if len(candidates) == 0 {
		return "", 0
	}
	cs.Write(cycleKey, &cycle{request: r, fits: true})
	allowed, status, _ := f.RunPreFilterPlugins(ctx, cs, pod)
	if !status.IsSuccess() {
		return "", 0
	}
	nodes := f.SnapshotSharedLister().NodeInfos()
	judged := 0
	for len(candidates) > 0 && judged < maxCandidates {
		for _, id := range candidates {
			judged++
			name := string(id)
			if !allowed.AllNodes() && !allowed.NodeNames.Has(name) {
				continue
			}
			// A node the ledger knows and the snapshot does not (yet) cannot be used.
			info, err := nodes.Get(name)
			if err != nil || unwelcome(ctx, pod, info.Node()) {
				continue
			}
			if f.RunFilterPluginsWithNominatedPods(ctx, cs, pod, info).IsSuccess() {
				return name, judged
			}
		}
		if len(candidates) < firstCandidates {
			break // that was all
		}
		candidates = s.cluster.Search(r, p.weights, judged, maxCandidates-judged)
	}
	return "", judged
}
