package engine_test

import (
	"testing"
	"time"

	"github.com/tangram-dev/tangram/core/arbiter"
	"github.com/tangram-dev/tangram/core/cluster"
	"github.com/tangram-dev/tangram/core/engine"
	"github.com/tangram-dev/tangram/core/explain"
	"github.com/tangram-dev/tangram/core/ledger"
	"github.com/tangram-dev/tangram/core/model"
	"github.com/tangram-dev/tangram/test/coretest"
)

func TestElasticStartsSmallAndGrows(t *testing.T) {
	w := newTest(t, 2, 4, arbiter.Queue{Name: "q", Capability: map[arbiter.Resource]int64{gpu: 7000}})
	w.submit(simple("a", 5, 1))
	w.decide()
	g := simple("elastic", 8, 1)
	g.Queue, g.Min = "q", 2
	w.submit(g)
	w.decide()
	if n := len(w.placed["elastic"]); n != 3 {
		t.Fatalf("%d members, want the 3 there is room for", n)
	}
	w.withdraw("a")
	w.decide()
	if n := len(w.placed["elastic"]); n != 7 {
		t.Fatalf("%d members, want 7: all its queue may use", n)
	}
	if r := w.e.Why("elastic"); r.Class() != explain.ForQuota {
		t.Errorf("%+v", r)
	}
	// A member went: it runs on, and gets another one.
	w.ended("elastic/000")
	w.decide()
	if n := len(w.placed["elastic"]); n != 7 {
		t.Fatalf("%d members", n)
	}
}

func TestRepairAndReasons(t *testing.T) {
	w := newTest(t, 4, 2)
	g := simple("g", 4, 1)
	w.submit(g)
	w.decide()
	w.submit(simple("other", 2, 2))
	w.decide()
	lost := model.HolderID("g/001")
	w.ended(lost)
	d := w.decide()
	if len(d.Starts) != 1 || !d.Starts[0].Repair || d.Starts[0].Plan.Placements[0].Holder != lost {
		t.Fatalf("%+v", d)
	}
	w.submit(simple("late", 3, 2))
	w.decide()
	if r := w.e.Why("late"); r.Never || r.Class() != explain.ForCapacity || r.String() != "waits for capacity: needs 3 members, 0 can be placed; for the next: 0/4 nodes fit: 4 have too few free GPUs (0 of 2)" {
		t.Errorf("%+v", r)
	}
	w.submit(simple("never", 5, 2))
	w.decide()
	if r := w.e.Why("never"); !r.Never || r.String() != "can never fit on the nodes there are: needs 5 members, 4 can be placed; for the next: 0/4 nodes fit: 4 have too few free GPUs (0 of 2)" {
		t.Errorf("%+v", r)
	}
	young := simple("young", 3, 1)
	young.Min = 4
	w.submit(young)
	if r := w.e.Why("young"); r.Code != explain.Members || r.String() != "waits for members: 3 of 4 exist" {
		t.Errorf("%+v", r)
	}
	if r := w.e.Why("g"); r.Is() {
		t.Errorf("%+v", r)
	}
}

// A gang that can never fit closes no queue, even in strict order.
func TestStrictOrder(t *testing.T) {
	o := options()
	o.Backfill, o.Preempt = false, false
	w := newWorld(t, o, nil, nodes(2, 4)...)
	w.submit(simple("a", 1, 4))
	w.decide()
	for i, g := range []engine.Gang{simple("never", 3, 4), simple("large", 2, 4), simple("small", 1, 1)} {
		g.Submitted = int64(i + 1)
		w.submit(g)
	}
	w.decide()
	if w.runs("small") || w.runs("large") {
		t.Fatal("a gang passed the first")
	}
	w.withdraw("a")
	w.decide()
	if !w.runs("large") || w.runs("small") {
		t.Fatal("the first did not start")
	}
	w.withdraw("large")
	w.decide()
	if !w.runs("small") {
		t.Fatal("a gang that can never fit closed the queue")
	}
}

func TestUndoWaitsAgain(t *testing.T) {
	w := newTest(t, 1, 4)
	g := simple("g", 4, 1)
	w.submit(g)
	d := w.decide()
	w.e.Undo("g", g.Roles[0].Members)
	clear(w.placed["g"])
	w.checkState()
	if d = w.decide(); len(d.Starts) != 1 {
		t.Fatalf("%+v", d)
	}
	// Who is bound stays.
	_, c, _ := w.l.Claim("g/002")
	c.Assumed = false
	w.e.Bound("n000", []model.HolderID{"g/002"}, []ledger.Claim{c})
	w.e.Undo("g", g.Roles[0].Members)
	if w.e.Placed("g") != 1 {
		t.Fatalf("%d placed", w.e.Placed("g"))
	}
}

func TestBadInput(t *testing.T) {
	w := newTest(t, 1, 4)
	w.submit(simple("a", 2, 1))
	b := simple("b", 2, 1)
	b.Roles[0].Members = holders("a", 0, 2)
	twice := simple("c", 2, 1)
	twice.Roles[0].Members[1] = twice.Roles[0].Members[0]
	low := simple("d", 2, 1)
	low.Roles[0].Min = 3
	for want, g := range map[string]engine.Gang{
		`gang "b": roles[0].members[0]: "a/000" is a member of gang "a"`: b,
		`gang "c": roles[0].members[1]: "c/000" is there twice`:          twice,
		`gang "d": min: 2 is below the sum of the roles' minimums, 3`:    low,
		`gang "": id: empty`: {},
	} {
		if err := w.e.Submit(g); err == nil || err.Error() != want {
			t.Errorf("%v, want %s", err, want)
		}
	}
	w.decide()
	if !w.runs("a") {
		t.Error("a does not run")
	}
}

// Members without GPUs are placed and counted, too.
func TestLauncher(t *testing.T) {
	n := coretest.Node("n").GPUs(2, "A100").Build()
	n.Host = model.Host{CPU: 4000, Memory: 1 << 20}
	limited := arbiter.Queue{Name: arbiter.Default, Capability: map[arbiter.Resource]int64{cluster.CPU: 4000}} // so it is counted
	w := newWorld(t, options(), []arbiter.Queue{limited}, n)
	g := simple("g", 2, 1)
	g.Roles = append(g.Roles, engine.Role{Name: "launcher", Request: &model.Request{Host: model.Host{CPU: 1000}}, Members: holders("launcher", 0, 1), Min: 1})
	g.Min = 3
	w.submit(g)
	if d := w.e.Decide(0); len(d.Starts) != 1 || len(d.Starts[0].Plan.Placements) != 3 {
		t.Fatalf("%+v", d)
	}
	if got := lines(w.tree, "default")[cluster.CPU].Used; got != 1000 {
		t.Errorf("%d CPU in use", got)
	}
}

// TestMayChanges: a cordon keeps a gang waiting until it is taken away, and the gang is
// not told that it never fits.
func TestMayChanges(t *testing.T) {
	open := false
	o := options()
	o.Facts = facts{may: func(engine.Shape, model.NodeID) bool { return open }}
	w := newWorld(t, o, nil, nodes(1, 4)...)
	w.submit(simple("g", 4, 1))
	w.decide()
	if r := w.e.Why("g"); r.Never || r.String() != "waits for capacity: needs 4 members, 0 can be placed; for the next: 0/1 nodes fit: 1 is cordoned" || w.runs("g") {
		t.Errorf("%+v", r)
	}
	open = true
	w.e.Changed()
	w.decide()
	if !w.runs("g") {
		t.Error("does not start")
	}
}

// TestOtherPodEnds: devices of a pod that is in no gang are free when it ends.
func TestOtherPodEnds(t *testing.T) {
	w := newTest(t, 1, 4)
	v, _ := w.l.View("n000")
	w.e.Bound("n000", []model.HolderID{"other"}, []ledger.Claim{coretest.WholeClaim("other", v.Node, coretest.Request(4), v.Free(model.NVIDIA))})
	w.submit(simple("g", 4, 1))
	w.e.Decide(0)
	w.e.Decide(1)
	w.e.Ended("other")
	w.now = int64(time.Second)
	w.decide()
	if !w.runs("g") {
		t.Error("does not start")
	}
}
