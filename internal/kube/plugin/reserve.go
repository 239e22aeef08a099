package plugin

import (
	"context"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/tangram-dev/tangram/api/names"
	"github.com/tangram-dev/tangram/core/model"
	"github.com/tangram-dev/tangram/internal/kube/metrics"
)

// reserve is GPUReserve: it takes the devices that the engine holds for a pod, on the
// planned node or on another one that the cycle prefers.
type reserve struct {
	woken
	handle fwk.Handle
}

func (s *Shared) newReserve(ctx context.Context, obj runtime.Object, h fwk.Handle) (fwk.Plugin, error) {
	if _, _, _, err := enlist[struct{}](ctx, s, h, obj); err != nil {
		return nil, err
	}
	return &reserve{handle: h}, nil
}

// Name is the plugin's name in configurations.
func (r *reserve) Name() string { return names.PluginReserve }

// Reserve confirms that the pod has its devices on the node.
func (r *reserve) Reserve(_ context.Context, cs fwk.CycleState, _ *v1.Pod, node string) *fwk.Status {
	c := readCycle(cs)
	switch {
	case c == nil:
		return nil
	case !c.released():
		return fwk.NewStatus(fwk.Unschedulable, takenBack)
	}
	if refusal := c.Take(model.NodeID(node)); refusal != nil { // the node changed while it was looked at
		metrics.Conflict(metrics.ConflictPlace)
		stopAll(r.handle, c.Refused(nil))
		return fwk.NewStatus(fwk.Unschedulable, takenBack)
	}
	c.Timeline.Reserved = time.Now()
	return nil
}

// Unreserve has nothing to do: GPUGang takes back what was planned together.
func (r *reserve) Unreserve(context.Context, fwk.CycleState, *v1.Pod, string) {}
