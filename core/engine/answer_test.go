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
	"github.com/tangram-dev/tangram/core/measure"
	"github.com/tangram-dev/tangram/core/model"
	"github.com/tangram-dev/tangram/test/coretest"
)

// TestAnswersAgree: on random states, node by node and gang by gang, the answers add up to
// the census and to each other.
func TestAnswersAgree(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := newWorld(t, options(), []arbiter.Queue{{Name: "a"}, {Name: "b"}}, nodes(3, 4)...)
		n := rapid.IntRange(0, 8).Draw(t, "gangs")
		for i := range n {
			g := simple(fmt.Sprint("g", i), rapid.IntRange(1, 3).Draw(t, "members"), rapid.IntRange(1, 4).Draw(t, "GPUs"))
			g.Queue = rapid.SampledFrom([]string{"a", "b", "", "nowhere"}).Draw(t, "queue")
			if rapid.Bool().Draw(t, "incomplete") {
				g.Min += 2
			}
			if err := w.e.Submit(g); err != nil {
				t.Fatal(err)
			}
		}
		for w.e.Decide(second).More {
		}
		idle := measure.NewIdle(1, 0)
		c := w.e.Count(open, idle, second)
		var census, devices, held, charged int64
		for _, f := range c.Fleet {
			census += f.Milli[answer.Allocated]
		}
		for _, id := range w.e.Nodes.DeviceNodes() {
			s, there := w.e.Nodes.NodeState(id, answer.Open, idle, second)
			if !there {
				t.Fatalf("%s is not there", id)
			}
			for _, d := range s.Devices {
				devices += int64(d.Held)
				for _, h := range d.Holders {
					held += int64(h.Milli)
				}
				charged += int64(d.Charged)
				if (d.Mode == answer.NotHeld) != (len(d.Holders) == 0) || (d.Use == answer.Free) != (d.Held == 0) {
					t.Fatalf("%s: %+v", id, d)
				}
			}
		}
		list := w.e.Gangs.List()
		slices.SortFunc(list, answer.Listed.Compare)
		var order []engine.ID
		for _, turn := range w.e.Gangs.Turns(n) {
			order = append(order, turn.ID)
		}
		var ids []engine.ID
		for _, l := range list {
			ids = append(ids, l.ID)
		}
		if len(ids) != n || len(slices.Compact(slices.Sorted(slices.Values(ids)))) != n {
			t.Fatalf("%d gangs in order %v", n, ids)
		}
		var milli int64
		running := 0
		for _, id := range ids {
			s, there := w.e.GangState(id)
			if !there {
				t.Fatalf("%s is not there", id)
			}
			placed, bound := w.e.Gangs.CountSeats(id)
			if s.Placed != placed || s.Bound != bound || (s.Phase == answer.Waiting) != (placed == 0) {
				t.Fatalf("%+v: %d placed, %d bound", s, placed, bound)
			}
			if s.Phase == answer.Waiting {
				if running > 0 {
					t.Fatalf("%s waits, and is behind one that runs: %v", id, ids)
				}
			} else {
				running++
				milli += s.Milli
			}
			if slices.Contains(order, id) && s.Phase != answer.Waiting {
				t.Fatalf("%s has a turn, and runs", id)
			}
			for _, h := range s.Roles[0].Members {
				parts := w.e.Nodes.PartsOf(h)
				if (w.e.NodeOf(h) != "") != (len(parts) > 0) {
					t.Fatalf("%s is on %q with %v", h, w.e.NodeOf(h), parts)
				}
			}
		}
		if census != devices || devices != held || held != milli || charged != held {
			t.Fatalf("allocated: census %d, devices %d, holders %d, gangs %d", census, devices, held, milli)
		}
		sums := w.e.Figures.Sums(open)
		if sums.Nodes[answer.Open] != 3 || sums.RunningGangs != running {
			t.Fatalf("%+v, %d run", sums, running)
		}
		for _, l := range list {
			if g, _ := w.e.Gang(l.ID); l.Waits != (w.e.Placed(l.ID) == 0) || l.Name != g.Name || l.Queue == "" {
				t.Fatalf("%+v of %+v", l, g)
			}
		}
	})
}

// Devices that are shared, cut, sick or kept say so.
func TestNodeState(t *testing.T) {
	w := newTest(t, 1, 2)
	if _, err := w.e.SetNode(coretest.Node("sick").GPUs(2, "V100").Health(0, model.Failed).Health(1, model.Suspect).Build(), nil); err != nil {
		t.Fatal(err)
	}
	s, _ := w.e.Nodes.NodeState("sick", answer.Open, measure.NewIdle(1, 0), second)
	if s.Devices[0].Use != answer.FailedDevice || s.Devices[1].Use != answer.DegradedDevice {
		t.Errorf("%+v", s.Devices)
	}
	if s, _ := w.e.Nodes.NodeState("sick", answer.NodeLost, measure.NewIdle(1, 0), second); s.Devices[1].Use != answer.FailedDevice {
		t.Errorf("lost: %+v", s.Devices)
	}
	if _, there := w.e.Nodes.NodeState("nowhere", answer.Open, measure.NewIdle(1, 0), second); there {
		t.Error("a node that is not there")
	}
	w.submit(simple("one", 1, 2))
	w.decide()
	at, _ := w.l.Held("one/000")
	s, _ = w.e.Nodes.NodeState(at, answer.NodeCordoned, measure.NewIdle(1, 0), second)
	for _, d := range s.Devices {
		if d.Use != answer.Allocated || d.Mode.String() != "whole" || d.Held != model.FullMilli || len(d.Holders) != 1 || d.Holders[0].Holder != "one/000" || !d.Holders[0].Assumed {
			t.Errorf("%+v", d)
		}
	}
}

// BenchmarkAnswers is what questions cost under the engine's lock, each part of an answer by
// itself: 1,000 nodes of 8 devices, 7,000 gangs that run, 5,000 that wait, each of another
// kind. "longest" is the longest single hold.
func BenchmarkAnswers(b *testing.B) {
	var queues []arbiter.Queue
	for i := range 20 {
		queues = append(queues, arbiter.Queue{Name: fmt.Sprint("q", i)})
	}
	fleet := nodes(1000, 8)
	for _, n := range fleet {
		n.Host.CPU = 1_000_000
	}
	w := newWorld(b, options(), queues, fleet...)
	submit := func(prefix string, n int, gpus func(i int) int) {
		for i := range n {
			g := simple(fmt.Sprint(prefix, i), 1, gpus(i))
			g.Queue = fmt.Sprint("q", i%20)
			g.Roles[0].Request.Host.CPU = int64(i % 500)
			if err := w.e.Submit(g); err != nil {
				b.Fatal(err)
			}
			w.e.Arrive(g.Roles[0].Request)
		}
	}
	submit("run", 7000, func(int) int { return 1 })
	for w.e.Decide(second).More {
	}
	submit("wait", 5000, func(int) int { return 8 })
	for w.e.Decide(second).More {
	}
	idle := measure.NewIdle(1, 0)
	ids := w.e.Gangs.Turns(1000)
	at := w.e.Nodes.DeviceNodes()
	for _, part := range []struct {
		name string
		run  func()
	}{
		{"order of 5,000 gangs", func() { w.e.Gangs.Turns(5000) }},
		{"order of 1,000 gangs", func() { w.e.Gangs.Turns(1000) }},
		{"list of gangs", func() { w.e.Gangs.List() }},
		{"256 gangs", func() {
			for _, turn := range ids[:256] {
				w.e.GangState(turn.ID)
			}
		}},
		{"64 nodes", func() {
			for _, id := range at[:64] {
				w.e.Nodes.NodeState(id, answer.Open, idle, second)
			}
		}},
		{"names of nodes", func() { w.e.Nodes.DeviceNodes() }},
		{"sums", func() { w.e.Figures.Sums(open) }},
		{"accounts", func() { w.e.Tree().Accounts() }},
		{"find by name", func() { w.e.Gangs.Named("x/y") }},
	} {
		b.Run(part.name, func(b *testing.B) {
			longest := time.Duration(0)
			for b.Loop() {
				began := time.Now()
				part.run()
				longest = max(longest, time.Since(began))
			}
			b.ReportMetric(float64(longest.Microseconds()), "longest-µs")
		})
	}
}
