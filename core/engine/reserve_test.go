package engine_test

import (
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/tangram-dev/tangram/core/arbiter"
	"github.com/tangram-dev/tangram/core/engine"
	"github.com/tangram-dev/tangram/core/explain"
	"github.com/tangram-dev/tangram/core/model"
	"github.com/tangram-dev/tangram/test/coretest"
)

// timed lets gangs run for exactly as long as they say.
type timed struct {
	*world
	truth map[engine.ID]time.Duration
}

// advance ends what ends until a time, deciding after each.
func (w *timed) advance(to int64, after func()) {
	for {
		next := to
		for id, at := range w.begun {
			next = min(next, at+int64(w.truth[id]))
		}
		w.now = max(w.now, next)
		for _, id := range slices.Sorted(maps.Keys(w.begun)) {
			if w.begun[id]+int64(w.truth[id]) <= w.now {
				w.withdraw(id)
			}
		}
		w.decide()
		after()
		if next == to {
			return
		}
	}
}

// TestBackfillDelaysNoGang: with exact runtimes, a gang starts no later than the
// first reservation it was given, whatever passes it, and whatever changes about nodes that
// gives them no less room.
func TestBackfillDelaysNoGang(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		o := options()
		o.Preempt = false
		o.Reservations = rapid.IntRange(1, 4).Draw(t, "reservations")
		queues := []arbiter.Queue{{Name: "a"}, {Name: "b", Weight: 2}, {Name: "c"}}
		if rapid.Bool().Draw(t, "parent") {
			queues = append(queues, arbiter.Queue{Name: "p"})
			queues[0].Parent, queues[1].Parent = "p", "p"
		}
		for i := range queues {
			switch rapid.IntRange(0, 5).Draw(t, "limited") {
			case 0:
				queues[i].Capability = map[arbiter.Resource]int64{gpu: 1000 * rapid.Int64Range(4, 12).Draw(t, "capability")}
			case 1:
				if queues[i].Name != "p" { // whose guarantee would be less than its children's
					queues[i].Guarantee = map[arbiter.Resource]int64{gpu: 1000 * rapid.Int64Range(1, 3).Draw(t, "guarantee")}
				}
			}
		}
		if arbiter.ValidateQueues(queues) != nil {
			t.Skip("guarantees above the parent's capability")
		}
		w := &timed{newWorld(t, o, queues, nodes(3, 4)...), map[engine.ID]time.Duration{}}
		promised := map[engine.ID]int64{}
		check := func() {
			for id := range w.gangs {
				at, _, ok := w.e.Reservation(id)
				if _, known := promised[id]; ok && !known {
					promised[id] = at
				}
				if p, known := promised[id]; known && len(w.placed[id]) == 0 && w.now > p {
					t.Fatalf("%s was to start at %d, and waits at %d", id, p/second, w.now/second)
				}
			}
		}
		for i := range rapid.IntRange(5, 40).Draw(t, "gangs") {
			id := fmt.Sprintf("g%02d", i)
			g := simple(id, rapid.IntRange(1, 6).Draw(t, "members"), rapid.IntRange(1, 4).Draw(t, "GPUs"))
			g.Queue = rapid.SampledFrom([]string{"a", "b", "c"}).Draw(t, "queue")
			g.Submitted = w.now
			if rapid.Bool().Draw(t, "elastic") {
				g.Min = rapid.IntRange(1, g.Min).Draw(t, "min")
			}
			g.Runtime = time.Duration(rapid.IntRange(1, 50).Draw(t, "runtime")) * time.Second
			w.truth[g.ID] = g.Runtime
			w.submit(g)
			if rapid.Bool().Draw(t, "node changes") {
				n := nodes(3, 4)[rapid.IntRange(0, 2).Draw(t, "node")]
				n.Extras = coretest.Node("").Extra("beside", int64(i+1)).Build().Extras
				if _, err := w.e.SetNode(n, nil); err != nil {
					t.Fatal(err)
				}
			}
			w.advance(w.now+rapid.Int64Range(0, 20).Draw(t, "later")*second, check)
		}
		w.advance(w.now+int64(time.Hour), check)
	})
}

// TestNodeChangeKeepsReservation: while a reservation is found anew because a node changed,
// no gang takes what was kept.
func TestNodeChangeKeepsReservation(t *testing.T) {
	for _, change := range []struct {
		what string
		node *model.Node
		at   int64 // of the reservation afterwards, seconds
	}{
		{"nothing", nil, 100},
		{"a resource beside devices", coretest.Node("n000").GPUs(4, "A100").Domains("z", "r0").Extra("beside", 1).Build(), 100},
		{"a node that is no help", coretest.Node("small").GPUs(1, "A100").Domains("z", "r9").Build(), 100},
		{"a node on which it can start sooner", coretest.Node("n999").GPUs(4, "A100").Domains("z", "r9").Build(), 50},
	} {
		t.Run(change.what, func(t *testing.T) {
			o := options()
			o.Preempt = false
			w := newWorld(t, o, nil, nodes(2, 4)...)
			for id, g := range map[string]struct{ gpus, runtime int }{"long": {4, 100}, "short": {2, 50}} {
				gang := simple(id, 1, g.gpus)
				gang.Runtime = time.Duration(g.runtime) * time.Second
				w.submit(gang)
			}
			w.decide()
			big := simple("big", 2, 4)
			big.Runtime = time.Hour
			w.submit(big)
			w.decide()
			if at, _, ok := w.e.Reservation("big"); !ok || at != 100*second {
				t.Fatalf("reserved %v for %d", ok, at/second)
			}
			if change.node != nil {
				if changed, err := w.e.SetNode(change.node, nil); err != nil || !changed {
					t.Fatal(changed, err)
				}
			}
			late := simple("late", 1, 2) // fits, and would not end before big is to start
			late.Runtime = time.Hour
			w.submit(late)
			w.decide()
			if at, nodes, ok := w.e.Reservation("big"); !ok || at != change.at*second || w.runs("late") {
				t.Errorf("reserved %v for %d on %v; late runs: %v", ok, at/second, nodes, w.runs("late"))
			}
		})
	}
}

// TestNoStarvation: a large gang among an endless stream of small ones that fill
// every gap starts within its queue's age and the longest runtime, whatever the
// order of its queue prefers.
func TestNoStarvation(t *testing.T) {
	const aging, longest = 100 * time.Second, 40 * time.Second
	for _, known := range []bool{true, false} {
		t.Run(fmt.Sprint("runtimes known ", known), func(t *testing.T) {
			o := options()
			o.Preempt, o.Patience = false, aging
			w := &timed{newWorld(t, o, []arbiter.Queue{{Name: "q", Order: arbiter.ShortestFirst, Aging: aging}}, nodes(4, 4)...), map[engine.ID]time.Duration{}}
			next := 0
			small := func() {
				g := simple(fmt.Sprintf("s%05d", next), 1, 1+next%2)
				g.Queue, g.Submitted = "q", w.now
				run := time.Duration(10+7*next%31) * time.Second
				if known {
					g.Runtime = run
				}
				w.truth[g.ID] = run
				next++
				w.submit(g)
			}
			for range 40 {
				small()
			}
			w.decide()
			big := simple("big", 4, 4)
			big.Queue, big.Submitted, big.Runtime = "q", w.now, time.Hour
			w.truth["big"] = time.Hour
			w.submit(big)
			for at := w.now; at <= int64(aging+longest); at += second {
				small()
				small()
				w.advance(at, func() {})
				if w.runs("big") {
					return
				}
			}
			at, nodes, ok := w.e.Reservation("big")
			t.Errorf("big waits since %v; reservation %v at %d on %v", time.Duration(w.now), ok, at/second, nodes)
		})
	}
}

// A gang that ends in time may use nodes that are kept, others may not.
func TestBackfill(t *testing.T) {
	o := options()
	o.Preempt = false
	w := newWorld(t, o, nil, nodes(2, 4)...)
	first := simple("first", 1, 3)
	first.Runtime = 100 * time.Second
	w.submit(first)
	w.decide()
	w.now = second
	big := simple("big", 2, 4)
	big.Submitted = w.now
	w.submit(big)
	w.decide()
	if at, nodes, ok := w.e.Reservation("big"); !ok || at != 100*second || len(nodes) != 2 {
		t.Fatal(at, nodes, ok)
	}
	w.now = 2 * second
	for name, runtime := range map[string]time.Duration{"short": 98 * time.Second, "long": 99 * time.Second, "unknown": 0} {
		g := simple(name, 1, 1)
		g.Runtime, g.Submitted = runtime, w.now
		w.submit(g)
	}
	w.decide()
	if !w.runs("short") || w.runs("long") || w.runs("unknown") {
		t.Fatalf("%v", w.placed)
	}
	if r := w.e.Why("long"); r.String() != "waits for capacity: nodes it could use are kept for 1 job that came before" {
		t.Error(r)
	}
	w.now = 100 * second
	w.withdraw("first")
	w.withdraw("short")
	w.decide()
	if !w.runs("big") {
		t.Fatal("big does not start")
	}
	// A reservation goes with its gang, and with a change of the fleet.
	w.submit(simple("next", 2, 4))
	w.decide()
	w.withdraw("next")
	if _, _, ok := w.e.Reservation("next"); ok {
		t.Error("kept for a gang that is gone")
	}
}

// A reserved gang finds room in the queue above its own, whichever of its siblings is let
// past: the first leaves enough, the second would not, and one that ends in time may
// use it until then.
func TestBackfillLeavesTheParentsQuota(t *testing.T) {
	o := options()
	o.Preempt = false
	w := newWorld(t, o, []arbiter.Queue{
		{Name: "p", Weight: 9, Capability: map[arbiter.Resource]int64{gpu: 9000}}, {Name: "a", Parent: "p"}, {Name: "b", Parent: "p"}, {Name: "other"},
	}, nodes(4, 4)...)
	for i := range 4 { // one free GPU per node
		g := simple(fmt.Sprint("other", i), 1, 3)
		g.Queue, g.Runtime = "other", time.Duration(100+100*i)*time.Second
		w.submit(g)
	}
	w.decide()
	w.now = second
	big := simple("big", 2, 4)
	big.Queue, big.Submitted = "a", w.now
	w.submit(big)
	w.decide()
	if at, nodes, ok := w.e.Reservation("big"); !ok || at != 200*second || len(nodes) != 2 {
		t.Fatal(at, nodes, ok)
	}
	for i, runtime := range []time.Duration{0, time.Hour, 190 * time.Second} {
		w.now += second
		g := simple(fmt.Sprint("small", i), 1, 1)
		g.Queue, g.Submitted, g.Runtime = "b", w.now, runtime
		w.submit(g)
		w.decide()
	}
	if !w.runs("small0") || w.runs("small1") || !w.runs("small2") {
		t.Fatalf("%v", w.placed)
	}
	if r := w.e.Why("small1"); r.Class() != explain.ForQuota || r.String() != "waits for quota: what is left of it is kept for 1 job that came before" {
		t.Errorf("%+v", r)
	}
	w.now = 200 * second
	w.withdraw("other0")
	w.withdraw("other1")
	w.withdraw("small2")
	w.decide()
	if !w.runs("big") || w.runs("small1") {
		t.Fatalf("%v: %v", w.placed, w.e.Why("big"))
	}
}
