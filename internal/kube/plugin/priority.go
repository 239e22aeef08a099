package plugin

import (
	"context"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/tangram-dev/tangram/api/names"
	"github.com/tangram-dev/tangram/internal/dialect"
)

// priority is GPUPriority, seed 002's policy: nodes with more GPUs are better. It
// knows no ledger and works in any profile, also without Tangram's other plugins.
type priority struct{}

func (s *Shared) newPriority(_ context.Context, obj runtime.Object, h fwk.Handle) (fwk.Plugin, error) {
	if err := decodeArgs(obj, &struct{}{}); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.profile(h.ProfileName()).priority = true
	return &priority{}, nil
}

// Name is the plugin's name in configurations.
func (p *priority) Name() string { return names.PluginPriority }

// priorityKey is where a scheduling cycle keeps the resource the pod's GPUs are sold
// by.
const priorityKey fwk.StateKey = "tangram.dev/priority"

type soldBy v1.ResourceName

// Clone returns the value itself: it never changes.
func (s soldBy) Clone() fwk.StateData { return s }

// PreScore skips pods that ask for no GPU, and those whose request is invalid:
// turning them away is a filter's business.
func (p *priority) PreScore(_ context.Context, cs fwk.CycleState, pod *v1.Pod, _ []fwk.NodeInfo) *fwk.Status {
	r, err := dialect.Request(pod)
	if err != nil || r == nil {
		return fwk.NewStatus(fwk.Skip)
	}
	cs.Write(priorityKey, soldBy(dialect.WholeResource(r)))
	return nil
}

// Score is the number of GPUs of the vendor the node has, free or in use.
func (p *priority) Score(_ context.Context, cs fwk.CycleState, pod *v1.Pod, node fwk.NodeInfo) (int64, *fwk.Status) {
	var resource soldBy
	if data, err := cs.Read(priorityKey); err == nil {
		resource = data.(soldBy)
	} else { // a profile that enables only the score point, as the seed's does
		r, err := dialect.Request(pod)
		if err != nil || r == nil {
			return 0, nil
		}
		resource = soldBy(dialect.WholeResource(r))
	}
	gpus := node.Node().Status.Capacity[v1.ResourceName(resource)]
	return max(0, gpus.Value()), nil
}

// ScoreExtensions brings the counts to the framework's scale.
func (p *priority) ScoreExtensions() fwk.ScoreExtensions { return p }

// NormalizeScore makes the largest node 100 and the others their part of it. Seed 002
// returns the bare count, which the framework refuses above 100 and which weighs a
// fleet of small nodes less than one of large ones.
func (p *priority) NormalizeScore(_ context.Context, _ fwk.CycleState, _ *v1.Pod, scores fwk.NodeScoreList) *fwk.Status {
	most := int64(0)
	for _, s := range scores {
		most = max(most, s.Score)
	}
	if most == 0 {
		return nil
	}
	for i := range scores {
		scores[i].Score = scores[i].Score * fwk.MaxScore / most
	}
	return nil
}
