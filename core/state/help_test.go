package state_test

import (
	"testing"

	"github.com/tangram-dev/tangram/core/arbiter"
	"github.com/tangram-dev/tangram/core/ledger"
	"github.com/tangram-dev/tangram/core/planner"
	"github.com/tangram-dev/tangram/test/coretest"
)

// parts are a node of eight GPUs and two queues.
func parts(t *testing.T) (*ledger.Ledger, *planner.Planner, *arbiter.Tree) {
	t.Helper()
	l := ledger.New()
	if err := l.SetNode(coretest.Node("n").GPUs(8, "A100").Build()); err != nil {
		t.Fatal(err)
	}
	tree, err := arbiter.NewTree([]arbiter.Queue{{Name: "a"}, {Name: "b", Order: arbiter.RoundRobin}}, map[arbiter.Resource]int64{"cpu": 10, "gpu/nvidia": 8000})
	if err != nil {
		t.Fatal(err)
	}
	return l, planner.New(l), tree
}
