package engine_test

import (
	"testing"

	"github.com/tangram-dev/tangram/core/arbiter"
	"github.com/tangram-dev/tangram/core/cluster"
	"github.com/tangram-dev/tangram/test/coretest"
)

// A pod whose queue may not use the devices that were planned for it says nothing about
// pods alike in other queues.
func TestLimitOfOneQueueStopsNoOther(t *testing.T) {
	w := newWorld(t, options(), []arbiter.Queue{
		{Name: "a"},
		{Name: "b", Priority: 5, Capability: map[arbiter.Resource]int64{cluster.Model("a100"): 0}},
	}, coretest.Node("n").GPUs(8, "A100").Build())
	limited, free := simple("limited", 1, 1), simple("free", 1, 1)
	limited.Queue, free.Queue = "b", "a"
	w.submit(limited)
	w.submit(free)
	for range 4 {
		w.decide()
	}
	if !w.runs("free") {
		why := w.e.Why("free")
		t.Errorf("a pod that fits waits behind one of another queue: %s", why.String())
	}
}
