package scoring

import (
	"maps"
	"strings"
	"testing"

	"github.com/tangram-dev/tangram/core/model"
	"github.com/tangram-dev/tangram/core/score"
)

// TestVolcanoArgs: arguments of binpack and deviceshare mean what they mean in Volcano, or
// are refused by name.
func TestVolcanoArgs(t *testing.T) {
	a := Args{Volcano: VolcanoArgs{
		"binpack.weight": "5", "binpack.cpu": 1.0, "binpack.memory": int64(0), "binpack.resources": "nvidia.com/gpu, example.com/foo", "binpack.resources.nvidia.com/gpu": "10",
		"deviceshare.ScheduleWeight": "10", "deviceshare.VGPUEnable": true, "deviceshare.NodeLockEnable": false,
	}}
	s, err := a.Settings()
	if err != nil || s.Placements.Otherwise != model.Binpack || s.Weights[score.Utilization] != 10 {
		t.Errorf("got %+v, %v", s, err)
	}
	if got, want := a.NodeResources(), (map[string]int64{"cpu": 1, "nvidia.com/gpu": 10, "example.com/foo": 1}); !maps.Equal(got, want) {
		t.Errorf("got %v", got)
	}
	a = Args{Placement: "binpack", Volcano: VolcanoArgs{"deviceshare.SchedulePolicy": "spread"}}
	if s, err := a.Settings(); err != nil || s.Placements.Otherwise != model.Binpack {
		t.Errorf("our own word does not go first: %+v, %v", s, err)
	}
	a = Args{Volcano: VolcanoArgs{"binpack.weight": 0.0, "binpack.cpu": 5.0}}
	if s, err := a.Settings(); err != nil || s.Placements.Otherwise != model.Auto || a.NodeResources() != nil {
		t.Errorf("a plugin that is off: %+v, %v, %v", s, err, a.NodeResources())
	}
	for key, value := range map[string]any{
		"binpack.weight": "much", "binpack.gpu": 1.0, "binpack.resources.x/y": 1000.0, "deviceshare.SchedulePolicy": "tight", "deviceshare.ScheduleWeight": -1.0,
		"deviceshare.GPUSharingEnable": false, "deviceshare.NodeLockEnable": "true", "deviceshare.GPUExclusiveRules": []any{}, "deviceshare.KnownGeometriesCMName": "x", "gang.x": 1.0,
	} {
		a := Args{Volcano: VolcanoArgs{key: value}}
		if _, err := a.Settings(); err == nil || !strings.HasPrefix(err.Error(), "volcano["+key+"]: ") {
			t.Errorf("%s: got %v", key, err)
		}
	}
}
