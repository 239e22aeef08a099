package engine_test

import (
	"fmt"
	"math/bits"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/tangram-dev/tangram/core/arbiter"
	"github.com/tangram-dev/tangram/core/engine"
	"github.com/tangram-dev/tangram/core/model"
	"github.com/tangram-dev/tangram/test/coretest"
)

func urgent(id string, members, gpus int) engine.Gang {
	g := simple(id, members, gpus)
	g.Priority, g.Preemptible = 10, false
	return g
}

// fill starts small gangs of one member until nothing is free.
func (w *world) fill(count, gpus int) {
	w.t.Helper()
	for i := range count {
		w.submit(simple(fmt.Sprintf("low%03d", i), 1, gpus))
	}
	for w.decide().More {
	}
	w.now += second
}

// An 8-node gang over a full cluster of small pods: exactly as many go as must.
func TestLargeGangEvictsFewest(t *testing.T) {
	w := newTest(t, 12, 4)
	w.fill(48, 1)
	for _, h := range []model.HolderID{"low003/000", "low017/000", "low018/000"} {
		w.withdraw(engine.ID(h[:6])) // three GPUs are free
	}
	w.submit(urgent("big", 8, 4))
	d := w.decide()
	if n := w.carryOut(d); n != 29 {
		t.Fatalf("%d go, 32 GPUs of which 3 are free need 29", n)
	}
	// Those who went want back in first, but the nodes are kept.
	d = w.decide()
	if !w.runs("big") || len(d.Evicts) > 0 {
		t.Fatalf("%+v", d)
	}
}

func TestNoGangIsEvictedInVain(t *testing.T) {
	w := newTest(t, 2, 4)
	w.fill(4, 1)
	high := simple("high", 4, 1)
	high.Priority = 10
	w.submit(high)
	w.decide()
	w.now += second
	// 8 GPUs of which 4 have the same priority: no eviction helps.
	w.submit(urgent("big", 2, 4))
	for range 100 {
		w.now += second
		if d := w.decide(); len(d.Evicts) > 0 {
			t.Fatalf("%+v", d)
		}
	}
	w.withdraw("high")
	moved := false
	for range 100 {
		w.now += second
		moved = w.carryOut(w.decide()) == 4 || moved
	}
	if !moved || !w.runs("big") {
		t.Error("big does not run")
	}
}

// A start that fails after its victims have gone, because kube-scheduler has not heard yet
// that they have: what they freed is kept for the gang.
func TestUndoneKeepsItsNodes(t *testing.T) {
	late := false
	o := options()
	o.Facts = facts{may: func(engine.Shape, model.NodeID) bool { return !late }}
	w := newWorld(t, o, nil, nodes(4, 4)...)
	w.fill(16, 1)
	polite := urgent("polite", 1, 4)
	polite.NeverPreempts = true
	w.submit(polite)
	w.decide()
	w.submit(urgent("u", 2, 4))
	if n := w.carryOut(w.decide()); n != 8 {
		t.Fatalf("%d go", n)
	}
	w.decide()
	if !w.runs("u") {
		t.Fatal("u does not start")
	}
	w.e.Undo("u", holders("u", 0, 2))
	clear(w.placed["u"])
	w.submit(w.gangs["u"])
	late = true
	for range 3 {
		w.now += second
		if d := w.decide(); len(d.Starts)+len(d.Evicts) > 0 {
			t.Fatalf("%+v", d)
		}
	}
	late = false
	w.e.Changed()
	if d := w.decide(); !w.runs("u") || w.runs("polite") || len(d.Evicts) > 0 {
		t.Fatalf("%+v", d)
	}
}

// A victim that may not go after all: what others left meanwhile stays kept until
// other victims are found, or none can be.
func TestSparedKeepsWhatIsFree(t *testing.T) {
	for _, all := range []bool{false, true} {
		spared := map[model.HolderID]bool{}
		o := options()
		o.Facts = facts{protected: spared}
		w := newWorld(t, o, nil, nodes(3, 4)...)
		w.fill(12, 1)
		polite := urgent("polite", 1, 4)
		polite.NeverPreempts = true
		w.submit(polite)
		w.decide()
		w.submit(urgent("u", 2, 4))
		d := w.decide()
		if len(d.Evicts) != 1 || len(d.Evicts[0].Members) != 8 {
			t.Fatalf("%+v", d)
		}
		// One node is free when the first of the second node is refused.
		first := w.placed["low000"]["low000/000"]
		var refused model.HolderID
		for _, h := range d.Evicts[0].Members {
			id, _ := w.e.Of(h)
			if w.placed[id][h] == first {
				w.ended(h)
			} else if refused == "" {
				refused = h
			}
		}
		for id, g := range w.gangs {
			if h := g.Roles[0].Members[0]; w.placed[id][h] != "" && (all || h == refused) {
				spared[h] = true
			}
		}
		w.e.EvictionRefused(refused)
		d = w.decide()
		if len(d.Starts) > 0 || (len(d.Evicts) == 1) == all {
			t.Fatalf("all refused: %v, %+v", all, d)
		}
		if all {
			if d = w.decide(); len(d.Starts) == 0 {
				t.Fatal("what is free is kept in vain")
			}
			continue
		}
		w.carryOut(d)
		if w.decide(); !w.runs("u") || w.runs("polite") {
			t.Fatal("u does not run, or polite does")
		}
	}
}

// A gang without victims does not keep gangs behind it in the queue's order from evicting.
func TestUrgentBehindMany(t *testing.T) {
	w := newTest(t, 5, 3, arbiter.Queue{Name: "q", Order: arbiter.FIFO})
	for i := range 40 {
		g := simple(fmt.Sprintf("low%03d", i), 3, 1)
		g.Queue, g.Roles[0].Shape = "q", engine.Shape(fmt.Sprint(i)) // all different
		w.submit(g)
	}
	w.decide()
	w.now += second
	g := urgent("u", 1, 1)
	g.Queue, g.Submitted = "q", w.now
	w.submit(g)
	for range 3 {
		w.carryOut(w.decide())
		w.now += second
	}
	if !w.runs("u") {
		t.Error("u does not run")
	}
}

func TestWhoIsLeftAlone(t *testing.T) {
	for name, change := range map[string]func(*engine.Gang){
		"not preemptible": func(g *engine.Gang) { g.Preemptible = false },
		"too young":       func(g *engine.Gang) { g.MinRuntime = time.Hour },
		"same priority":   func(g *engine.Gang) { g.Priority = 10 },
		"budget":          func(*engine.Gang) {},
	} {
		t.Run(name, func(t *testing.T) {
			o := options()
			if name == "budget" {
				o.Facts = facts{budgets: func(model.HolderID) []engine.Budget { return []engine.Budget{{Name: "none"}} }}
			}
			w := newWorld(t, o, nil, nodes(1, 4)...)
			g := simple("g", 4, 1)
			change(&g)
			w.submit(g)
			w.decide()
			w.now += second
			w.submit(urgent("u", 1, 1))
			if d := w.decide(); len(d.Evicts) > 0 {
				t.Errorf("%+v", d)
			}
		})
	}
}

// A gang is a whole victim, or gives what it can spare; who can spare goes first.
func TestBundles(t *testing.T) {
	w := newTest(t, 2, 4)
	elastic := simple("elastic", 4, 1)
	elastic.Min = 2
	w.submit(elastic)
	w.decide()
	w.submit(simple("rigid", 4, 1))
	w.decide()
	w.now += second
	w.submit(urgent("u", 2, 1))
	d := w.decide()
	if len(d.Evicts) != 1 || len(d.Evicts[0].Members) != 2 || d.Evicts[0].Members[0] != "elastic/002" {
		t.Fatalf("%+v", d)
	}
	w.carryOut(d)
	w.decide()
	w.now += second
	if !w.runs("u") || len(w.placed["elastic"]) != 2 {
		t.Fatal("u does not run beside the rest of elastic")
	}
	w.submit(urgent("v", 1, 1))
	d = w.decide()
	if len(d.Evicts) != 1 || len(d.Evicts[0].Members) != 2 || d.Evicts[0].Members[0] != "elastic/000" {
		t.Fatalf("the smaller gang goes whole: %+v", d)
	}
}

// A budget that lets one of a gang go does not let all of it go, nor two of different
// gangs.
func TestBudgetsAddUp(t *testing.T) {
	allowed := 1
	o := options()
	o.Facts = facts{budgets: func(h model.HolderID) []engine.Budget {
		if h < "c" {
			return []engine.Budget{{Name: "b", Allowed: allowed}}
		}
		return nil
	}}
	w := newWorld(t, o, nil, nodes(2, 2)...)
	w.submit(simple("a", 2, 1))
	w.decide()
	w.submit(simple("b", 1, 1), simple("c", 1, 1))
	w.decide()
	w.now += second
	w.submit(urgent("u", 2, 1))
	d := w.decide()
	if len(d.Evicts) != 1 || fmt.Sprint(d.Evicts[0].Members) != "[b/000 c/000]" {
		t.Fatalf("%+v", d)
	}
	w = newWorld(t, o, nil, nodes(1, 2)...)
	w.submit(simple("a", 1, 1), simple("b", 1, 1))
	w.decide()
	w.now += second
	w.submit(urgent("u", 1, 2))
	if d := w.decide(); len(d.Evicts) > 0 {
		t.Fatalf("%+v", d)
	}
	allowed = 2
	w.withdraw("u")
	w.submit(urgent("u", 1, 2))
	if d := w.decide(); len(d.Evicts) != 1 || len(d.Evicts[0].Members) != 2 {
		t.Fatalf("%+v", d)
	}
}

// What a queue uses above its share comes back; nothing below it.
func TestReclaim(t *testing.T) {
	w := newTest(t, 2, 4, arbiter.Queue{Name: "a", Reclaimable: true}, arbiter.Queue{Name: "b", Reclaimable: true})
	w.singles("a", "a", 8)
	w.decide()
	w.now += second
	w.singles("b", "b", 8)
	total := 0
	for range 50 {
		total += w.carryOut(w.decide())
		w.now += second
	}
	if a, b := lines(w.tree, "a")[gpu].Used, lines(w.tree, "b")[gpu].Used; a != 4000 || b != 4000 || total != 4 {
		t.Errorf("a uses %d, b %d, after %d evictions", a, b, total)
	}
}

// While victims take their time to go, what they give is not taken twice, nor claimed
// twice.
func TestReclaimDuringGrace(t *testing.T) {
	w := newTest(t, 2, 4, arbiter.Queue{Name: "a", Reclaimable: true}, arbiter.Queue{Name: "b", Reclaimable: true})
	for _, queue := range []string{"a", "b"} {
		for i := range 8 {
			g := simple(fmt.Sprint(queue, i), 1, 1)
			g.Queue, g.Roles[0].Shape = queue, engine.Shape(fmt.Sprint(i)) // each tries for itself
			w.submit(g)
		}
		w.decide()
		w.now += second
	}
	w.carryOut(w.last)
	total := len(w.last.Evicts)
	leaves := map[model.HolderID]int{}
	for turn := range 100 {
		for h, at := range leaves {
			if at == turn {
				w.ended(h)
			}
		}
		for _, x := range w.decide().Evicts {
			for _, h := range x.Members {
				leaves[h] = turn + 5
				total++
			}
		}
		w.now += second
	}
	if a, b := lines(w.tree, "a")[gpu].Used, lines(w.tree, "b")[gpu].Used; a != 4000 || b != 4000 || total != 4 {
		t.Errorf("a uses %d, b %d, after %d evictions", a, b, total)
	}
}

// A queue has two GPUs to give: not the one member that has three, nor the pair
// beside the single one that would be cheapest, but the pair alone.
func TestReclaimWhatAQueueCanGive(t *testing.T) {
	w := newTest(t, 1, 6, arbiter.Queue{Name: "a", Weight: 2, Reclaimable: true}, arbiter.Queue{Name: "b", Weight: 1, Reclaimable: true})
	single, pair, big := simple("single", 1, 1), simple("pair", 2, 1), simple("big", 1, 3)
	pair.Priority, big.Priority = 1, 1
	for _, g := range []engine.Gang{single, pair, big} {
		g.Queue = "a"
		w.submit(g)
	}
	w.decide()
	w.now += second
	g := simple("b", 2, 1)
	g.Queue = "b"
	w.submit(g)
	if d := w.decide(); len(d.Evicts) > 0 {
		t.Fatalf("evicted before any gang could end by itself: %+v", d)
	}
	w.now += 20 * second
	d := w.decide()
	if len(d.Evicts) != 1 || !slices.Equal(d.Evicts[0].Members, holders("pair", 0, 2)) {
		t.Fatalf("%+v", d)
	}
}

// Two roles over single pods: the large pod goes, not the two that are older.
func TestTwoRolesEvictFewest(t *testing.T) {
	w := newTest(t, 2, 4)
	for _, v := range []struct {
		id   string
		node model.NodeID
		gpus int
	}{{"a", "n001", 1}, {"b", "n001", 3}, {"c", "n000", 2}, {"d", "n000", 2}} {
		w.submit(simple(v.id, 1, v.gpus))
		h := holders(engine.ID(v.id), 0, 1)[0]
		w.put(h, v.node, v.gpus)
		w.e.Found(h, v.node, 0)
		w.placed[engine.ID(v.id)][h] = v.node
	}
	w.now = second
	g := urgent("u", 1, 2)
	g.Roles[0].Min, g.Min = 1, 2
	g.Roles = append(g.Roles, engine.Role{Name: "other", Request: coretest.Request(1), Members: holders("u", 1, 2), Min: 1})
	w.submit(g)
	d := w.decide()
	if len(d.Evicts) != 1 || !slices.Equal(d.Evicts[0].Members, holders("b", 0, 1)) {
		t.Fatalf("%+v", d)
	}
}

// In a queue that may use no more, the urgent takes the place of the less urgent.
func TestPreemptInsideCapability(t *testing.T) {
	w := newTest(t, 4, 4, arbiter.Queue{Name: "q", Capability: map[arbiter.Resource]int64{gpu: 4000}})
	w.singles("low", "q", 4)
	w.decide()
	w.now += second
	g := urgent("u", 2, 1)
	g.Queue = "q"
	w.submit(g)
	if n := w.carryOut(w.decide()); n != 2 {
		t.Fatalf("%d go", n)
	}
	w.decide()
	if !w.runs("u") {
		t.Error("u does not run")
	}
}

// TestFewestVictims: of single pods of one priority as few go as any choice allows,
// and after that the gang starts.
func TestFewestVictims(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		count, gpus := rapid.IntRange(1, 3).Draw(t, "nodes"), 4
		w := newWorld(t, options(), nil, nodes(count, gpus)...)
		type victim struct{ node, gpus int }
		var victims []victim
		free := make([]int, count)
		for n := range count {
			free[n] = gpus
			for free[n] > 0 {
				size := rapid.IntRange(0, free[n]).Draw(t, "size")
				if size == 0 {
					break
				}
				victims = append(victims, victim{n, size})
				free[n] -= size
			}
		}
		// Put them where they were drawn.
		for i, v := range victims {
			id := engine.ID(fmt.Sprintf("v%02d", i))
			w.submit(simple(string(id), 1, v.gpus))
			node := model.NodeID(fmt.Sprintf("n%03d", v.node))
			h := holders(id, 0, 1)[0]
			w.put(h, node, v.gpus)
			w.e.Found(h, node, 0)
			w.placed[id][h] = node
		}
		w.now = second
		size := rapid.IntRange(1, gpus).Draw(t, "each")
		need := rapid.IntRange(1, 6).Draw(t, "members")
		best := -1
		for set := range 1 << len(victims) {
			room := append([]int(nil), free...)
			for i, v := range victims {
				if set>>i&1 == 1 {
					room[v.node] += v.gpus
				}
			}
			fits := 0
			for _, r := range room {
				fits += r / size
			}
			if n := bits.OnesCount(uint(set)); fits >= need && (best < 0 || n < best) {
				best = n
			}
		}
		w.submit(urgent("u", need, size))
		d := w.decide()
		got := w.carryOut(d)
		switch {
		case best <= 0 && got > 0:
			t.Fatalf("%d go, %d would do", got, best)
		case best > 0 && got != best:
			t.Fatalf("%d go, %d would do: %v, %d x %d", got, best, victims, need, size)
		}
		if w.decide(); best >= 0 && !w.runs("u") {
			t.Fatal("it does not start")
		}
	})
}

// put gives a holder devices of a node.
func (w *world) put(h model.HolderID, node model.NodeID, gpus int) {
	v, _ := w.l.View(node)
	w.l.Put(node, claim(h, v.Node, gpus, v.Free(model.NVIDIA)))
}

// TestNoLoop: with queues, priorities and gangs at odds, evicted ones coming back at
// once, evictions come to an end although no gang ever ends.
func TestNoLoop(t *testing.T) {
	for seed := range uint64(20) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			r := rand.New(rand.NewPCG(seed, 1))
			queues := []arbiter.Queue{
				{Name: "a", Weight: 1, Reclaimable: true, Order: arbiter.Policy(r.IntN(4))},
				{Name: "b", Weight: 1 + int64(r.IntN(3)), Reclaimable: true, Order: arbiter.Policy(r.IntN(4))},
			}
			w := newWorld(t, options(), queues, nodes(4, 4)...)
			const gangs = 24
			for i := range gangs {
				g := simple(fmt.Sprintf("g%02d", i), 1+r.IntN(4), 1+r.IntN(3))
				g.Queue, g.Priority, g.Submitted = queues[r.IntN(2)].Name, int32(r.IntN(3)), int64(i)
				g.Min = 1 + r.IntN(g.Min)
				w.submit(g)
			}
			last, total := 0, 0
			for round := range 1000 {
				w.now += second
				if n := w.carryOut(w.decide()); n > 0 {
					last, total = round, total+n
				}
			}
			if total > 10*gangs || last > 500 {
				t.Errorf("%d evictions, the last in round %d", total, last)
			}
		})
	}
}
