package gang_test

import (
	"fmt"
	"testing"

	"github.com/tangram-dev/tangram/core/explain"
	"github.com/tangram-dev/tangram/core/gang"
	"github.com/tangram-dev/tangram/core/model"
	"github.com/tangram-dev/tangram/test/coretest"
)

// A search without success ends after work that grows with the gang, not with the number of ways
// to spread it: counted in questions whether a member may use a node.
func TestSubgroupsWorkBounded(t *testing.T) {
	// Groups of a rack each, whose leaves may be anywhere in it: none is placed before all
	// racks are chosen.
	racks := func(sizes ...int) *gang.Ask {
		a := &gang.Ask{}
		for i, n := range sizes {
			name := fmt.Sprint("g", i)
			g := addGroup(a, gang.Group{Name: name, Parent: 0, Require: rack})
			leafOf(a, g, name+"-leaf", n, n, 1, model.Level{})
		}
		return a
	}
	var unlike, halves []int
	for i := range 10 {
		unlike = append(unlike, 2+i)
	}
	for i := range 21 { // more than half of a rack each, so each has one of its own
		halves = append(halves, 17+i%11)
	}
	// Leaves of a node each, all unlike: small ones, and one too many that take more than
	// half of a node.
	nodes := &gang.Ask{}
	for i := range 1024 {
		gpus := 1
		if i >= 1024-201 {
			gpus = 9
		}
		at := addGroup(nodes, gang.Group{Name: fmt.Sprint("g", i), Parent: 0, Min: 1, Require: node})
		nodes.Roles = append(nodes.Roles, gang.Role{
			Name: fmt.Sprint(i), Request: coretest.Request(gpus), Members: members(fmt.Sprint(i, "-"), 1), Group: at, Shape: fmt.Sprint(i),
		})
	}
	for _, c := range []struct {
		name        string
		a           *gang.Ask
		nodes, gpus int
		most        int
	}{
		{"one too big", racks(append(unlike, 33)...), 80, 8, 5_000},
		{"one rack too few", racks(halves...), 80, 8, 100_000},
		{"one node too few", nodes, 200, 16, 100_000},
	} {
		for _, terse := range []bool{true, false} {
			w := newWorld(t, uniform(c.nodes, c.gpus)...)
			asked := 0
			a := *c.a
			a.Terse = terse
			a.May = func(int, model.NodeID) *explain.Refusal { asked++; return nil }
			w.refuse(t, &a)
			t.Logf("%s: %d questions", c.name, asked)
			if asked > c.most {
				t.Errorf("%s: %d questions, at most %d", c.name, asked, c.most)
			}
		}
	}
}
