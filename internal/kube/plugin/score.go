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

// hostKey is where a cycle keeps what a pod without GPUs asks for: apart from
// cycleKey, whose holders are given devices.
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

// ScoreExtensions is nil: scores are on one scale already, and stretching small
// differences would only make noise louder.
func (s *scorer) ScoreExtensions() fwk.ScoreExtensions { return nil }

var (
	_ fwk.PreScorePlugin  = &priority{}
	_ fwk.ScorePlugin     = &priority{}
	_ fwk.ScoreExtensions = &priority{}
)
