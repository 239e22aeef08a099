package engine_test

import (
	"testing"

	"github.com/tangram-dev/tangram/core/arbiter"
	"github.com/tangram-dev/tangram/core/engine"
	"github.com/tangram-dev/tangram/core/explain"
)

// Amounts are told in units people use, also where they are the whole cluster's.
func TestWhyInUnits(t *testing.T) {
	w := newTest(t, 2, 4, arbiter.Queue{Name: "kept", Guarantee: map[arbiter.Resource]int64{gpu: 3000}})
	w.submit(simple("first", 1, 4), simple("next", 1, 2), simple("large", 2, 3))
	w.decide()
	for id, want := range map[string]string{
		"next":  "waits for capacity: of 8 nvidia GPUs in queue root, 7 nvidia GPUs are in use or kept for guarantees, needs 2 nvidia GPUs",
		"large": "can never start beside what is guaranteed to other queues: of 8 nvidia GPUs in queue root, 3 nvidia GPUs are in use or kept for guarantees, needs 6 nvidia GPUs",
	} {
		if r := w.e.Why(engine.ID(id)); r.Class() != explain.ForCapacity || r.String() != want {
			t.Errorf("%s: %+v, want %q", id, r, want)
		}
	}
}
