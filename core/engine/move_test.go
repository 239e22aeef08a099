package engine_test

import (
	"testing"

	"github.com/tangram-dev/tangram/core/engine"
	"github.com/tangram-dev/tangram/core/model"
)

// TestMove: a member that starts alone may take another node, and holds exactly one
// claim afterwards; what it leaves is free for others at once.
func TestMove(t *testing.T) {
	o := options()
	o.BatchTimeout = batchTimeout
	o.Facts = facts{may: func(s engine.Shape, n model.NodeID) bool { return s != "only n000" || n == "n000" }}
	w := newWorld(t, o, nil, nodes(3, 4)...)
	g := simple("g", 1, 4)
	w.submit(g)
	w.step(0)
	r := w.release("g/000")
	if r.Node.ID != "n000" || !r.Alone {
		t.Fatalf("%+v", r)
	}
	other := simple("other", 1, 4)
	other.Roles[0].Shape = "only n000"
	w.submit(other)
	if w.step(0); w.e.Placed("other") != 0 {
		t.Fatal("no node is free for it")
	}
	same, refusal := w.e.Move("g/000", r.Ticket, "n000")
	if refusal != nil || same.Node.ID != "n000" || w.held() != 1 {
		t.Fatalf("%v, %v", same, refusal)
	}
	moved, refusal := w.e.Move("g/000", r.Ticket, "n001")
	if refusal != nil || moved.Node.ID != "n001" || moved.Ticket != r.Ticket {
		t.Fatalf("%v, %v", moved, refusal)
	}
	if node, set := w.l.Held("g/000"); node != "n001" || set.Count() != 4 || w.held() != 1 || w.e.NodeOf("g/000") != "n001" {
		t.Errorf("%b on %s, %d holders", set, node, w.held())
	}
	if !w.e.Holds("g/000", r.Ticket) {
		t.Error("it may not be bound where it went")
	}
	if used := lines(w.tree, "default")[gpu].Used; used != 4000 {
		t.Errorf("%d are charged", used)
	}
	if w.step(1); w.e.NodeOf("other/000") != "n000" {
		t.Error("what it left is not used")
	}
	for node, why := range map[model.NodeID]string{"n000": "a full node", "nowhere": "a node that is not there"} {
		if _, refusal := w.e.Move("g/000", r.Ticket, node); refusal == nil {
			t.Errorf("it moved to %s", why)
		}
		if at, set := w.l.Held("g/000"); at != "n001" || set.Count() != 4 || !w.e.Holds("g/000", r.Ticket) {
			t.Errorf("after %s: %b on %s", why, set, at)
		}
	}
}

// TestMoveStaysWithGang: a member of a gang does not leave its planned node.
func TestMoveStaysWithGang(t *testing.T) {
	w := releasing(t, 3, 4)
	w.submit(simple("g", 2, 4))
	w.step(0)
	r := w.release("g/000")
	if _, refusal := w.e.Move("g/000", r.Ticket, "n002"); refusal == nil {
		t.Error("a member moved alone")
	}
	if at, _ := w.l.Held("g/000"); at != r.Node.ID {
		t.Errorf("it is on %s", at)
	}
}

// TestMoveTakesOwn: a member of a gang whose planned node is the one asked for has its
// place.
func TestMoveTakesOwn(t *testing.T) {
	w := releasing(t, 3, 4)
	w.submit(simple("g", 2, 4))
	w.step(0)
	r := w.release("g/000")
	if got, refusal := w.e.Move("g/000", r.Ticket, r.Node.ID); refusal != nil || got.Ticket != r.Ticket {
		t.Errorf("%+v, %v", got, refusal)
	}
}
