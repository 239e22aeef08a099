package plugin

import (
	"context"
	"fmt"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/tangram-dev/tangram/api/names"
	"github.com/tangram-dev/tangram/core/model"
)

// reserve is GPUReserve.
type reserve struct{ hints }

var (
	_ fwk.ReservePlugin     = &reserve{}
	_ fwk.EnqueueExtensions = &reserve{}
)

func (s *Shared) newReserve(ctx context.Context, obj runtime.Object, h fwk.Handle) (fwk.Plugin, error) {
	c, p, _, err := enlist[struct{}](ctx, s, h, obj)
	if err != nil {
		return nil, err
	}
	return &reserve{newHints(c, p)}, nil
}

// Name is the plugin's name in configurations.
func (r *reserve) Name() string { return names.PluginReserve }

// Reserve chooses the pod's devices on the node and holds them.
func (r *reserve) Reserve(_ context.Context, cs fwk.CycleState, pod *v1.Pod, node string) *fwk.Status {
	c := readCycle(cs)
	if c == nil {
		return nil
	}
	if c.planned != nil {
		given, ok := r.cluster.Take(pod, c.planned)
		if !ok {
			return fwk.NewStatus(fwk.Unschedulable, takenBack)
		}
		c.given = &given
		return nil
	}
	given, refusal := r.cluster.Reserve(pod, c.request, model.NodeID(node))
	if refusal != nil {
		// The node changed since it was filtered. What changed it is over, so no event
		// would wake the pod: an error is tried again by itself.
		return fwk.AsStatus(fmt.Errorf("node %s changed while the pod was looked at: it has %s", node, refusal))
	}
	c.given = &given
	return nil
}

// Unreserve lets the devices go. The framework may call it without Reserve, and
// more than once.
func (r *reserve) Unreserve(_ context.Context, cs fwk.CycleState, pod *v1.Pod, _ string) {
	// What was planned is taken back by GPUGang: by now it may be planned anew.
	if c := readCycle(cs); c != nil && c.planned == nil {
		c.given = nil
		r.cluster.Unreserve(pod)
	}
}
