package engine_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/tangram-dev/tangram/core/engine"
	"github.com/tangram-dev/tangram/core/model"
	"github.com/tangram-dev/tangram/test/coretest"
)

// In a large fleet victims are looked for on some racks at a time. Members of different
// sizes find them, and are in one rack all the same; so are subgroups.
func TestVictimsInOneRack(t *testing.T) {
	role := func(name string, gpus, from int) engine.Role {
		return engine.Role{Name: name, Subgroup: name, Request: coretest.Request(gpus), Members: holders("high", from, from+2)}
	}
	nested := engine.Gang{
		ID: "high", Priority: 10, Roles: []engine.Role{role("a", 4, 0), role("b", 3, 10), role("c", 1, 20)},
		Subgroups: []engine.Subgroup{
			{Name: "a", Min: 2, Require: rackLevel}, {Name: "bc", Require: rackLevel}, {Name: "b", Parent: "bc", Min: 2}, {Name: "c", Parent: "bc", Min: 2},
		},
	}
	flat := engine.Gang{ID: "high", Min: 4, Priority: 10, Require: rackLevel, Roles: []engine.Role{role("b", 3, 0), role("c", 1, 10)}}
	for i := range flat.Roles {
		flat.Roles[i].Min, flat.Roles[i].Subgroup = 2, ""
	}
	for name, high := range map[string]engine.Gang{"nested": nested, "flat": flat} {
		t.Run(name, func(t *testing.T) {
			w := newTest(t, 200, 4)
			for i := range 200 {
				w.submit(simple(fmt.Sprintf("low%03d", i), 1, 4))
			}
			for w.decide().More {
				w.now++
			}
			w.now += second
			w.submit(high)
			for range 30 {
				w.carryOut(w.decide())
				w.now += second
			}
			byRole := w.count("high")
			if slices.Max(byRole) != 2 || slices.Min(byRole) != 2 {
				t.Fatalf("members by role: %v", byRole)
			}
			var nodes []model.NodeID
			for _, r := range high.Roles {
				if r.Name != "a" {
					for _, h := range r.Members {
						nodes = append(nodes, w.placed["high"][h])
					}
				}
			}
			if d, ok := w.l.Domains().Common(nodes...); !ok || d.Depth < 1 {
				t.Errorf("on %v, which are in no one rack", nodes)
			}
		})
	}
}
