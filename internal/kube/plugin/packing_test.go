package plugin

import (
	"testing"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/kubernetes/pkg/scheduler/apis/config"

	"github.com/tangram-dev/tangram/api/names"
)

// TestPackNodes: Volcano's weights of resources become those of kube-scheduler's own score.
func TestPackNodes(t *testing.T) {
	complete := func(args string) *config.ScoringStrategy {
		fit := &config.NodeResourcesFitArgs{}
		p := config.KubeSchedulerProfile{
			SchedulerName: "x", Plugins: &config.Plugins{Score: config.PluginSet{Enabled: []config.Plugin{{Name: names.PluginScore}}}},
			PluginConfig: []config.PluginConfig{{Name: names.PluginScore, Args: &runtime.Unknown{Raw: []byte(args)}}, {Name: "NodeResourcesFit", Args: fit}},
		}
		Complete(&p)
		return fit.ScoringStrategy
	}
	got := complete(`{"volcano": {"binpack.weight": 5, "binpack.cpu": 2, "binpack.resources.nvidia.com/gpu": 10}}`)
	if got == nil || got.Type != config.MostAllocated || len(got.Resources) != 2 || got.Resources[1] != (config.ResourceSpec{Name: "nvidia.com/gpu", Weight: 10}) {
		t.Errorf("got %+v", got)
	}
	for _, args := range []string{`{}`, `{"volcano": {"binpack.cpu": "x"}}`, `{"unknown": 1}`} {
		if got := complete(args); got != nil {
			t.Errorf("%s: got %+v", args, got)
		}
	}
}
