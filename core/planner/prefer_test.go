package planner_test

import (
	"fmt"
	"testing"

	"github.com/tangram-dev/tangram/core/coretest"
	"github.com/tangram-dev/tangram/core/ledger"
	"github.com/tangram-dev/tangram/core/model"
	"github.com/tangram-dev/tangram/core/planner"
	"github.com/tangram-dev/tangram/core/score"
)

// TestPreferredLevel: a request that prefers the rack of its group goes there, even if
// other nodes cost the fleet less. Without a group, or while the group runs nowhere, it
// goes where it costs least. The preference is not a requirement.
func TestPreferredLevel(t *testing.T) {
	l := ledger.New()
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
