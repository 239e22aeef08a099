package plugin

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation"
	corev1helpers "k8s.io/component-helpers/scheduling/corev1"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/tangram-dev/tangram/api/names"
	kubeengine "github.com/tangram-dev/tangram/internal/kube/engine"
)

// queue is GPUQueue: it keeps pods out of kube-scheduler's queue until the engine has
// released them, and orders those inside.
type queue struct {
	woken
	gate *kubeengine.Gate
}

var (
	_ fwk.PreEnqueuePlugin  = &queue{}
	_ fwk.QueueSortPlugin   = &queue{}
	_ fwk.EnqueueExtensions = &queue{}
)

func (s *Shared) newQueue(ctx context.Context, obj runtime.Object, h fwk.Handle) (fwk.Plugin, error) {
	e, _, args, err := enlist[QueueArgs](ctx, s, h, obj)
	if err != nil {
		return nil, err
	}
	options, err := args.options()
	if err != nil {
		return nil, fmt.Errorf("args: %w", err)
	}
	every, err := args.reportEvery()
	if err != nil {
		return nil, fmt.Errorf("args: %w", err)
	}
	if err := cmp.Or(s.setMetrics(ctx, e, &args.Metrics), s.tune(args), s.record(e, &args.Recording)); err != nil {
		return nil, fmt.Errorf("args: %w", err)
	}
	e.Configure(func(set *kubeengine.Settings) {
		options(&set.Options)
		set.Options.BatchTimeout, set.Options.Timing, set.Timing = s.tuning.batch, s.tuning.core, s.tuning.engine
		if args.ProtectedNamespaces != nil {
			set.Protected = *args.ProtectedNamespaces
		}
	})
	e.ReportEvery(every)
	if args.Autoscaling.Enabled {
		namespace := cmp.Or(args.Autoscaling.PlaceholderNamespace, names.PlaceholderNamespace)
		if problems := validation.IsDNS1123Label(namespace); len(problems) > 0 {
			return nil, fmt.Errorf("args: autoscaling.placeholderNamespace: %q: %s", namespace, problems[0])
		}
		if !s.autoscales.Swap(true) { // each profile has these arguments
			if err := s.placeholders.follow(h.SharedInformerFactory().Core().V1().Pods().Informer(), namespace); err != nil {
				return nil, err
			}
		}
		e.Autoscale(s.tuning.demand.patience)
	}
	return &queue{gate: e.Gate()}, nil
}

// Name is the plugin's name in configurations.
func (q *queue) Name() string { return names.PluginQueue }

// PreEnqueue lets a pod in that the engine has released, or does not place. It is called
// under the lock of kube-scheduler's queue, so it waits for no other.
func (q *queue) PreEnqueue(_ context.Context, pod *v1.Pod) *fwk.Status {
	if q.gate.Waits(pod) {
		return fwk.NewStatus(fwk.UnschedulableAndUnresolvable, "waits for its turn")
	}
	return nil
}

// woken is part of plugins whose pods the engine wakes.
type woken struct{}

// EventsToRegister: only an edit of its own has a pod asked about again, beside the engine.
func (woken) EventsToRegister(context.Context) ([]fwk.ClusterEventWithHint, error) {
	return []fwk.ClusterEventWithHint{
		{Event: fwk.ClusterEvent{Resource: fwk.Pod, ActionType: fwk.Update}, QueueingHintFn: afterOwnEdit},
	}, nil
}

// afterOwnEdit wakes a pod whose labels or annotations were edited.
func afterOwnEdit(_ klog.Logger, pod *v1.Pod, before, after any) (fwk.QueueingHint, error) {
	n, ok := after.(*v1.Pod)
	if !ok || n.UID != pod.UID {
		return fwk.QueueSkip, nil
	}
	if o, ok := before.(*v1.Pod); ok && maps.Equal(o.Annotations, n.Annotations) && maps.Equal(o.Labels, n.Labels) {
		return fwk.QueueSkip, nil
	}
	return fwk.Queue, nil
}

// Less puts pods that the engine released first, by rank, which a pod keeps for life;
// the others by priority and age, as kube-scheduler does.
func (q *queue) Less(a, b fwk.QueuedPodInfo) bool {
	return q.positionOf(a).before(q.positionOf(b))
}

// position is what orders a pod in the queue.
type position struct {
	ranked   bool
	rank     int64
	priority int32
	at       time.Time
}

func (q *queue) positionOf(info fwk.QueuedPodInfo) position {
	pod := info.GetPodInfo().GetPod()
	rank, ranked := q.gate.RankOf(pod)
	return position{ranked, rank, corev1helpers.PodPriority(pod), info.GetTimestamp()}
}

func (p position) before(o position) bool {
	switch {
	case p.ranked != o.ranked:
		return p.ranked
	case p.ranked && p.rank != o.rank:
		return p.rank < o.rank
	case p.priority != o.priority:
		return p.priority > o.priority
	}
	return p.at.Before(o.at)
}
