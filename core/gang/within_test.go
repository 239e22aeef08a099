package gang_test

import (
	"testing"

	"github.com/tangram-dev/tangram/core/model"
)

// Nodes that a gang is restricted to may be of several racks: it is in one of them.
func TestWithinKeepsLevel(t *testing.T) {
	w := newWorld(t, uniform(8, 8)...)
	a := ask(2, 8)
	a.Require = rack
	a.Within = []model.NodeID{"n00000", "n00004", "n00005"}
	if got := nodesOf(w.plan(t, a)); len(got) != 2 || got[0] != "n00004" || got[1] != "n00005" {
		t.Errorf("on %v", got)
	}
	a = ask(3, 8)
	a.Require = rack
	a.Within = []model.NodeID{"n00000", "n00004", "n00005"}
	w.refuse(t, a)
}
