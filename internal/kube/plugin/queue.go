package plugin

import (
	"context"
	"fmt"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	corev1helpers "k8s.io/component-helpers/scheduling/corev1"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/tangram-dev/tangram/api/names"
	"github.com/tangram-dev/tangram/internal/kube/state"
)

// queue is GPUQueue: it keeps pods out of kube-scheduler's queue until it is their
// turn, and orders those inside.
type queue struct{ cluster *state.Cluster }

var (
	_ fwk.PreEnqueuePlugin  = &queue{}
	_ fwk.QueueSortPlugin   = &queue{}
	_ fwk.EnqueueExtensions = &queue{}
)

func (s *Shared) newQueue(ctx context.Context, obj runtime.Object, h fwk.Handle) (fwk.Plugin, error) {
	c, _, args, err := enlist[QueueArgs](ctx, s, h, obj)
	if err != nil {
		return nil, err
	}
	options, err := args.options()
	if err != nil {
		return nil, fmt.Errorf("args: %w", err)
	}
	c.Configure(options)
	return &queue{cluster: c}, nil
}

// Name is the plugin's name in configurations.
func (q *queue) Name() string { return names.PluginQueue }

// PreEnqueue lets a pod in that has a place, that waits for nobody, or whose owner is
// to be told why it waits. It is called under the lock of kube-scheduler's queue, so
// it waits for no other.
func (q *queue) PreEnqueue(_ context.Context, pod *v1.Pod) *fwk.Status {
	if !q.cluster.Owns(pod.Spec.SchedulerName) {
		return nil
	}
	if standing, _ := q.cluster.StandingOf(pod); standing == state.Gated {
		return fwk.NewStatus(fwk.UnschedulableAndUnresolvable, "waits for its turn")
	}
	return nil
}

// EventsToRegister: the dispatcher lets pods in, and who edits a pod may free it.
func (q *queue) EventsToRegister(context.Context) ([]fwk.ClusterEventWithHint, error) {
	return ownEdits(), nil
}

// ownEdits are events that let a pod's standing be asked again: no other does.
func ownEdits() []fwk.ClusterEventWithHint {
	return []fwk.ClusterEventWithHint{
		{Event: fwk.ClusterEvent{Resource: fwk.Pod, ActionType: fwk.Update}, QueueingHintFn: hints{}.afterOwnEdit},
	}
}

// Less puts pods that the dispatcher let in first, by rank, which a pod keeps for
// life; the others by priority and age, as kube-scheduler does.
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
	rank, ranked := q.cluster.RankOf(pod)
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
