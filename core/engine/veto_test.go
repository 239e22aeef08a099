package engine_test

import (
	"slices"
	"testing"
	"time"

	"github.com/tangram-dev/tangram/core/engine"
	"github.com/tangram-dev/tangram/core/explain"
	"github.com/tangram-dev/tangram/core/model"
)

const vetoFirst = 10 * time.Millisecond

// shaped is a gang of one member of a shape.
func shaped(id string, s engine.Shape) engine.Gang {
	g := simple(id, 1, 1)
	g.Roles[0].Shape = s
	return g
}

// refuse lets kube-scheduler's filters refuse the planned node of a gang of one, and
// returns after how long it is planned again.
func (w *world) refuse(id string, late bool) time.Duration {
	w.t.Helper()
	h := model.HolderID(id + "/000")
	r := w.release(h)
	w.e.Tick(w.now)
	w.e.Refused(h, r.Node.ID, explain.Refusal{Code: explain.Filtered, Detail: "no"}, late)
	w.e.StartFailed(h, r.Ticket, true, "")
	began := w.now
	for w.step(0); !w.released(h); w.step(w.e.Figures.Wake() - w.now) {
		if w.e.Figures.Wake() <= w.now || w.now > began+int64(time.Hour) {
			w.t.Fatalf("%s is not planned again: the next step is due at %d, now is %d", id, w.e.Figures.Wake(), w.now)
		}
	}
	return time.Duration(w.now - began)
}

// TestVetoes: a refusal by a kube-scheduler that is late is short each time; others
// last twice as long each time, up to a bound, until the node takes such a pod.
func TestVetoes(t *testing.T) {
	w := releasing(t, 1, 4)
	w.submit(shaped("g", "a"))
	w.step(0)
	for range 5 {
		if d := w.refuse("g", true); d != vetoFirst {
			t.Errorf("late: %s", d)
		}
	}
	want := vetoFirst
	for range 14 {
		if d := w.refuse("g", false); d != want {
			t.Errorf("vetoed for %s, want %s", d, want)
		}
		want = min(2*want, 15*time.Second)
	}
	if d := w.refuse("g", true); d != vetoFirst {
		t.Errorf("late after many: %s", d)
	}
	w.e.Took("g/000", "n000")
	if d := w.refuse("g", false); d != vetoFirst {
		t.Errorf("after the node took it: %s", d)
	}
}

// TestVetoOfShape: a veto is about one shape and one node; shapes are per namespace, so
// what one namespace's pods are refused does not keep another's off (hole H3).
func TestVetoOfShape(t *testing.T) {
	w := releasing(t, 2, 1)
	w.submit(shaped("g", "team-a/x"))
	w.step(0)
	if at := w.release("g/000").Node.ID; at != "n000" {
		t.Fatalf("planned on %s", at)
	}
	for range 10 {
		w.e.Refused("g/000", "n000", explain.Refusal{Code: explain.Filtered, Detail: "no"}, false)
	}
	w.e.StartFailed("g/000", w.release("g/000").Ticket, true, "")
	if w.step(0); w.release("g/000").Node.ID != "n001" {
		at := w.release("g/000").Node.ID
		t.Errorf("planned on %s again", at)
	}
	w.submit(shaped("same", "team-a/x"), shaped("other", "team-b/x"))
	w.step(0)
	if w.released("same/000") {
		t.Error("the same shape is planned on a vetoed node")
	}
	if at := w.e.NodeOf("other/000"); at != "n000" {
		t.Errorf("another namespace's pod is on %q: the veto is not about it", at)
	}
}

// TestVetoEnds: a veto ends when the node changes, and not with another node's change.
func TestVetoEnds(t *testing.T) {
	w := releasing(t, 2, 1)
	w.submit(shaped("g", "a"))
	w.step(0)
	for range 12 {
		w.refuse("g", false)
	}
	for _, n := range []model.NodeID{"n000", "n001"} {
		w.e.Refused("g/000", n, explain.Refusal{Code: explain.Filtered}, false)
	}
	w.e.StartFailed("g/000", w.release("g/000").Ticket, true, "")
	if w.step(0); w.released("g/000") {
		t.Fatal("planned on a vetoed node")
	}
	if r := w.e.Why("g"); r.Never || r.Class() != explain.ForCapacity {
		t.Errorf("what filters refuse now may be otherwise later: %+v", r)
	}
	w.e.NodeRulesChanged("elsewhere")
	if w.step(1); w.released("g/000") {
		t.Error("another node's change ended the veto")
	}
	w.e.NodeRulesChanged("n001")
	if w.step(1); !w.released("g/000") || w.release("g/000").Node.ID != "n001" {
		t.Error("the node's change did not end the veto")
	}
}

// TestVetoForgotten: vetoes that ended long ago are forgotten, with their number.
func TestVetoForgotten(t *testing.T) {
	w := releasing(t, 1, 4)
	w.submit(shaped("g", "a"))
	w.step(0)
	for range 5 {
		w.refuse("g", false)
	}
	if w.e.Vetoes() == 0 {
		t.Error("nothing is remembered")
	}
	w.step(int64(time.Minute))
	if n := w.e.Vetoes(); n != 0 {
		t.Errorf("%d are remembered", n)
	}
	if d := w.refuse("g", false); d != vetoFirst {
		t.Errorf("after a minute: %s", d)
	}
}

// TestRefusedEverywhere: a shape that every node would refuse is told so as the decisive
// cause, and tried again later; where some nodes are excepted it goes there at once.
func TestRefusedEverywhere(t *testing.T) {
	w := releasing(t, 4, 1)
	w.submit(shaped("g", "a"))
	w.step(0)
	said := explain.Refusal{Code: explain.Filtered, Detail: `persistentvolumeclaim "data" not found`}
	w.e.RefusedEverywhere("g/000", said, nil)
	w.e.StartFailed("g/000", w.release("g/000").Ticket, true, "")
	if w.step(0); w.released("g/000") {
		t.Fatal("planned at once")
	}
	if r := w.e.Why("g"); r.Never || r.Detail != said.Detail || r.Class() != explain.ForCapacity {
		t.Errorf("%+v", r)
	}
	if w.step(w.e.Figures.Wake() - w.now); !w.released("g/000") {
		t.Fatal("not tried again")
	}
	w.e.RefusedEverywhere("g/000", said, []model.NodeID{"n002", "n003"})
	w.e.StartFailed("g/000", w.release("g/000").Ticket, true, "")
	w.step(0)
	some := []model.NodeID{w.release("g/000").Node.ID}
	// Where it may run stays known though the node takes it: other members may fail.
	w.e.Took("g/000", some[0])
	w.submit(shaped("next", "a"))
	w.step(0)
	some = append(some, w.release("next/000").Node.ID)
	if slices.Sort(some); !slices.Equal(some, []model.NodeID{"n002", "n003"}) {
		t.Errorf("planned on %v", some)
	}
}

// TestOnly: members whose volumes are on different nodes. Each is sent there as soon as
// that is known, and stays known while others fail.
func TestOnly(t *testing.T) {
	w := releasing(t, 8, 8)
	g := engine.Gang{ID: "g", Min: 4}
	for i, h := range holders("g", 0, 4) {
		role := simple("x", 1, 1).Roles[0]
		role.Members, role.Shape = []model.HolderID{h}, engine.Shape(rune('a'+i))
		g.Roles = append(g.Roles, role)
	}
	w.submit(g)
	for round := 0; ; round++ {
		if w.step(1); round > 8 {
			t.Fatal("they go round and round")
		}
		failed := false
		for i, h := range holders("g", 0, 4) { // as kube-scheduler's cycles go
			home := model.NodeID("n00" + string(rune('0'+2*i)))
			if r := w.release(h); r.Node.ID != home {
				w.e.RefusedEverywhere(h, explain.Refusal{Code: explain.Filtered, Detail: "elsewhere"}, []model.NodeID{home})
				w.e.StartFailed(h, r.Ticket, true, "")
				failed = true
				break
			}
			w.e.Took(h, home)
		}
		if !failed {
			return
		}
	}
}
