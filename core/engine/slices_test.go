package engine_test

import (
	"fmt"
	"testing"

	"github.com/tangram-dev/tangram/core/answer"
	"github.com/tangram-dev/tangram/core/arbiter"
	"github.com/tangram-dev/tangram/core/engine"
	"github.com/tangram-dev/tangram/core/measure"
	"github.com/tangram-dev/tangram/core/model"
	"github.com/tangram-dev/tangram/test/coretest"
)

// Slices count with their part of a GPU on mixed fleets, too: models that cannot be cut
// so do not make them cheaper. A queue of 2 GPUs runs two slices of a whole card.
func TestSlicesKeepLimits(t *testing.T) {
	w := newWorld(t, options(), []arbiter.Queue{{Name: "q", Capability: map[arbiter.Resource]int64{gpu: 2000}}},
		coretest.Node("cut").GPUs(8, "A100").Cuttable().Build(), coretest.Node("plain").GPUs(8, "T4").Build())
	slice := func(id, profile string) engine.Gang {
		g := simple(id, 1, 1)
		g.Queue = "q"
		g.Roles[0].Request = coretest.Request(1)
		g.Roles[0].Request.Containers[0].Part = model.Part{Kind: model.Slice, Profile: profile}
		return g
	}
	profiles := w.profiles("cut")
	for i := range 6 {
		w.submit(slice(fmt.Sprint("g", i), profiles[len(profiles)-1]))
	}
	w.decide()
	running := 0
	for i := range 6 {
		if w.runs(fmt.Sprint("g", i)) {
			running++
		}
	}
	if running != 2 {
		t.Errorf("%d slices of a whole GPU run in a queue of 2 GPUs", running)
	}
	if got := lines(w.tree, "q")[gpu].Used; got != 2000 {
		t.Errorf("%d thousandths are charged", got)
	}
}

// What is charged for a cut device is what its queue uses, not what of it is left over: three
// small slices are charged for three eighths, and leave half of the card.
func TestChargedIsNotHeld(t *testing.T) {
	w := newWorld(t, options(), []arbiter.Queue{{Name: "q"}}, coretest.Node("cut").GPUs(1, "A100").Cuttable().Build())
	for i := range 3 {
		g := simple(fmt.Sprint("g", i), 1, 1)
		g.Queue = "q"
		g.Roles[0].Request = coretest.Request(1)
		g.Roles[0].Request.Containers[0].Part = model.Part{Kind: model.Slice, Profile: "1g.5gb"}
		w.submit(g)
	}
	w.decide()
	s, _ := w.e.Nodes.NodeState("cut", answer.Open, measure.NewIdle(1, 0), second)
	if d, used := s.Devices[0], lines(w.tree, "q")[gpu].Used; int64(d.Charged) != used || d.Charged != 375 || d.Held != 500 || len(d.Holders) != 3 {
		t.Errorf("charged %d, held %d, by %d; the queue uses %d", d.Charged, d.Held, len(d.Holders), used)
	}
}

// profiles lists a node's MIG profiles, the smallest first.
func (w *world) profiles(id model.NodeID) []string {
	v, _ := w.l.View(id)
	var names []string
	most := 0
	for _, p := range v.Node.Devices[0].MIG {
		if p.Size >= most {
			names, most = append(names, p.Name), p.Size
		}
	}
	return names
}
