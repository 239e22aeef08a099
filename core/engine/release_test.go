package engine_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/tangram-dev/tangram/core/engine"
	"github.com/tangram-dev/tangram/core/explain"
	"github.com/tangram-dev/tangram/core/ledger"
	"github.com/tangram-dev/tangram/core/model"
	"github.com/tangram-dev/tangram/test/coretest"
)

const batchTimeout = 2 * time.Minute

// releasing is a world in which starts are carried out by releases, as in the scheduler.
func releasing(t *testing.T, count, gpus int) *world {
	t.Helper()
	o := options()
	o.BatchTimeout = batchTimeout
	return newWorld(t, o, nil, nodes(count, gpus)...)
}

// step makes a decision some time later and returns what is to be carried out.
func (w *world) step(later int64) engine.Effects {
	w.t.Helper()
	w.now += later
	w.e.Decide(w.now)
	if err := w.l.Audit(); err != nil {
		w.t.Fatal(err)
	}
	return w.e.Effects()
}

// release is a holder's release, which must exist.
func (w *world) release(h model.HolderID) engine.Release {
	w.t.Helper()
	r, ok := w.e.Release(h)
	if !ok {
		w.t.Fatalf("%s has no release", h)
	}
	return r
}

func (w *world) released(h model.HolderID) bool { _, ok := w.e.Release(h); return ok }

// bind confirms the place of a release, as the API does with the pod's record.
func (w *world) bind(h model.HolderID) {
	w.t.Helper()
	node, c, held := w.l.Claim(h)
	if !held {
		w.t.Fatalf("%s holds nothing", h)
	}
	c.Assumed, c.Since = false, w.now/second
	w.e.Bound(node, []model.HolderID{h}, []ledger.Claim{c})
}

// held is how many holders the ledger knows.
func (w *world) held() int { _, n := w.l.Size(); return n }

// TestStaleTicket: after a release is taken back nothing can be done with its ticket,
// also when the member has been released again.
func TestStaleTicket(t *testing.T) {
	w := releasing(t, 2, 4)
	w.submit(simple("g", 2, 4))
	if fx := w.step(0); len(fx.Released) != 2 || fx.Released[0].Ticket == fx.Released[1].Ticket || fx.Released[0].Alone {
		t.Fatalf("%+v", fx)
	}
	old := w.release("g/000")
	w.e.StartFailed("g/001", w.release("g/001").Ticket, true, "")
	if fx := w.e.Effects(); w.held() != 0 || !slices.Equal(fx.Stop, []model.HolderID{"g/000"}) || len(fx.Revoked) != 2 {
		t.Fatalf("%d held, %+v", w.held(), fx)
	}
	check := func(when string) {
		t.Helper()
		if w.e.Holds("g/000", old.Ticket) {
			t.Errorf("%s: a Binding may be written by a stale ticket", when)
		}
		if _, _, ok := w.e.Reserved("g/000", old.Ticket); ok {
			t.Errorf("%s: a member passes Permit by a stale ticket", when)
		}
		if _, refusal := w.e.Move("g/000", old.Ticket, old.Node.ID); refusal == nil {
			t.Errorf("%s: a place is taken by a stale ticket", when)
		}
		if w.e.Alternatives("g/000", old.Ticket, 10) != nil {
			t.Errorf("%s: a stale ticket has alternatives", when)
		}
	}
	check("while it waits")
	w.step(second)
	check("after the next release")
	again := w.release("g/000")
	if again.Ticket == old.Ticket || !w.e.Holds("g/000", again.Ticket) {
		t.Fatalf("%+v", again)
	}
	w.e.StartFailed("g/000", old.Ticket, false, "late")
	if fx := w.e.Effects(); w.held() != 2 || len(fx.Revoked)+len(fx.Stop) > 0 || !w.e.Holds("g/000", again.Ticket) {
		t.Errorf("a late failure undid the next plan: %d held, %+v", w.held(), fx)
	}
	if r := w.e.Why("g"); r.Is() {
		t.Errorf("a late failure is remembered: %+v", r)
	}
	w.e.Seen("g/000", old.Ticket)
	if fx := w.step(4 * second); !slices.Contains(fx.Activate, "g/000") {
		t.Error("a stale ticket counts as a scheduling cycle that began")
	}
}

// TestBatch: members that are planned together go when the last is reserved, and only
// one of them is told so.
func TestBatch(t *testing.T) {
	w := releasing(t, 3, 4)
	w.submit(simple("g", 3, 4))
	w.step(0)
	for i, h := range holders("g", 0, 3) {
		ready, others, ok := w.e.Reserved(h, w.release(h).Ticket)
		if !ok || ready != (i == 2) {
			t.Fatalf("member %d: ready %v, ok %v", i, ready, ok)
		}
		if ready && !slices.Equal(others, holders("g", 0, 2)) {
			t.Errorf("others %v", others)
		}
	}
	// From here on each stands for itself.
	w.bind("g/000")
	w.e.StartFailed("g/001", w.release("g/001").Ticket, true, "")
	if fx := w.e.Effects(); len(fx.Stop) > 0 || w.held() != 2 || !w.released("g/002") {
		t.Errorf("%d held, %+v", w.held(), fx)
	}
	if w.released("g/000") {
		t.Error("a bound member has a release")
	}
}

// TestBatchTimeout: a batch that does not come together in time is taken back, and the
// gang rests, longer each time; the next success ends that.
func TestBatchTimeout(t *testing.T) {
	w := releasing(t, 2, 4)
	w.submit(simple("g", 2, 4))
	w.step(0)
	var rests []int64
	for range 3 {
		w.e.Reserved("g/000", w.release("g/000").Ticket)
		if fx := w.step(int64(batchTimeout) - 1); len(fx.Stop) > 0 || w.held() != 2 {
			t.Fatalf("too early: %+v", fx)
		}
		if wake := w.e.Figures.Wake(); wake > w.now+1 {
			t.Fatalf("the next step is due in %s, the batch ends in 1ns", time.Duration(wake-w.now))
		}
		fx := w.step(1)
		slices.Sort(fx.Stop)
		if !slices.Equal(fx.Stop, holders("g", 0, 2)) || w.held() != 0 || len(fx.Released) > 0 {
			t.Fatalf("%d held, %+v", w.held(), fx)
		}
		if r := w.e.Why("g"); r.Code != explain.BackOff || r.Detail != "kube-scheduler did not schedule all members in time" {
			t.Errorf("%+v", r)
		}
		began := w.now
		for !w.released("g/000") {
			if w.step(w.e.Figures.Wake() - w.now); w.now > began+int64(time.Hour) {
				t.Fatal("it is not started again")
			}
		}
		rests = append(rests, (w.now-began)/second)
	}
	if !slices.Equal(rests, []int64{1, 2, 4}) {
		t.Errorf("it rested for %v s", rests)
	}
	for _, h := range holders("g", 0, 2) {
		w.e.Reserved(h, w.release(h).Ticket)
	}
	for _, h := range holders("g", 0, 2) {
		w.bind(h)
	}
	w.ended("g/001")
	w.step(second)
	w.step(int64(batchTimeout))
	began := w.now
	for !w.released("g/001") && w.now < began+int64(time.Minute) {
		w.step(w.e.Figures.Wake() - w.now)
	}
	if w.now-began != second {
		t.Errorf("after it ran it rests for %s", time.Duration(w.now-began))
	}
}

// TestNudges: a released member that does not come to its cycle is activated again
// twice; then it is taken for lost and queued again. A member whose cycle began is left
// alone (hole H16).
func TestNudges(t *testing.T) {
	w := releasing(t, 2, 4)
	w.submit(simple("lost", 1, 4), simple("seen", 1, 4))
	w.step(0)
	w.e.Seen("seen/000", w.release("seen/000").Ticket)
	var activated, requeued []int64
	for w.now < 20*second {
		fx := w.step(max(1, w.e.Figures.Wake()-w.now))
		if slices.Contains(fx.Activate, "seen/000") || slices.Contains(fx.Requeue, "seen/000") {
			t.Fatalf("its cycle began: %+v", fx)
		}
		if slices.Contains(fx.Activate, "lost/000") {
			activated = append(activated, w.now/second)
		}
		if slices.Contains(fx.Requeue, "lost/000") {
			requeued = append(requeued, w.now/second)
		}
	}
	if !slices.Equal(activated, []int64{3, 6}) || !slices.Equal(requeued[:2], []int64{9, 12}) {
		t.Errorf("activated at %v, queued again at %v", activated, requeued)
	}
	if w.held() != 2 {
		t.Error("it lost its place meanwhile")
	}
}

// TestBindTries: a member whose Binding fails while the others are bound keeps its place
// and tries again there, after a pause; not for ever.
func TestBindTries(t *testing.T) {
	w := releasing(t, 2, 4)
	w.submit(simple("g", 2, 4))
	w.step(0)
	for _, h := range holders("g", 0, 2) {
		w.e.Reserved(h, w.release(h).Ticket)
	}
	w.bind("g/000")
	w.submit(simple("other", 1, 4))
	last, tries := w.release("g/001"), 0
	for ; w.held() == 2 && tries < 100; tries++ {
		w.e.StartFailed("g/001", last.Ticket, false, "conflict")
		if w.held() < 2 {
			break
		}
		if _, early := w.e.Release("g/001"); early {
			t.Fatalf("try %d: no pause", tries)
		}
		if fx := w.e.Effects(); len(fx.Stop) > 0 {
			t.Fatalf("try %d: %v are told to stop, and are bound", tries, fx.Stop)
		}
		if w.step(second); w.e.Placed("other") > 0 {
			t.Fatal("another gang took its place")
		}
		next := w.release("g/001")
		if next.Ticket == last.Ticket || next.Node.ID != last.Node.ID || next.Grant.Set != last.Grant.Set {
			t.Fatalf("try %d: %+v, was %+v", tries, next, last)
		}
		if ready, others, ok := w.e.Reserved("g/001", next.Ticket); !ready || len(others) > 0 || !ok {
			t.Fatalf("try %d: it waits for members that are bound: %v %v %v", tries, ready, others, ok)
		}
		last = next
	}
	if tries != 8 {
		t.Errorf("%d tries", tries)
	}
	if r := w.e.Why("g"); r.Class() != explain.ForTurn || r.Detail != "conflict" {
		t.Errorf("%+v", r)
	}
}

// TestBindTriesPause: between two tries of a Binding that failed there is a pause, so
// that an API server that is down is not called in a loop (hole H19).
func TestBindTriesPause(t *testing.T) {
	w := releasing(t, 2, 4)
	w.submit(simple("g", 2, 4))
	w.step(0)
	for _, h := range holders("g", 0, 2) {
		w.e.Reserved(h, w.release(h).Ticket)
	}
	w.bind("g/000")
	w.e.Effects()
	w.e.StartFailed("g/001", w.release("g/001").Ticket, false, "connection refused")
	again := func(fx engine.Effects) bool {
		return slices.ContainsFunc(fx.Released, func(r engine.Release) bool { return r.Holder == "g/001" }) || slices.Contains(fx.Activate, "g/001")
	}
	if fx := w.e.Effects(); again(fx) || !slices.Contains(fx.Revoked, "g/001") {
		t.Errorf("tried again at once: %+v", fx)
	}
	if fx := w.step(second - 1); again(fx) {
		t.Errorf("tried again within a second: %+v", fx)
	}
	if wake := w.e.Figures.Wake(); wake != w.now+1 {
		t.Errorf("the next step is due in %s", time.Duration(wake-w.now))
	}
	if fx := w.step(1); !again(fx) || w.held() != 2 {
		t.Errorf("not tried again after a second: %+v, %d held", fx, w.held())
	}
}

// TestSingleRests: a single pod whose Binding fails gives its place back and rests.
func TestSingleRests(t *testing.T) {
	w := releasing(t, 1, 4)
	w.submit(simple("g", 1, 4), simple("other", 1, 4))
	w.step(0)
	w.e.Reserved("g/000", w.release("g/000").Ticket)
	w.e.StartFailed("g/000", w.release("g/000").Ticket, false, "conflict")
	if fx := w.step(0); w.held() != 1 || w.e.Placed("other") != 1 || !slices.Contains(fx.Revoked, "g/000") {
		t.Errorf("%+v", fx)
	}
}

// TestMemberEnds: a member that ends while others wait for it ends their wait.
func TestMemberEnds(t *testing.T) {
	w := releasing(t, 3, 4)
	g := simple("g", 3, 4)
	w.submit(g)
	w.step(0)
	w.e.Reserved("g/000", w.release("g/000").Ticket)
	w.e.Ended("g/001")
	fx := w.e.Effects()
	if want := []model.HolderID{"g/000", "g/002"}; !slices.Equal(fx.Stop, want) || w.held() != 0 || len(fx.Revoked) != 3 {
		t.Errorf("%d held, %+v", w.held(), fx)
	}
	// The same when the gang is described without it, or withdrawn.
	for name, gone := range map[string]func(){
		"described": func() {
			g.Roles = slices.Clone(g.Roles)
			g.Roles[0].Members = []model.HolderID{"g/000", "g/002"}
			w.submit(g)
		},
		"withdrawn": func() { w.withdraw("g") },
	} {
		w.submit(simple("g", 3, 4))
		if fx := w.step(second); len(fx.Released) != 3 {
			t.Fatalf("%s: %+v", name, fx)
		}
		gone()
		if fx := w.e.Effects(); w.held() != 0 || len(fx.Revoked) != 3 || w.e.Open() != 0 {
			t.Errorf("%s: %d held, %d open, %+v", name, w.held(), w.e.Open(), fx)
		}
	}
}

// TestHolds: a Binding may be written only while the ledger gives the member exactly the
// devices of its release.
func TestHolds(t *testing.T) {
	w := releasing(t, 1, 4)
	w.submit(simple("g", 1, 2))
	w.step(0)
	r := w.release("g/000")
	if !w.e.Holds("g/000", r.Ticket) {
		t.Fatal("it does not hold what it was given")
	}
	// A pod was bound meanwhile to one of these devices: what the API confirms goes
	// before what was promised.
	taken := model.Mask(0)
	for slot := range r.Grant.Set.Slots() {
		taken = 1 << slot
		break
	}
	w.e.Bound("n000", []model.HolderID{"x"}, []ledger.Claim{coretest.WholeClaim("x", r.Node, coretest.Request(1), taken)})
	if w.e.Holds("g/000", r.Ticket) {
		_, set := w.l.Held("g/000")
		t.Errorf("holds %b of %b, and x holds %b", set, r.Grant.Set, taken)
	}
}

// TestHoldsBesideUnrecorded: the same when the other pod was bound by hand and no record
// says to which devices: a Binding would overbook the node. What other nodes' pods, or
// devices that vanished, are short of does not count.
func TestHoldsBesideUnrecorded(t *testing.T) {
	w := releasing(t, 1, 4)
	w.submit(simple("g", 1, 2))
	w.step(0)
	r := w.release("g/000")
	byHand := func(h model.HolderID, gpus int) {
		w.e.Bound("n000", []model.HolderID{h}, []ledger.Claim{{Holder: h, Vendor: model.NVIDIA, Count: gpus}})
	}
	if byHand("x", 2); !w.e.Holds("g/000", r.Ticket) {
		t.Error("there is room for both")
	}
	if byHand("y", 1); w.e.Holds("g/000", r.Ticket) {
		t.Error("a Binding would overbook the node")
	}
	w.e.Ended("y")
	w.e.Bound("n000", []model.HolderID{"npu"}, []ledger.Claim{{Holder: "npu", Vendor: model.Vendors[1], Count: 1}})
	if w.e.Nodes.Overbooked("n000") == 0 || !w.e.Holds("g/000", r.Ticket) {
		t.Error("another vendor's devices are missing, and it is kept from being bound")
	}
}

// TestHoldsAfterNodeChange: the node was replaced by one without the devices.
func TestHoldsAfterNodeChange(t *testing.T) {
	w := releasing(t, 1, 4)
	w.submit(simple("g", 1, 4))
	w.step(0)
	r := w.release("g/000")
	w.e.RemoveNode("n000")
	if w.e.Holds("g/000", r.Ticket) {
		t.Error("it holds devices of a node that is gone")
	}
	if _, err := w.e.SetNode(coretest.Node("n000").GPUs(2, "A100").Build(), nil); err != nil {
		t.Fatal(err)
	}
	if w.e.Holds("g/000", r.Ticket) {
		t.Error("it holds four devices of a node that has two")
	}
}

// TestAlternatives: other nodes for a release, as if the member held nothing; none that
// are vetoed or kept for another gang.
func TestAlternatives(t *testing.T) {
	w := releasing(t, 4, 4)
	w.submit(simple("g", 1, 4))
	w.step(0)
	r := w.release("g/000")
	w.e.Refused("g/000", "n002", explain.Refusal{Code: explain.Filtered}, false)
	got := w.e.Alternatives("g/000", r.Ticket, 10)
	slices.Sort(got)
	if !slices.Equal(got, []model.NodeID{"n001", "n003"}) {
		t.Errorf("%v", got)
	}
	if got := w.e.Alternatives("g/000", r.Ticket, 1); len(got) != 1 {
		t.Errorf("%v", got)
	}
	if !w.e.Holds("g/000", r.Ticket) {
		t.Error("asking changed what it holds")
	}
}

// TestSuspend: while the API server cannot be written to nothing is started; the pauses
// grow, many failures within one count once, and a write that succeeds ends it.
func TestSuspend(t *testing.T) {
	w := releasing(t, 1, 4)
	w.submit(simple("g", 1, 4))
	var pauses []int64
	for range 6 {
		began := w.now
		for range 5 {
			w.e.Suspend() // many starts fail for one cause
		}
		if w.step(0); w.held() > 0 || !w.e.Suspended() {
			t.Fatal("started meanwhile")
		}
		for w.held() == 0 && w.now < began+int64(time.Minute) {
			w.step(w.e.Figures.Wake() - w.now)
		}
		pauses = append(pauses, (w.now-began)/second)
		w.e.StartFailed("g/000", w.release("g/000").Ticket, true, "")
	}
	if want := []int64{1, 2, 4, 8, 15, 15}; !slices.Equal(pauses, want) {
		t.Errorf("paused for %v s, want %v", pauses, want)
	}
	w.e.Suspend()
	w.e.Resume()
	if w.step(0); w.held() != 1 || w.e.Suspended() {
		t.Error("not resumed")
	}
}

// unplaceable are gangs that fit nowhere, each of another shape.
func (w *world) unplaceable(n int) {
	for i := range n {
		g := simple(fmt.Sprintf("big%03d", i), 1, 1)
		g.Submitted = int64(i)
		g.Priority = 100
		g.Roles[0].Request.Host.CPU = int64(200_000 + i)
		w.submit(g)
	}
}

// TestUnplaceableShapes: gangs of many shapes that fit nowhere do not keep one from
// starting that fits, though they are before it (hole H1): it starts in the first pass
// over them, whose steps follow each other, however few gangs a step may try, and
// whatever is freed meanwhile.
func TestUnplaceableShapes(t *testing.T) {
	const shapes = 300
	for _, effort := range []int{2560, 160, 1} {
		for _, freeing := range []bool{false, true} {
			t.Run(fmt.Sprintf("effort %d, freeing %v", effort, freeing), func(t *testing.T) {
				o := options()
				o.Effort = effort
				host := nodes(2, 4)
				for _, n := range host {
					n.Host = model.Host{CPU: 96_000, Memory: 1 << 40}
				}
				w := newWorld(t, o, nil, host...)
				w.unplaceable(shapes)
				fits := simple("fits", 1, 1)
				fits.Submitted = shapes + 1
				w.submit(fits)
				steps := 0
				pass := func() {
					t.Helper()
					for before := steps; !w.runs("fits"); {
						steps++
						d := w.decide()
						if w.runs("fits") {
							return
						}
						if !d.More {
							t.Fatalf("step %d ends without it, and no other follows", steps)
						}
						if steps-before > shapes/max(1, effort/20)+2 {
							t.Fatalf("not started in %d steps", steps)
						}
						if freeing { // something ends in every step
							w.e.Changed()
						}
					}
				}
				pass()
				// One that comes later, of a shape of its own, does not wait for long either.
				w.withdraw("fits")
				w.decide()
				fits = simple("fits", 1, 2)
				fits.Submitted = shapes + 2
				w.submit(fits)
				steps = 0
				pass()
			})
		}
	}
}

// TestUnplaceableShapesWait: once a pass has found them unplaceable they cost no plan,
// and no further step, until something changes.
func TestUnplaceableShapesWait(t *testing.T) {
	o := options()
	o.Effort = 160
	w := newWorld(t, o, nil, nodes(1, 4)...)
	w.unplaceable(100)
	for w.decide().More {
	}
	w.now += second
	if d := w.decide(); d.More {
		t.Error("nothing changed, and they are tried again")
	}
	if r := w.e.Why("big000"); !r.Never {
		t.Errorf("%+v", r)
	}
}
