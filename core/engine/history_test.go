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
	"github.com/tangram-dev/tangram/core/gang"
	"github.com/tangram-dev/tangram/core/ledger"
	"github.com/tangram-dev/tangram/core/model"
	"github.com/tangram-dev/tangram/core/planner"
	"github.com/tangram-dev/tangram/test/coretest"
)

func drawQueues(t *rapid.T) []arbiter.Queue {
	var out []arbiter.Queue
	for i := range 3 {
		q := arbiter.Queue{
			Name: fmt.Sprint("q", i), Weight: rapid.Int64Range(1, 3).Draw(t, "weight"), Reclaimable: rapid.Bool().Draw(t, "reclaimable"),
			Order: arbiter.Policy(rapid.IntRange(0, 2).Draw(t, "order")), Aging: time.Duration(rapid.IntRange(1, 60).Draw(t, "aging")) * time.Second,
		}
		if rapid.IntRange(0, 3).Draw(t, "limited") == 0 {
			q.Capability = map[arbiter.Resource]int64{gpu: 1000 * rapid.Int64Range(2, 12).Draw(t, "capability")}
		}
		if rapid.IntRange(0, 5).Draw(t, "guaranteed") == 0 {
			q.Guarantee = map[arbiter.Resource]int64{gpu: 1000 * rapid.Int64Range(1, 2).Draw(t, "guarantee")}
		}
		out = append(out, q)
	}
	return out
}

func drawNode(t *rapid.T, i int) *model.Node {
	return coretest.Node(fmt.Sprint("n", i)).GPUs(rapid.SampledFrom([]int{2, 4}).Draw(t, "GPUs"), "A100").
		Domains("z", fmt.Sprint("r", i/2)).Build()
}

func drawGang(t *rapid.T, id engine.ID, now int64) engine.Gang {
	g := engine.Gang{
		ID: id, Queue: rapid.SampledFrom([]string{"q0", "q1", "q2", ""}).Draw(t, "queue"),
		Priority: rapid.Int32Range(0, 2).Draw(t, "priority"), Submitted: now,
		Runtime:     time.Duration(rapid.IntRange(0, 30).Draw(t, "runtime")) * time.Second,
		MinRuntime:  time.Duration(rapid.SampledFrom([]int{0, 0, 5}).Draw(t, "min runtime")) * time.Second,
		Preemptible: rapid.IntRange(0, 3).Draw(t, "preemptible") > 0,
	}
	if rapid.IntRange(0, 3).Draw(t, "close") == 0 {
		g.Require = model.Level{Name: "rack", Label: "r", Depth: 1}
	}
	if rapid.IntRange(0, 2).Draw(t, "subgroups") == 0 {
		return drawSubgroups(t, g)
	}
	sum, all := 0, 0
	for r := range rapid.IntRange(1, 2).Draw(t, "roles") {
		n := rapid.IntRange(1, 4).Draw(t, "members")
		role := engine.Role{Name: fmt.Sprint(r), Request: coretest.Request(rapid.IntRange(1, 3).Draw(t, "GPUs each")), Members: holders(id, 100*r, 100*r+n)}
		role.Min = rapid.IntRange(0, n).Draw(t, "role's min")
		sum, all = sum+role.Min, all+n
		g.Roles = append(g.Roles, role)
	}
	g.Min = rapid.IntRange(max(1, sum), max(1, all)).Draw(t, "min")
	return g
}

// history lives a random life.
type history struct {
	*world
	t     *rapid.T
	next  int
	going []model.HolderID // told to go
}

func (h *history) pick(what string) (engine.ID, bool) {
	ids := slices.Sorted(maps.Keys(h.gangs))
	if len(ids) == 0 {
		return "", false
	}
	return rapid.SampledFrom(ids).Draw(h.t, what), true
}

func (h *history) step() {
	t := h.t
	switch rapid.SampledFrom([]string{"come", "come", "decide", "decide", "decide", "end", "lose", "resize", "node", "undo", "go", "time", "restart"}).Draw(t, "operation") {
	case "come":
		h.next++
		h.submit(drawGang(t, engine.ID(fmt.Sprint("g", h.next)), h.now))
	case "decide":
		h.decideAndCheck()
	case "end":
		if id, ok := h.pick("ends"); ok {
			h.withdraw(id)
		}
	case "lose":
		if id, ok := h.pick("loses"); ok {
			if ms := slices.Sorted(maps.Keys(h.placed[id])); len(ms) > 0 {
				h.ended(rapid.SampledFrom(ms).Draw(t, "lost"))
			}
		}
	case "resize":
		if id, ok := h.pick("resized"); ok {
			g := h.gangs[id]
			g.Roles = slices.Clone(g.Roles)
			r := &g.Roles[0]
			from := rapid.IntRange(0, 3).Draw(t, "from")
			r.Members = holders(id, from, from+rapid.IntRange(0, 5).Draw(t, "has now"))
			h.submit(g)
		}
	case "node":
		i := rapid.IntRange(0, 5).Draw(t, "node")
		if rapid.Bool().Draw(t, "comes") {
			if _, err := h.e.SetNode(drawNode(t, i), nil); err != nil {
				t.Fatal(err)
			}
		} else {
			id := model.NodeID(fmt.Sprint("n", i))
			h.e.RemoveNode(id)
			for _, g := range slices.Sorted(maps.Keys(h.placed)) {
				for _, m := range slices.Sorted(maps.Keys(h.placed[g])) {
					if h.placed[g][m] == id {
						h.ended(m)
					}
				}
			}
		}
		if err := h.tree.SetTotal(h.total()); err != nil {
			t.Fatal(err)
		}
	case "undo":
		if d := h.decideAndCheck(); len(d.Starts) > 0 {
			s := rapid.SampledFrom(d.Starts).Draw(t, "undone")
			var ms []model.HolderID
			for _, p := range s.Plan.Placements {
				ms = append(ms, p.Holder)
				delete(h.placed[s.Gang], p.Holder)
			}
			h.e.Undo(s.Gang, ms)
			if s.Repair { // what grew before it may rest on it: undo is of whole starts
				return
			}
			for m := range h.placed[s.Gang] {
				h.e.Undo(s.Gang, []model.HolderID{m})
			}
			clear(h.placed[s.Gang])
		}
	case "go":
		for _, m := range h.going {
			if id, ok := h.e.Of(m); ok {
				if _, placed := h.placed[id][m]; placed {
					h.ended(m)
				}
			}
		}
		h.going = nil
	case "time":
		h.now += rapid.Int64Range(0, 20).Draw(t, "seconds") * second
	case "restart":
		h.restart()
	}
	h.checkState()
}

func (h *history) decideAndCheck() engine.Plan {
	d := h.decide()
	for _, x := range d.Evicts {
		h.going = append(h.going, x.Members...)
	}
	if h.e.Kept() || !h.o.Backfill {
		return d
	}
	// Nothing is kept for any gang, so none may wait that could start.
	for _, id := range slices.Sorted(maps.Keys(h.gangs)) {
		if g := h.gangs[id]; len(h.placed[id]) == 0 && h.tree.Why(arbiter.JobID(id)).Code == 0 && h.complete(g) && h.fixed(g) {
			ask := &gang.Ask{Min: g.Min, Require: g.Require, Weights: h.o.Weights}
			for _, r := range g.Roles {
				ask.Roles = append(ask.Roles, gang.Role{Request: r.Request, Members: r.Members, Min: r.Min})
			}
			if len(g.Subgroups) > 0 {
				ask = h.e.Demand(id)
			}
			tx := h.l.Begin()
			plan, failure := gang.Make(h.l, h.p, ask)
			tx.Rollback()
			if failure == nil {
				h.t.Fatalf("%s waits, and has a place: %v", id, plan)
			}
		}
	}
	return d
}

func (h *history) complete(g engine.Gang) bool {
	if len(g.Subgroups) > 0 {
		all := map[model.HolderID]model.NodeID{}
		for _, r := range g.Roles {
			for _, m := range r.Members {
				all[m] = "n"
			}
		}
		return wholeIn(g, "", all)
	}
	n := 0
	for _, r := range g.Roles {
		if n += len(r.Members); len(r.Members) < r.Min {
			return false
		}
	}
	return n >= g.Min
}

// fixed says that a gang has no choice of roles: then its demand is what it will use.
func (h *history) fixed(g engine.Gang) bool {
	if len(g.Subgroups) > 0 {
		known, _ := h.e.Gang(g.ID)
		g.Min = known.Min
	}
	n := 0
	for _, r := range g.Roles {
		n += len(r.Members)
	}
	return len(g.Roles) == 1 && len(g.Subgroups) == 0 || n == g.Min
}

// rebuilt is an engine that knows what the API knows, over a copy of the ledger.
func (h *history) rebuilt() *world {
	n := newWorld(h.t, h.o, h.queues)
	for id := range h.l.Nodes() {
		v, _ := h.l.View(id)
		if err := n.l.SetNode(v.Node); err != nil {
			h.t.Fatal(err)
		}
	}
	n.l, n.p = ledger.New(), nil
	for _, id := range slices.Sorted(h.l.Nodes()) {
		v, _ := h.l.View(id)
		if err := n.l.SetNode(v.Node); err != nil {
			h.t.Fatal(err)
		}
		for _, c := range h.l.Claims(id) {
			n.l.Put(id, c)
		}
	}
	n.p = planner.New(n.l)
	n.tree = n.newTree()
	n.e = engine.New(n.l, n.p, n.tree, n.o)
	n.now = h.now
	for _, id := range slices.Sorted(maps.Keys(h.gangs)) {
		n.submit(h.gangs[id])
		for m, node := range h.placed[id] {
			n.e.Found(m, node, h.begun[id])
			n.placed[id][m] = node
		}
		if at, ok := h.begun[id]; ok {
			n.begun[id] = at
		}
	}
	return n
}

// restart compares with an engine that was rebuilt, and goes on with that one.
func (h *history) restart() {
	n := h.rebuilt()
	n.checkState()
	if !h.e.Kept() {
		n.e.Restore(h.e.Save(), h.now)
		var old, new []string
		// What time a reservation once gave is not written down anywhere.
		for _, s := range h.decide().Starts {
			s.Promised = 0
			old = append(old, fmt.Sprint(s))
		}
		for _, s := range n.decide().Starts {
			s.Promised = 0
			new = append(new, fmt.Sprint(s))
		}
		if !slices.Equal(old, new) {
			h.t.Fatalf("before the restart %v, after it %v", old, new)
		}
	}
	h.world, h.going = n, nil
}

// finish lets all that runs end, until no gang waits that can ever start.
func (h *history) finish() {
	for range 3 * (len(h.gangs) + 2) {
		h.now += int64(time.Minute)
		h.carryOut(h.decideAndCheck())
		for _, id := range slices.Sorted(maps.Keys(h.gangs)) {
			if len(h.placed[id]) > 0 {
				h.withdraw(id)
			}
		}
	}
	for _, id := range slices.Sorted(maps.Keys(h.gangs)) {
		r := h.e.Why(id)
		if g := h.gangs[id]; h.complete(g) && h.fixed(g) && !r.Never && h.tree.Why(arbiter.JobID(id)).Code == 0 {
			h.t.Fatalf("%s never started: %+v", id, r)
		}
		h.withdraw(id)
	}
	if n := h.e.Leftovers(); n > 0 {
		h.t.Fatalf("%d things are remembered", n)
	}
	if _, holders := h.l.Size(); holders > 0 {
		h.t.Fatalf("%d holders are left:\n%s", holders, h.l)
	}
	for _, a := range h.tree.Accounts() {
		for _, l := range a.Lines {
			if l.Used > 0 {
				h.t.Fatalf("queue %s: %+v", a.Queue, l)
			}
		}
	}
	for job := range h.tree.Order(h.now) {
		h.t.Fatalf("%s waits", job.ID)
	}
}

// TestHistories: whatever happens in whatever order, gangs start whole, devices are
// held once, queues are charged what is placed, no gang waits in vain, nothing is kept
// for ever, and an engine that comes new to it decides the same.
func TestHistories(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		o := options()
		o.Preempt = rapid.Bool().Draw(t, "preempt")
		o.Backfill = rapid.IntRange(0, 3).Draw(t, "backfill") > 0
		o.Patience = 30 * time.Second
		if !o.Backfill {
			o.Preempt = false
		}
		var fleet []*model.Node
		for i := range rapid.IntRange(1, 4).Draw(t, "nodes") {
			fleet = append(fleet, drawNode(t, i))
		}
		h := &history{world: newWorld(t, o, drawQueues(t), fleet...), t: t}
		for range rapid.IntRange(1, 40).Draw(t, "steps") {
			h.step()
		}
		h.finish()
	})
}

// TestSameTwice: two engines told the same decide the same.
func TestSameTwice(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		queues := drawQueues(t)
		var gangs []engine.Gang
		for i := range rapid.IntRange(1, 12).Draw(t, "gangs") {
			gangs = append(gangs, drawGang(t, engine.ID(fmt.Sprint("g", i)), int64(i)*second))
		}
		run := func() (log string) {
			w := newWorld(t, options(), queues, nodes(3, 4)...)
			for i, g := range gangs {
				w.submit(g)
				w.now = int64(i) * second
				d := w.decide()
				log += fmt.Sprintf("%+v\n", d)
				w.carryOut(d)
				if i%3 == 2 {
					w.withdraw(gangs[i-1].ID)
				}
			}
			return log + w.l.String()
		}
		if a, b := run(), run(); a != b {
			t.Fatalf("once\n%s\nthen\n%s", a, b)
		}
	})
}
