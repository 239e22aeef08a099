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
	kubeengine "github.com/tangram-dev/tangram/internal/kube/engine"
)

// filter is GPUFilter. Of a pod that the engine has released it knows that the planned
// node fits; it is asked about others where kube-scheduler's scores decide.
type filter struct {
	woken
	engine    *kubeengine.Engine
	profile   *profile
	awaitSync func(context.Context)
}

var (
	_ fwk.PreFilterPlugin     = &filter{}
	_ fwk.FilterPlugin        = &filter{}
	_ fwk.PreFilterExtensions = &filter{}
	_ fwk.EnqueueExtensions   = &filter{}
)

func (s *Shared) newFilter(ctx context.Context, obj runtime.Object, h fwk.Handle) (fwk.Plugin, error) {
	e, p, args, err := enlist[FilterArgs](ctx, s, h, obj)
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
	e.Own(h.ProfileName(), p.settings())
	return &filter{engine: e, profile: p, awaitSync: s.awaitSync}, nil
}

// Name is the plugin's name in configurations.
func (f *filter) Name() string { return names.PluginFilter }

// PreFilter reads what the pod asks for, unless the engine has told.
func (f *filter) PreFilter(ctx context.Context, cs fwk.CycleState, pod *v1.Pod, _ []fwk.NodeInfo) (*fwk.PreFilterResult, *fwk.Status) {
	if readCycle(cs) != nil {
		return nil, nil
	}
	r, err := f.engine.RequestIn(pod, f.profile.settings())
	if err != nil {
		return nil, fwk.NewStatus(fwk.UnschedulableAndUnresolvable, err.Error())
	}
	if r == nil {
		return nil, fwk.NewStatus(fwk.Skip)
	}
	f.awaitSync(ctx)
	cs.Write(cycleKey, &cycle{Cycle: kubeengine.Cycle{Request: r}})
	return nil, nil
}

// Filter says whether one node can take the pod.
func (f *filter) Filter(_ context.Context, cs fwk.CycleState, pod *v1.Pod, node fwk.NodeInfo) *fwk.Status {
	c := readCycle(cs)
	id := model.NodeID(node.Node().Name)
	switch {
	case c == nil: // a profile that enables only the filter point
		r, err := f.engine.RequestIn(pod, f.profile.settings())
		if err != nil {
			return fwk.NewStatus(fwk.UnschedulableAndUnresolvable, err.Error())
		}
		if r == nil {
			return nil
		}
		c = &cycle{Cycle: kubeengine.Cycle{Request: r}}
	case c.Request.Vendor == "":
		return nil
	case c.released() && id == c.Node.ID && c.trials[id] == nil:
		return nil // its devices are held for it
	case c.released() && f.engine.Claims().Decides(pod, string(id)):
		return fwk.NewStatus(fwk.Unschedulable, "node(s) give GPUs by claims, and were not planned")
	}
	return refusalStatus(f.engine.Fit(c.Request, id, c.hypothesis(id)))
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

// PreFilterExtensions lets nominated pods and victims be tried out.
func (f *filter) PreFilterExtensions() fwk.PreFilterExtensions { return f }

// AddPod counts a pod on a node as if it were there: a nominated pod, or a victim that
// is reprieved.
func (f *filter) AddPod(_ context.Context, cs fwk.CycleState, _ *v1.Pod, added fwk.PodInfo, node fwk.NodeInfo) *fwk.Status {
	c, pod := readCycle(cs), added.GetPod()
	if c == nil {
		return nil
	}
	t := c.trial(model.NodeID(node.Node().Name))
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
	if c := readCycle(cs); c != nil {
		t := c.trial(model.NodeID(node.Node().Name))
		for _, h := range dialect.Holders(removed.GetPod()) {
			t.Without[h] = true
		}
	}
	return nil
}
