package plugin

import (
	"context"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/tangram-dev/tangram/api/names"
	"github.com/tangram-dev/tangram/core/explain"
	"github.com/tangram-dev/tangram/core/model"
	"github.com/tangram-dev/tangram/internal/dialect"
	"github.com/tangram-dev/tangram/internal/kube/state"
)

// filter is GPUFilter.
type filter struct {
	hints
	awaitSync func(context.Context)
}

var (
	_ fwk.PreFilterPlugin     = &filter{}
	_ fwk.FilterPlugin        = &filter{}
	_ fwk.PreFilterExtensions = &filter{}
	_ fwk.EnqueueExtensions   = &filter{}
)

func (s *Shared) newFilter(ctx context.Context, obj runtime.Object, h fwk.Handle) (fwk.Plugin, error) {
	c, p, args, err := enlist[FilterArgs](ctx, s, h, obj)
	if err != nil {
		return nil, err
	}
	if p.models, err = args.models(); err != nil {
		return nil, err
	}
	if err := s.setLevels(h.ProfileName(), args); err != nil {
		return nil, err
	}
	p.filters = true
	c.Own(h.ProfileName())
	return &filter{hints: newHints(c, p), awaitSync: s.awaitSync}, nil
}

// Name is the plugin's name in configurations.
func (f *filter) Name() string { return names.PluginFilter }

// PreFilter reads what the pod asks for and asks the index whether any node can
// take it. If none can, the pod is turned away here, with reasons counted over
// the cluster, without looking at a single node.
func (f *filter) PreFilter(ctx context.Context, cs fwk.CycleState, pod *v1.Pod, _ []fwk.NodeInfo) (*fwk.PreFilterResult, *fwk.Status) {
	if c := readCycle(cs); c != nil && c.fits {
		return nil, nil
	}
	r, err := f.profile.request(pod)
	if err != nil {
		return nil, fwk.NewStatus(fwk.UnschedulableAndUnresolvable, err.Error())
	}
	if r == nil {
		return nil, fwk.NewStatus(fwk.Skip)
	}
	f.awaitSync(ctx)
	cs.Write(cycleKey, &cycle{request: r})
	if f.cluster.Wait(pod, r) {
		return nil, nil
	}
	refused := f.cluster.Reasons(r)
	if refused.Permanent() || !f.mayPreempt(pod) {
		return nil, fwk.NewStatus(fwk.UnschedulableAndUnresolvable, refused.String())
	}
	return nil, fwk.NewStatus(fwk.Unschedulable, refused.String())
}

// mayPreempt says whether preemption could free anything at all, so that a full
// cluster of equals does not cost a dry run on every node for every pod.
func (f *filter) mayPreempt(pod *v1.Pod) bool {
	if pod.Spec.PreemptionPolicy != nil && *pod.Spec.PreemptionPolicy == v1.PreemptNever {
		return false
	}
	priority := int32(0)
	if pod.Spec.Priority != nil {
		priority = *pod.Spec.Priority
	}
	return f.cluster.HoldsBelow(priority)
}

// Filter says whether one node can take the pod.
func (f *filter) Filter(_ context.Context, cs fwk.CycleState, pod *v1.Pod, node fwk.NodeInfo) *fwk.Status {
	c := readCycle(cs)
	if c == nil { // a profile that enables only the filter point
		r, err := f.profile.request(pod)
		if err != nil {
			return fwk.NewStatus(fwk.UnschedulableAndUnresolvable, err.Error())
		}
		if r == nil {
			return nil
		}
		c = &cycle{request: r}
	}
	id := model.NodeID(node.Node().Name)
	if c.planned != nil {
		if c.planned.Node.ID != id {
			return fwk.NewStatus(fwk.UnschedulableAndUnresolvable, "the pod's place is on node "+string(c.planned.Node.ID))
		}
		return nil
	}
	return refusalStatus(f.cluster.Fit(c.request, id, c.trials[id]))
}

// refusalStatus prints a refusal.
func refusalStatus(r *explain.Refusal) *fwk.Status {
	if r == nil {
		return nil
	}
	code := fwk.Unschedulable
	if r.Code.Permanent() {
		code = fwk.UnschedulableAndUnresolvable
	}
	return fwk.NewStatus(code, "node(s) had "+r.String())
}

// PreFilterExtensions lets preemption try out other holders.
func (f *filter) PreFilterExtensions() fwk.PreFilterExtensions { return f }

// AddPod counts a pod on a node as if it were there: a nominated pod, or a
// victim spared after all.
func (f *filter) AddPod(_ context.Context, cs fwk.CycleState, _ *v1.Pod, added fwk.PodInfo, node fwk.NodeInfo) *fwk.Status {
	t, pod := trial(cs, node), added.GetPod()
	if t == nil {
		return nil
	}
	if uid := model.HolderID(pod.UID); t.Without[uid] {
		for _, h := range dialect.Holders(pod) {
			delete(t.Without, h)
		}
		return nil
	}
	claims, _ := dialect.Claims(pod)
	for _, claim := range claims {
		claim.Devices = nil // it has none yet
		t.With = append(t.With, claim)
	}
	return nil
}

// RemovePod counts a pod on a node as if it were gone.
func (f *filter) RemovePod(_ context.Context, cs fwk.CycleState, _ *v1.Pod, removed fwk.PodInfo, node fwk.NodeInfo) *fwk.Status {
	if t := trial(cs, node); t != nil {
		for _, h := range dialect.Holders(removed.GetPod()) {
			t.Without[h] = true
		}
	}
	return nil
}

// trial returns the cycle's hypothesis about a node; nil when the pod to
// schedule asks for no GPU.
func trial(cs fwk.CycleState, node fwk.NodeInfo) *state.Trial {
	c := readCycle(cs)
	if c == nil {
		return nil
	}
	id := model.NodeID(node.Node().Name)
	if c.trials == nil {
		c.trials = map[model.NodeID]*state.Trial{}
	}
	t := c.trials[id]
	if t == nil {
		t = &state.Trial{Without: map[model.HolderID]bool{}}
		c.trials[id] = t
	}
	return t
}
