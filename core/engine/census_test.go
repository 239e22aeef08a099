package engine_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/tangram-dev/tangram/core/answer"
	"github.com/tangram-dev/tangram/core/arbiter"
	"github.com/tangram-dev/tangram/core/engine"
	"github.com/tangram-dev/tangram/core/measure"
	"github.com/tangram-dev/tangram/core/model"
	"github.com/tangram-dev/tangram/test/coretest"
)

func open(model.NodeID) answer.Condition { return answer.Open }

// Six nodes of two: one in use, one idle, one sick, one cordoned, one lost, one open.
func TestCensus(t *testing.T) {
	w := newTest(t, 3, 2, arbiter.Queue{Name: "a", Guarantee: map[arbiter.Resource]int64{gpu: 2000}, Capability: map[arbiter.Resource]int64{gpu: 5000}}, arbiter.Queue{Name: "b"})
	if _, err := w.e.SetNode(coretest.Node("sick").GPUs(2, "V100").Health(0, model.Failed).Health(1, model.Suspect).Build(), nil); err != nil {
		t.Fatal(err)
	}
	if _, err := w.e.SetNode(coretest.Node("shut").GPUs(2, "V100").Cordon(0).Build(), nil); err != nil {
		t.Fatal(err)
	}
	if _, err := w.e.SetNode(coretest.Node("lost").GPUs(2, "V100").Build(), nil); err != nil {
		t.Fatal(err)
	}
	w.e.CountFleet()
	w.e.Configure(func(o *engine.Options) {
		o.Facts = facts{may: func(_ engine.Shape, n model.NodeID) bool { return n != "lost" && n != "shut" }}
	})
	big, late := simple("big", 1, 2), simple("late", 3, 2)
	big.Queue, big.Submitted, late.Queue, late.Submitted = "a", 5, "b", 7
	w.submit(big)
	w.decide()
	w.submit(late)
	idle := measure.NewIdle(1, 0)
	at, _ := w.l.Held("big/000")
	w.l.SetTelemetry(at, []model.Telemetry{{Utilization: model.Measured(0)}, {Utilization: model.Measured(90)}})
	c := w.e.Count(func(id model.NodeID) answer.Condition {
		switch id {
		case "lost":
			return answer.NodeLost
		case "shut":
			return answer.NodeCordoned
		}
		return answer.Open
	}, idle, second)
	want := []answer.Fleet{
		{Vendor: model.NVIDIA, Model: model.ParseModel("a100"), Milli: [answer.Uses]int64{answer.Free: 4000, answer.Allocated: 1000, answer.IdleAllocated: 1000}},
		{Vendor: model.NVIDIA, Model: model.ParseModel("v100"), Milli: [answer.Uses]int64{answer.FailedDevice: 3000, answer.CordonedDevice: 2000, answer.DegradedDevice: 1000}},
	}
	if diff := cmp.Diff(want, c.Fleet, cmp.AllowUnexported(model.GPUModel{})); diff != "" {
		t.Errorf("fleet: %s", diff)
	}
	if diff := cmp.Diff([]answer.Pending{{Queue: "b", Pods: 3, Gangs: 1, Oldest: 7}}, c.Pending); diff != "" {
		t.Errorf("pending: %s", diff)
	}
	for _, q := range c.Queues {
		switch q.Queue {
		case "a":
			if q.Used != 2000 || q.Guarantee != 2000 || q.Capability != 5000 || q.Deserved != -1 || q.Share < 2000 {
				t.Errorf("queue a: %+v", q)
			}
		case "b":
			if q.Used != 0 || q.Capability != -1 || q.Share <= 0 {
				t.Errorf("queue b: %+v", q)
			}
		}
	}
	if len(c.Shapes) != 4 { // without lost and shut
		t.Errorf("%d nodes are open, want 4", len(c.Shapes))
	}
	// Pairs are wanted; all free pairs can be used.
	if free, unusable := measure.Unusable(c.Shapes, c.Classes); free != 4000 || unusable != 0 {
		t.Errorf("free %d, unusable %d", free, unusable)
	}
	for _, h := range []struct {
		holder model.HolderID
		want   []measure.Hold
	}{{"big/000", []measure.Hold{{Model: model.ParseModel("a100"), Milli: 2000}}}, {"late/000", nil}} {
		if diff := cmp.Diff(h.want, w.e.Figures.Holding(h.holder), cmp.AllowUnexported(model.GPUModel{})); diff != "" {
			t.Errorf("%s holds: %s", h.holder, diff)
		}
	}
}

// A pod bound without a record, a share and a turn are held by their part of a device.
func TestHolding(t *testing.T) {
	l := newTest(t, 1, 1)
	turns := coretest.Node("turns").Devices(1, model.Device{Vendor: model.NVIDIA, Model: model.ParseModel("T4"), Memory: 16 << 10, Tenants: 4, Replicated: true}).Build()
	if _, err := l.e.SetNode(turns, nil); err != nil {
		t.Fatal(err)
	}
	l.e.Bound("turns", []model.HolderID{"turn"}, nil)
	g := simple("turn", 1, 1)
	g.Roles[0].Members = []model.HolderID{"turn"}
	c := claim("turn", turns, 1, 1)
	l.e.Bound("turns", []model.HolderID{"turn"}, append(l.l.Claims("nowhere"), c))
	want := []measure.Hold{{Model: model.ParseModel("T4"), Milli: 250}}
	if diff := cmp.Diff(want, l.e.Figures.Holding("turn"), cmp.AllowUnexported(model.GPUModel{})); diff != "" {
		t.Errorf("a turn of four: %s", diff)
	}
}

// Whatever runs where, the states of all devices add up to the fleet, and the pending
// pods to those without a place.
func TestCensusAddsUp(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var fleet []*model.Node
		devices := 0
		for i := range rapid.IntRange(1, 4).Draw(t, "nodes") {
			gpus := rapid.IntRange(1, 4).Draw(t, "gpus")
			n := coretest.Node(fmt.Sprint("n", i)).GPUs(gpus, rapid.SampledFrom([]string{"A100", "T4"}).Draw(t, "model"))
			if rapid.Bool().Draw(t, "sick") {
				n.Health(0, rapid.SampledFrom([]model.Health{model.Suspect, model.Degraded, model.Failed}).Draw(t, "health"))
			}
			if rapid.Bool().Draw(t, "cordon") {
				n.Cordon(gpus - 1)
			}
			devices += gpus
			fleet = append(fleet, n.Build())
		}
		w := newWorld(t, options(), []arbiter.Queue{{Name: "q"}}, fleet...)
		pods := 0
		for i := range rapid.IntRange(0, 6).Draw(t, "gangs") {
			members := rapid.IntRange(1, 3).Draw(t, "members")
			g := simple(fmt.Sprint("g", i), members, rapid.IntRange(1, 4).Draw(t, "each"))
			g.Queue = rapid.SampledFrom([]string{"", "q", "none"}).Draw(t, "queue")
			w.submit(g)
			pods += members
		}
		w.decide()
		c := w.e.Count(open, measure.NewIdle(1, 0), second)
		var sum, held int64
		for _, f := range c.Fleet {
			for use, milli := range f.Milli {
				sum += milli
				if milli < 0 {
					t.Fatalf("%v: %d", f, use)
				}
			}
			held += f.Milli[answer.Allocated]
		}
		placed, want := 0, int64(0)
		for id := range w.gangs {
			placed += len(w.placed[id])
			for h := range w.placed[id] {
				for _, x := range w.e.Figures.Holding(h) {
					want += x.Milli
				}
			}
		}
		if sum != int64(devices)*1000 || held != want {
			t.Fatalf("%d devices, states add up to %d; %d allocated, holders have %d", devices, sum, held, want)
		}
		waiting := 0
		for _, p := range c.Pending {
			waiting += p.Pods
		}
		if waiting != pods-placed {
			t.Fatalf("%d pods pending, want %d", waiting, pods-placed)
		}
		if free, unusable := measure.Unusable(c.Shapes, c.Classes); unusable > free {
			t.Fatalf("%d of %d unusable", unusable, free)
		}
	})
}

// A gang that was promised a time is told it when it starts, once.
func TestPromised(t *testing.T) {
	w := newTest(t, 2, 4)
	for i := range 4 {
		g := simple(fmt.Sprint("first", i), 1, 2)
		g.Runtime = time.Duration(100+i) * time.Second
		w.submit(g)
	}
	w.decide()
	g := simple("big", 2, 4)
	g.Runtime, g.Submitted = time.Hour, 1
	w.submit(g)
	for range 10 {
		w.now += second
		w.decide()
	}
	at, _, ok := w.e.Reservation("big")
	if !ok || at == 0 {
		t.Fatalf("no reservation: %v", ok)
	}
	w.now = 90 * second
	for i := range 4 {
		w.withdraw(engine.ID(fmt.Sprint("first", i)))
	}
	d := w.decide()
	if len(d.Starts) != 1 || d.Starts[0].Promised != at {
		t.Fatalf("starts %+v, want one that was promised %d", d.Starts, at)
	}
	w.e.Undo("big", holders("big", 0, 2))
	delete(w.placed, "big")
	w.placed["big"] = map[model.HolderID]model.NodeID{}
	if d := w.decide(); len(d.Starts) != 1 || d.Starts[0].Promised != 0 {
		t.Errorf("second start %+v, want no promise", d.Starts)
	}
}

// BenchmarkCount is what a scrape costs under the engine's lock: 1,000 nodes of 8 devices
// in use by 7,000 pods, 5,000 pods pending in 20 queues, each of another kind.
func BenchmarkCount(b *testing.B) {
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
	waiting, running := w.e.Size()
	if running < 6000 || waiting < 4000 {
		b.Fatalf("%d wait, %d run", waiting, running)
	}
	idle := measure.NewIdle(1, 0)
	var c answer.Census
	b.ResetTimer()
	for b.Loop() {
		c = w.e.Count(open, idle, second)
	}
	b.StopTimer()
	began := time.Now()
	for range 100 {
		measure.Unusable(c.Shapes, c.Classes)
	}
	b.ReportMetric(float64(time.Since(began).Microseconds())/100, "µs-outside-lock")
}
