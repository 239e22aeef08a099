package plugin

import (
	"context"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/tangram-dev/tangram/api/names"
	"github.com/tangram-dev/tangram/core/model"
	"github.com/tangram-dev/tangram/internal/kube/state"
)

// gang is GPUGang: members that were planned together wait here for the last of
// them, and are bound together.
type gang struct {
	cluster *state.Cluster
	handle  fwk.Handle
}

var _ fwk.PermitPlugin = &gang{}
var _ fwk.ReservePlugin = &gang{}

// permitFor is how long a member waits for the others. They follow each other in the
// queue, so it is seconds unless one of them fails, and then nobody waits.
const permitFor = 2 * time.Minute

func (s *Shared) newGang(ctx context.Context, obj runtime.Object, h fwk.Handle) (fwk.Plugin, error) {
	c, _, _, err := enlist[struct{}](ctx, s, h, obj)
	if err != nil {
		return nil, err
	}
	return &gang{cluster: c, handle: h}, nil
}

// Name is the plugin's name in configurations.
func (g *gang) Name() string { return names.PluginGang }

// Permit holds a member until all of its batch are here.
func (g *gang) Permit(_ context.Context, _ fwk.CycleState, pod *v1.Pod, _ string) (*fwk.Status, time.Duration) {
	ready, others := g.cluster.Reserved(pod)
	if !ready {
		return fwk.NewStatus(fwk.Wait), permitFor
	}
	for _, h := range others {
		if w := g.handle.GetWaitingPod(types.UID(h)); w != nil {
			w.Allow(g.Name())
		}
	}
	return nil, 0
}

// Reserve has nothing to do: GPUReserve holds the devices.
func (g *gang) Reserve(context.Context, fwk.CycleState, *v1.Pod, string) *fwk.Status { return nil }

// Unreserve ends the wait of all members planned with one that failed.
func (g *gang) Unreserve(_ context.Context, _ fwk.CycleState, pod *v1.Pod, _ string) {
	g.rejectAll(g.cluster.Fail(pod), pod)
}

func (g *gang) rejectAll(members []model.HolderID, failed *v1.Pod) {
	for _, h := range members {
		if w := g.handle.GetWaitingPod(types.UID(h)); w != nil {
			w.Reject(g.Name(), "member "+failed.Name+" of its gang could not be placed")
		}
	}
}
