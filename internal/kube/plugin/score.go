package plugin

import (
	"context"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/tangram-dev/tangram/api/names"
	"github.com/tangram-dev/tangram/core/model"
	"github.com/tangram-dev/tangram/core/score"
	"github.com/tangram-dev/tangram/internal/dialect"
	kubeengine "github.com/tangram-dev/tangram/internal/kube/engine"
)

// scorer is GPUScore.
type scorer struct {
	engine  *kubeengine.Engine
	profile *profile
}

var (
	_ fwk.PreScorePlugin = &scorer{}
	_ fwk.ScorePlugin    = &scorer{}
)

func (s *Shared) newScore(ctx context.Context, obj runtime.Object, h fwk.Handle) (fwk.Plugin, error) {
	e, p, args, err := enlist[ScoreArgs](ctx, s, h, obj)
	if err != nil {
		return nil, err
	}
	settings, err := args.Settings()
	if err != nil {
		return nil, err
	}
	p.weights, p.placements, p.tenants = settings.Weights, settings.Placements, &settings.Tenants
	if err := s.setTelemetryMaxAge(h.ProfileName(), settings.TelemetryMaxAge); err != nil {
		return nil, err
	}
	if p.filters { // GPUFilter may come before or after
		e.Own(h.ProfileName(), p.settings())
	}
	return &scorer{engine: e, profile: p}, nil
}

// Name is the plugin's name in configurations.
func (s *scorer) Name() string { return names.PluginScore }

// PreScore skips pods that take nothing a GPU needs.
func (s *scorer) PreScore(_ context.Context, cs fwk.CycleState, pod *v1.Pod, _ []fwk.NodeInfo) *fwk.Status {
	if readCycle(cs) != nil {
		return nil
	}
	r := dialect.HostRequest(pod)
	if r.Host == (model.Host{}) {
		return fwk.NewStatus(fwk.Skip)
	}
	cs.Write(hostKey, &cycle{Cycle: kubeengine.Cycle{Request: r}})
	return nil
}

// hostKey keeps what a pod without GPUs asks for; holders under cycleKey are given devices.
const hostKey fwk.StateKey = "tangram.dev/host"

// Score is the weighted mean of the objectives, 0..100. A pod without GPUs has one
// objective, not to take the CPU and memory that GPUs need to be of use.
func (s *scorer) Score(_ context.Context, cs fwk.CycleState, pod *v1.Pod, node fwk.NodeInfo) (int64, *fwk.Status) {
	c := readCycle(cs)
	if c == nil {
		data, err := cs.Read(hostKey)
		if err != nil {
			return 0, nil
		}
		rating := s.engine.Rate(data.(*cycle).Request, s.profile.weights, model.NodeID(node.Node().Name), "")
		return int64(rating.Card[score.Fragmentation]), nil
	}
	rating := s.engine.Rate(c.Request, s.profile.weights, model.NodeID(node.Node().Name), c.Holder)
	return int64(rating.Total) * fwk.MaxScore / score.Scale, nil
}

// ScoreExtensions is nil: scores are on one scale, and stretching them would add noise.
func (s *scorer) ScoreExtensions() fwk.ScoreExtensions { return nil }

// priority is GPUPriority, seed 002's policy: nodes with more GPUs are better. It
// knows no ledger and works in any profile, also without Tangram's other plugins.
type priority struct{}

var (
	_ fwk.PreScorePlugin  = &priority{}
	_ fwk.ScorePlugin     = &priority{}
	_ fwk.ScoreExtensions = &priority{}
)

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

// priorityKey is where a scheduling cycle keeps the resource the pod's GPUs are sold by.
const priorityKey fwk.StateKey = "tangram.dev/priority"

type soldBy v1.ResourceName

// Clone returns the value itself: it never changes.
func (s soldBy) Clone() fwk.StateData { return s }

// PreScore skips pods that ask for no GPU or whose request is invalid: filters reject those.
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

// NormalizeScore makes the largest node 100 and the others their part of it. Seed 002 returns
// the bare count, which the framework refuses above 100.
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
