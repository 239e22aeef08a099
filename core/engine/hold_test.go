package engine_test

import (
	"slices"
	"testing"

	"github.com/tangram-dev/tangram/core/ledger"
	"github.com/tangram-dev/tangram/core/model"
	"github.com/tangram-dev/tangram/test/coretest"
)

// TestConfirmedStays: what the API confirms stays until the pod is gone, whatever
// becomes of its gang: it is withdrawn, described without the member, or the member
// joins another gang. What is only promised goes at once.
func TestConfirmedStays(t *testing.T) {
	w := releasing(t, 2, 4)
	g := simple("g", 2, 4)
	w.submit(g)
	w.step(0)
	w.bind("g/000")
	w.step(0) // the other is planned again, by itself
	if w.held() != 2 {
		t.Fatalf("%d held", w.held())
	}
	confirmed := func(when string, want int) {
		t.Helper()
		node, c, held := w.l.Claim("g/000")
		if !held || c.Assumed || node == "" || w.held() != want {
			t.Errorf("%s: held %v, assumed %v, %d holders", when, held, c.Assumed, w.held())
		}
		if err := w.l.Audit(); err != nil {
			t.Error(err)
		}
	}
	without := g
	without.Min, without.Roles = 1, slices.Clone(g.Roles)
	without.Roles[0].Members = []model.HolderID{"g/001"}
	w.submit(without)
	confirmed("described without it", 2)
	w.withdraw("g")
	confirmed("withdrawn", 1)
	// It turns up in another gang, where it runs.
	other := simple("other", 1, 4)
	other.Roles[0].Members = []model.HolderID{"g/000"}
	w.submit(other)
	confirmed("in another gang", 1)
	if w.e.Placed("other") != 1 || lines(w.tree, "default")[gpu].Used != 4000 {
		t.Errorf("%d placed, %v charged", w.e.Placed("other"), lines(w.tree, "default"))
	}
	if r, ok := w.e.Release("g/000"); ok {
		t.Errorf("a pod that runs is released: %+v", r)
	}
	w.e.Ended("g/000")
	if w.held() != 0 || w.e.Placed("other") != 0 {
		t.Errorf("%d held after it ended", w.held())
	}
}

// TestBoundAsPromised: a record that equals the promise frees nothing, so that shapes
// without a place are not planned anew with every Binding. Another node, other devices
// or fewer of them do free something.
func TestBoundAsPromised(t *testing.T) {
	for name, tt := range map[string]struct {
		change func(*ledger.Claim, *model.Node) model.NodeID
		frees  bool
	}{
		"as promised":  {func(*ledger.Claim, *model.Node) model.NodeID { return "n000" }, false},
		"another node": {func(*ledger.Claim, *model.Node) model.NodeID { return "n001" }, true},
		"other devices": {func(c *ledger.Claim, n *model.Node) model.NodeID {
			*c = coretest.WholeClaim("g/000", n, coretest.Request(2), 0b1100)
			return "n000"
		}, true},
		"fewer devices": {func(c *ledger.Claim, n *model.Node) model.NodeID {
			*c = coretest.WholeClaim("g/000", n, coretest.Request(1), 0b1)
			return "n000"
		}, true},
	} {
		t.Run(name, func(t *testing.T) {
			w := releasing(t, 2, 4)
			w.submit(simple("g", 1, 2))
			w.step(0)
			r := w.release("g/000")
			w.e.Reserved("g/000", r.Ticket)
			_, c, _ := w.l.Claim("g/000")
			c.Assumed = false
			node := tt.change(&c, r.Node)
			before := w.e.RoomVersion()
			w.e.Bound(node, []model.HolderID{"g/000"}, []ledger.Claim{c})
			if got := w.e.RoomVersion() != before; got != tt.frees {
				t.Errorf("frees %v", got)
			}
			if at, _ := w.l.Held("g/000"); at != node || w.e.NodeOf("g/000") != node || w.held() != 1 {
				t.Errorf("on %s, %d held", at, w.held())
			}
			if w.released("g/000") {
				t.Error("it is still released")
			}
		})
	}
}

// TestBoundElsewhere: a member that another scheduler binds keeps what it has, and the
// others are planned beside it.
func TestBoundElsewhere(t *testing.T) {
	w := releasing(t, 4, 4)
	w.submit(simple("g", 3, 4))
	w.step(0)
	w.e.Reserved("g/000", w.release("g/000").Ticket)
	free := model.NodeID("n003")
	v, _ := w.l.View(free)
	w.e.Bound(free, []model.HolderID{"g/001"}, []ledger.Claim{coretest.WholeClaim("g/001", v.Node, coretest.Request(4), v.Free(model.NVIDIA))})
	fx := w.e.Effects()
	if want := []model.HolderID{"g/000", "g/002"}; !slices.Equal(fx.Stop, want) {
		t.Errorf("told to stop: %v, want %v", fx.Stop, want)
	}
	fx = w.step(1)
	if len(fx.Released) != 2 || w.held() != 3 || w.e.NodeOf("g/001") != free {
		t.Errorf("%+v, %d held", fx, w.held())
	}
}

// TestAssume: the extender's promises are held outside of any gang, end with Unassume,
// and are not taken from a pod that was bound meanwhile.
func TestAssume(t *testing.T) {
	w := releasing(t, 1, 4)
	r, refusal := w.e.Assume("p", coretest.Request(3), "n000")
	if refusal != nil || r.Grant.Set.Count() != 3 {
		t.Fatalf("%+v, %v", r, refusal)
	}
	if _, refusal := w.e.Assume("q", coretest.Request(2), "n000"); refusal == nil {
		t.Error("devices were promised twice")
	}
	if _, refusal := w.e.Assume("q", coretest.Request(1), "nowhere"); refusal == nil {
		t.Error("devices of no node were promised")
	}
	w.submit(simple("g", 1, 2))
	if w.step(0); w.released("g/000") {
		t.Error("promised devices were given to another pod")
	}
	w.e.Unassume("p")
	if w.step(1); !w.released("g/000") {
		t.Error("what was taken back is not used")
	}
	if _, refusal = w.e.Assume("p", coretest.Request(1), "n000"); refusal != nil {
		t.Fatal(refusal)
	}
	w.bind("p")
	w.e.Unassume("p")
	if w.held() != 2 {
		t.Error("a bound pod lost its devices")
	}
}
