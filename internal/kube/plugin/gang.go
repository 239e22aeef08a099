package plugin

import (
	"context"
	"fmt"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/tangram-dev/tangram/api/names"
	"github.com/tangram-dev/tangram/core/model"
	"github.com/tangram-dev/tangram/internal/kube/metrics"
)

// gang is GPUGang: members that were planned together wait here for the last of
// them, and are bound together.
type gang struct {
	woken
	handle fwk.Handle
	permit time.Duration
}

var (
	_ fwk.PermitPlugin      = &gang{}
	_ fwk.ReservePlugin     = &gang{}
	_ fwk.EnqueueExtensions = &gang{}
)

// permitFor is how long a member waits for the others by default. They follow each other in the
// queue, so it is seconds unless one of them fails, and then none waits.
const permitFor = 2 * time.Minute

func (s *Shared) newGang(ctx context.Context, obj runtime.Object, h fwk.Handle) (fwk.Plugin, error) {
	_, _, args, err := enlist[GangArgs](ctx, s, h, obj)
	if err != nil {
		return nil, err
	}
	var t tuning
	if err := readAll(gangSettings(), args, &t); err != nil {
		return nil, fmt.Errorf("args: %w", err)
	}
	return &gang{handle: h, permit: t.permit}, nil
}

// Name is the plugin's name in configurations.
func (g *gang) Name() string { return names.PluginGang }

// Permit holds a member until all of its batch are here. Nothing is asked of the
// framework while the engine's lock is held.
func (g *gang) Permit(_ context.Context, cs fwk.CycleState, _ *v1.Pod, _ string) (*fwk.Status, time.Duration) {
	c := readCycle(cs)
	if !c.released() {
		return nil, 0
	}
	ready, others, ok := c.Reserved()
	switch {
	case !ok:
		metrics.Conflict(metrics.ConflictPlace)
		return fwk.NewStatus(fwk.Unschedulable, takenBack), 0
	case !ready:
		return fwk.NewStatus(fwk.Wait), g.permit
	}
	for _, h := range others {
		if w := g.handle.GetWaitingPod(types.UID(h)); w != nil {
			w.Allow(g.Name())
		}
	}
	return nil, 0
}

const takenBack = "its place was taken back: a member planned with it could not be placed"

// Reserve has nothing to do: GPUReserve takes the devices.
func (g *gang) Reserve(context.Context, fwk.CycleState, *v1.Pod, string) *fwk.Status { return nil }

// Unreserve ends the wait of all members planned with one that failed.
func (g *gang) Unreserve(_ context.Context, cs fwk.CycleState, _ *v1.Pod, _ string) {
	if c := readCycle(cs); c.released() {
		stopAll(g.handle, c.Failed("the pod could not be bound"))
	}
}

// stopAll ends the wait of members at Permit.
func stopAll(h fwk.Handle, members []model.HolderID) {
	for _, m := range members {
		if w := h.GetWaitingPod(types.UID(m)); w != nil {
			w.Reject(names.PluginGang, takenBack)
		}
	}
}

var (
	_ fwk.ReservePlugin     = &reserve{}
	_ fwk.EnqueueExtensions = &reserve{}
)
