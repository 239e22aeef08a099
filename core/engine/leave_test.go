package engine_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/tangram-dev/tangram/core/arbiter"
	"github.com/tangram-dev/tangram/core/engine"
	"github.com/tangram-dev/tangram/core/explain"
	"github.com/tangram-dev/tangram/core/model"
)

// leaves says of gangs of one member that they terminate.
func (w *world) leaves(ids ...string) {
	for _, id := range ids {
		w.e.Leaves(model.HolderID(id+"/000"), w.now+int64(time.Minute))
	}
}

// TestLeavingIsRoom: gangs that are ending make room for an urgent one, so that fewer are
// evicted, or none; and no other gang takes what is freed meanwhile.
func TestLeavingIsRoom(t *testing.T) {
	for _, need := range []int{2, 3} {
		t.Run(fmt.Sprint(need), func(t *testing.T) {
			w := newTest(t, 1, 4)
			w.fill(4, 1)
			w.leaves("low001", "low002")
			w.submit(urgent("u", 1, need))
			w.submit(simple("small", 1, 1))
			if n := w.carryOut(w.decide()); n != need-2 {
				t.Fatalf("%d were evicted, two GPUs of %d are being freed", n, need)
			}
			for _, id := range []engine.ID{"low001", "low002"} {
				w.withdraw(id)
				w.now += second
				if d := w.decide(); len(d.Evicts) > 0 || w.runs("small") {
					t.Fatalf("%+v", d)
				}
			}
			if !w.runs("u") {
				t.Error("u does not run")
			}
		})
	}
}

// TestRestartInTheMiddle: victims are half gone when the scheduler is started anew. The
// gang they made room for gets it, though that is not stored; victims that are created
// again do not take it, not even to repair their gang; no other gang is evicted.
func TestRestartInTheMiddle(t *testing.T) {
	w := newTest(t, 2, 4)
	half := simple("half", 2, 2) // evicted whole: the other two are gone
	half.Min = 4
	half.Roles[0].Members = holders("half", 0, 4)
	other := simple("other", 2, 1)
	w.submit(half)
	w.decide()
	w.now += second
	// A new engine on the same ledger. Two of the four have a place and go away, so
	// they stand alone; two were made anew.
	w.e = engine.New(w.l, w.p, w.newTree(), w.o)
	w.tree = w.e.Tree()
	old := w.placed["half"]
	delete(w.gangs, "half")
	delete(w.placed, "half")
	for i, h := range holders("half", 0, 4) {
		if i >= 2 {
			w.e.Ended(h)
			continue
		}
		g := engine.Gang{ID: engine.ID(fmt.Sprint("going", i)), Min: 1, Preemptible: true,
			Roles: []engine.Role{{Request: half.Roles[0].Request, Members: []model.HolderID{h}}}}
		w.submit(g)
		w.e.Found(h, old[h], 0)
		w.placed[g.ID][h] = old[h]
		w.e.Leaves(h, w.now+int64(time.Minute))
	}
	half.Roles[0].Members = holders("again", 0, 4)
	w.submit(urgent("u", 2, 4), half, other)
	for _, gone := range []engine.ID{"going0", "going1", ""} {
		if d := w.decide(); len(d.Evicts) > 0 || w.runs("half") || w.runs("other") {
			t.Fatalf("%+v", d)
		}
		w.now += second
		if gone != "" {
			w.withdraw(gone)
		}
	}
	if !w.runs("u") {
		t.Error("u does not run")
	}
}

// TestLeavingIsQuota: what those who go use of a queue is no reason to evict more.
func TestLeavingIsQuota(t *testing.T) {
	w := newTest(t, 2, 4, arbiter.Queue{Name: "q", Capability: map[arbiter.Resource]int64{gpu: 4000}})
	w.singles("low", "q", 4)
	w.decide()
	w.now += second
	w.leaves("low0", "low1")
	g := urgent("u", 2, 1)
	g.Queue = "q"
	w.submit(g)
	if d := w.decide(); len(d.Evicts) > 0 || len(d.Starts) > 0 {
		t.Fatalf("%+v", d)
	}
	w.withdraw("low0")
	w.withdraw("low1")
	if w.decide(); !w.runs("u") {
		t.Error("u does not run")
	}
}

// TestEqualsInheritNothing: for a gang that may not evict no nodes are kept when another ends.
func TestEqualsInheritNothing(t *testing.T) {
	w := newTest(t, 1, 4)
	w.fill(3, 1)
	w.leaves("low000")
	w.submit(simple("pair", 1, 2))
	w.decide()
	w.submit(simple("small", 1, 1))
	if w.decide(); !w.runs("small") {
		t.Error("a free device is kept for a gang that may not evict")
	}
}

// TestKeptInVain: a gang cannot use the nodes that were freed for it. They are not kept
// for long, and it finds others.
func TestKeptInVain(t *testing.T) {
	o := options()
	refused := map[model.NodeID]bool{}
	o.Facts = facts{may: func(_ engine.Shape, id model.NodeID) bool { return !refused[id] }}
	w := newWorld(t, o, nil, nodes(2, 4)...)
	w.fill(2, 4)
	w.submit(urgent("u", 1, 4))
	d := w.decide()
	if len(d.Evicts) != 1 {
		t.Fatalf("%+v", d)
	}
	victim := d.Evicts[0].Members[0]
	id, _ := w.e.Of(victim)
	refused[w.e.NodeOf(victim)] = true
	w.withdraw(id)
	for range 60 {
		if w.carryOut(w.decide()) > 0 {
			break
		}
		w.now += second
	}
	if w.decide(); !w.runs("u") {
		t.Error("u waits for nodes it cannot use")
	}
}

// TestTakenOverAndUndone: kube-scheduler has not heard yet that the victims are gone, and
// refuses the gang that took over what they left. The nodes are kept for it a little
// longer: no other gang takes them meanwhile.
func TestTakenOverAndUndone(t *testing.T) {
	w := newTest(t, 1, 4)
	w.fill(2, 2)
	w.leaves("low000", "low001")
	w.submit(urgent("u", 1, 4))
	w.decide()
	w.withdraw("low000")
	w.withdraw("low001")
	w.now += second
	w.decide()
	if !w.runs("u") {
		t.Fatal("u does not run")
	}
	w.e.Refused("u/000", "n000", explain.Refusal{Code: explain.Filtered, Detail: "Insufficient cpu"}, true)
	w.e.Undo("u", []model.HolderID{"u/000"})
	delete(w.placed["u"], "u/000")
	w.submit(simple("small", 1, 1))
	w.decide()
	if w.runs("small") {
		t.Error("small took what the victims left for u")
	}
	w.now += int64(20 * time.Second)
	w.decide()
	if !w.runs("u") {
		t.Error("u does not start again")
	}
}
