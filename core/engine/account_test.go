package engine_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/tangram-dev/tangram/core/answer"
	"github.com/tangram-dev/tangram/core/arbiter"
	"github.com/tangram-dev/tangram/core/engine"
	"github.com/tangram-dev/tangram/core/explain"
	"github.com/tangram-dev/tangram/core/model"
	"github.com/tangram-dev/tangram/test/coretest"
)

// TestTurns: gangs that are alike start in the order of their turns, whatever the policy of
// their queue, and each has one.
func TestTurns(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		policy := rapid.SampledFrom([]arbiter.Policy{arbiter.FIFO, arbiter.Priority, arbiter.ShortestFirst}).Draw(t, "policy")
		w := newWorld(t, options(), []arbiter.Queue{{Name: "q", Order: policy}}, nodes(1, 1)...)
		w.submit(simple("holder", 1, 1))
		w.decide()
		count := rapid.IntRange(1, 8).Draw(t, "count")
		for i := range count {
			g := simple(fmt.Sprintf("g%d", i), 1, 1)
			g.Queue, g.Submitted, g.Preemptible = "q", rapid.Int64Range(1, 5).Draw(t, "submitted"), false
			g.Priority, g.Runtime = int32(rapid.IntRange(0, 2).Draw(t, "priority")), time.Duration(rapid.IntRange(0, 3).Draw(t, "runtime"))*time.Hour
			g.NeverPreempts = true
			w.submit(g)
		}
		turns := w.e.Gangs.Turns(100)
		if len(turns) != count || len(w.e.Gangs.Turns(1)) != 1 {
			t.Fatalf("%d gangs wait, %v have turns", count, turns)
		}
		w.withdraw("holder")
		for _, turn := range turns {
			plan := w.decide()
			if len(plan.Starts) != 1 || plan.Starts[0].Gang != turn.ID {
				t.Fatalf("%v start, %s is next", plan.Starts, turn.ID)
			}
			w.withdraw(turn.ID)
		}
	})
}

// TestAccount: members with their places, sums, ends, and what priority would help.
func TestAccount(t *testing.T) {
	w := newTest(t, 1, 4)
	runs := simple("runs", 2, 1)
	runs.Priority, runs.Runtime, runs.Namespace = 5, time.Hour, "a"
	w.submit(runs)
	w.decide()
	waits := simple("waits", 2, 2)
	waits.Priority, waits.Namespace = 3, "a"
	other := simple("other", 1, 4)
	other.Priority, other.Namespace, other.Submitted = 4, "b", 1
	w.submit(waits, other)
	w.decide()
	a, ok := w.e.Account("runs")
	if !ok || a.Milli != 2000 || a.Missing != 0 || a.Exist != 2 || len(a.Members) != 2 || a.Members[0].Node != "n000" || a.Members[0].Bound || a.Lower != 0 {
		t.Errorf("runs: %+v", a)
	}
	if s := w.e.Expect("runs", &explain.Reason{}); s.Known != answer.Now {
		t.Errorf("runs: %+v", s)
	}
	a, _ = w.e.Account("waits")
	if a.Milli != 4000 || a.Missing != 2 || a.Lower != 1 || a.Above != 5 || w.e.Gangs.NextEnd() != int64(time.Hour) {
		t.Errorf("waits: %+v", a)
	}
	if _, ok := w.e.Account("none"); ok {
		t.Error("an unknown gang has an account")
	}
}

// TestExpect: never for what time does not cure, reserved with a time, else not known.
func TestExpect(t *testing.T) {
	o := options()
	o.Patience = 0
	w := newWorld(t, o, []arbiter.Queue{{Name: "shut", Closed: true}}, nodes(2, 4)...)
	first := simple("first", 2, 4)
	first.Runtime = time.Hour
	w.submit(first)
	w.decide()
	large, shut, few := simple("large", 1, 9), simple("shut", 1, 1), simple("few", 2, 1)
	shut.Queue = "shut"
	few.Min = 3
	big := simple("big", 2, 4)
	w.submit(large, shut, few, big)
	w.decide()
	for id, want := range map[engine.ID]answer.Knowledge{"large": answer.NotEver, "shut": answer.NotEver, "few": answer.NotKnown, "big": answer.Reserved} {
		r := w.e.Why(id)
		s := w.e.Expect(id, &r)
		if s.Known != want || (s.Known == answer.Reserved) != (s.At > 0) || s.Because == "" {
			t.Errorf("%s: %+v for %s", id, s, r.String())
		}
		if id == "big" && (s.At != int64(time.Hour) || len(s.Nodes) != 2) {
			t.Errorf("big: %+v", s)
		}
	}
}

// TestMerits: the place of a holder is rated as if it were free, others are given best
// first, all nodes are accounted for, and nothing is changed.
func TestMerits(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := newWorld(t, options(), nil, nodes(rapid.IntRange(1, 6).Draw(t, "nodes"), 4)...)
		total := rapid.IntRange(1, 8).Draw(t, "gangs")
		for i := range total {
			w.submit(simple(fmt.Sprintf("g%d", i), 1, rapid.IntRange(1, 4).Draw(t, "gpus")))
		}
		w.decide()
		before := w.l.String()
		for id, placed := range w.placed {
			for h, node := range placed {
				m, ok := w.e.Nodes.Merits(h, 3)
				if !ok || m.Node != node || !m.Fits || m.Rating.Total <= 0 || m.Rating.Total != m.Weights.Total(m.Rating.Card) {
					t.Fatalf("%s on %s: %+v", h, node, m)
				}
				rated := map[model.NodeID]bool{node: true}
				for _, o := range m.Others {
					if rated[o.Node] || o.Rating.Total <= 0 {
						t.Fatalf("%s: %+v", h, m.Others)
					}
					rated[o.Node] = true
				}
				if n := m.Refused.Nodes(); n != len(slices.Collect(w.l.Nodes())) || m.Refused.Fit() < 1+len(m.Others) {
					t.Fatalf("%s: %d nodes, %d fit, %d others", h, n, m.Refused.Fit(), len(m.Others))
				}
				if w.l.String() != before {
					t.Fatalf("the question changed the ledger")
				}
			}
			_ = id
		}
		if _, ok := w.e.Nodes.Merits("unknown", 3); ok {
			t.Fatal("who is nowhere has merits")
		}
	})
}

// TestWhyNamesNodes: a cause that nodes have comes with some of them.
func TestWhyNamesNodes(t *testing.T) {
	w := newTest(t, 5, 4)
	for i := range 5 {
		w.submit(simple(fmt.Sprintf("g%d", i), 1, 3))
	}
	w.decide()
	w.submit(engine.Gang{ID: "waits", Min: 1, Roles: []engine.Role{{Request: coretest.Request(2), Members: holders("waits", 0, 1)}}})
	r := w.e.Why("waits")
	lines := r.Nodes.Lines()
	if len(lines) != 1 || lines[0].Code != explain.Taken || fmt.Sprint(lines[0].Examples()) != "[n000 n001 n002]" {
		t.Errorf("%+v", lines)
	}
}
