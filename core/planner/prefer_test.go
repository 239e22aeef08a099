package planner_test

import (
	"fmt"
	"testing"

	"github.com/tangram-dev/tangram/core/model"
	"github.com/tangram-dev/tangram/core/planner"
	"github.com/tangram-dev/tangram/core/score"
	"github.com/tangram-dev/tangram/test/coretest"
)

// TestPreferredLevel: a request that prefers the rack of its group goes there, even if
// other nodes cost the fleet less. Without a group, or while the group runs nowhere, it
// goes where it costs least. The preference is not a requirement.
func TestPreferredLevel(t *testing.T) {
	l := coretest.Ledger(t)
	for i := range 1200 {
		_ = l.SetNode(coretest.Node(fmt.Sprintf("n%04d", i)).GPUs(2, "A100").Domains("z", fmt.Sprintf("r%d", i/4)).Build())
	}
	p := planner.New(l)
	ask := func(group string) *model.Request {
		r := coretest.Request(2)
		r.TenantPriority = 0
		r.Prefer.Level = model.Level{Name: "rack", Depth: 1}
		if group != "" {
			r.Labels = []model.Label{model.GroupLabel(group)}
		}
		return r
	}
	rackOf := func(r *model.Request, holder string) string {
		c, ok := p.Best(r, score.DefaultWeights())
		if !ok {
			t.Fatal("no place")
		}
		v, _ := l.View(c.Node)
		l.Put(c.Node, c.Grant.Claim(model.HolderID(holder), r, v.Node))
		return v.Node.Domains[1]
	}
	first := rackOf(ask("g"), "a")
	for _, holder := range []string{"b", "c", "d"} {
		if rack := rackOf(ask("g"), holder); rack != first {
			t.Errorf("%s is in rack %s, its group in %s", holder, rack, first)
		}
	}
	if rack := rackOf(ask("g"), "e"); rack == first {
		t.Errorf("a rack of 4 nodes has 5 holders of a whole node")
	}
	if rackOf(ask(""), "x") == "" || rackOf(ask("other"), "y") == "" {
		t.Error("no place without a group")
	}
}

// TestMeasuredNodesOfOneBucket: nodes that are alike but for what was measured on them
// are told apart, also when the cost to the fleet does not count.
func TestMeasuredNodesOfOneBucket(t *testing.T) {
	only := func(o score.Objective) (w score.Weights) { w[o] = 100; return w }
	hot := model.Telemetry{Temperature: model.Measured(85), Power: model.Measured(390), Utilization: model.Measured(95), MemoryUsed: model.Measured(70000)}
	cool := model.Telemetry{Temperature: model.Measured(40), Power: model.Measured(60), Utilization: model.Measured(0), MemoryUsed: model.Measured(0)}
	for name, w := range map[string]score.Weights{
		"all": score.DefaultWeights(), "temperature": only(score.Temperature), "power": only(score.Power),
		"utilization": only(score.LiveUtilization), "memory": only(score.LiveMemory),
	} {
		for _, placement := range []model.Placement{model.Auto, model.Spread} {
			for want := range 3 {
				l := coretest.Ledger(t)
				for i := range 3 {
					id := fmt.Sprintf("n%d", i)
					_ = l.SetNode(coretest.Node(id).GPUs(2, "A100-80GB").Build())
					reading := hot
					if i == want {
						reading = cool
					}
					l.SetTelemetry(model.NodeID(id), []model.Telemetry{reading, reading})
				}
				r := coretest.Request(1)
				r.NodePlacement = placement
				if c, ok := planner.New(l).Best(r, w); !ok || c.Node != model.NodeID(fmt.Sprintf("n%d", want)) {
					t.Errorf("%s, placement %v: chose %s, cool is n%d", name, placement, c.Node, want)
				}
			}
		}
	}
}
