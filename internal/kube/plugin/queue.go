package plugin

import (
	"context"

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
	c, _, _, err := enlist[struct{}](ctx, s, h, obj)
	if err != nil {
		return nil, err
	}
	return &queue{cluster: c}, nil
}

// Name is the plugin's name in configurations.
func (q *queue) Name() string { return names.PluginQueue }

// PreEnqueue lets a pod in that has a place, that waits for nobody, or whose owner is
// to be told why it waits.
func (q *queue) PreEnqueue(_ context.Context, pod *v1.Pod) *fwk.Status {
	if !q.cluster.Owns(pod.Spec.SchedulerName) {
		return nil
	}
	if standing, why := q.cluster.StandingOf(pod); standing == state.Gated {
		return fwk.NewStatus(fwk.UnschedulableAndUnresolvable, why)
	}
	return nil
}

// EventsToRegister is empty: only the dispatcher lets pods in.
func (q *queue) EventsToRegister(context.Context) ([]fwk.ClusterEventWithHint, error) {
	return nil, nil
}

// Less puts released pods first, by rank, which a pod keeps for life; the others by
// priority and age, as kube-scheduler does.
func (q *queue) Less(a, b fwk.QueuedPodInfo) bool {
	x, y := a.GetPodInfo().GetPod(), b.GetPodInfo().GetPod()
	rx, okx := q.cluster.RankOf(x)
	ry, oky := q.cluster.RankOf(y)
	if okx != oky {
		return okx
	}
	if okx && rx != ry {
		return rx < ry
	}
	px, py := corev1helpers.PodPriority(x), corev1helpers.PodPriority(y)
	return px > py || px == py && a.GetTimestamp().Before(b.GetTimestamp())
}
