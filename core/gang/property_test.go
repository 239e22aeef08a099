package gang_test

import (
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/tangram-dev/tangram/core/gang"
	"github.com/tangram-dev/tangram/core/model"
	"github.com/tangram-dev/tangram/core/place"
	"github.com/tangram-dev/tangram/core/planner"
	"github.com/tangram-dev/tangram/core/score"
	"github.com/tangram-dev/tangram/test/coretest"
)

// drawWorld is a few nodes of all sorts, with some holders.
func drawWorld(t *rapid.T) world {
	l := coretest.Ledger(t)
	for i := range rapid.IntRange(1, 6).Draw(t, "nodes") {
		n := coretest.DrawNode(t, fmt.Sprintf("n%d", i))
		n.Host = model.Host{CPU: rapid.Int64Range(0, 8).Draw(t, "cpu"), Memory: 8}
		n.Extras = coretest.DrawExtras(t, 6)
		if err := l.SetNode(n); err != nil {
			t.Fatal(err)
		}
	}
	w := world{l, planner.New(l)}
	for i := range rapid.IntRange(0, 6).Draw(t, "others") {
		r := coretest.DrawRequest(t)
		coretest.DrawAffinity(t, r)
		r.Extras = coretest.DrawExtras(t, 1)
		if c, ok := w.p.Best(r, score.DefaultWeights()); ok {
			v, _ := l.View(c.Node)
			l.Put(c.Node, c.Grant.Claim(model.HolderID(fmt.Sprint("other", i)), r, v.Node))
		}
	}
	return w
}

func drawAsk(t *rapid.T, w world) *gang.Ask {
	a := &gang.Ask{Weights: score.DefaultWeights(), Terse: rapid.Bool().Draw(t, "terse")}
	sum, all := 0, 0
	for i := range rapid.IntRange(1, 3).Draw(t, "roles") {
		r := coretest.DrawRequest(t)
		switch rapid.IntRange(0, 3).Draw(t, "ask") {
		case 0:
			r = &model.Request{} // a launcher
		case 1:
			coretest.DrawAffinity(t, r)
		}
		r.Host.CPU = rapid.Int64Range(0, 2).Draw(t, "cpu")
		if rapid.Bool().Draw(t, "extras") {
			r.Extras = coretest.DrawExtras(t, 2)
		}
		role := gang.Role{Name: fmt.Sprint("r", i), Request: r, Members: members(fmt.Sprint("r", i), rapid.IntRange(0, 4).Draw(t, "members"))}
		role.Min = rapid.IntRange(0, 1+len(role.Members)).Draw(t, "min")
		sum, all = sum+role.Min, all+len(role.Members)
		a.Roles = append(a.Roles, role)
	}
	a.Min = rapid.IntRange(sum, max(sum, all)).Draw(t, "gang's min")
	a.Require = rapid.SampledFrom([]model.Level{{}, {}, node, zone, rack}).Draw(t, "level")
	ids := slices.Sorted(w.l.Nodes())
	some := func(what string) []model.NodeID {
		out := rapid.SliceOfNDistinct(rapid.SampledFrom(ids), 0, len(ids), rapid.ID[model.NodeID]).Draw(t, what)
		slices.Sort(out)
		return out
	}
	if rapid.IntRange(0, 3).Draw(t, "repair") == 0 {
		a.Beside = some("beside")
	}
	if rapid.IntRange(0, 3).Draw(t, "restricted") == 0 {
		closed := some("closed")
		a.May = refuseUnless(func(role int, id model.NodeID) bool { return role == 1 || !slices.Contains(closed, id) })
	}
	if rapid.IntRange(0, 5).Draw(t, "within") == 0 {
		a.Within = some("inside")
	}
	return a
}

// TestAllOrNothing: on any fleet, a plan has the minimum of every role and of the gang,
// each member once on devices that Fit grants, on nodes that May accepts, in one domain
// of the required level; otherwise the ledger is unchanged. Equal questions have equal
// answers, also from a new planner.
func TestAllOrNothing(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := drawWorld(t)
		a := drawAsk(t, w)
		before := w.l.String()
		tx := w.l.Begin()
		again, _ := gang.Make(w.l, w.p, a)
		tx.Rollback()
		if after := w.l.String(); after != before {
			t.Fatalf("a trial left\n%s\nof\n%s", after, before)
		}
		plan, failure := gang.Make(w.l, w.p, a)
		if err := w.l.Audit(); err != nil {
			t.Fatal(err)
		}
		if fmt.Sprint(plan) != fmt.Sprint(again) {
			t.Fatalf("first %v, then %v", again, plan)
		}
		if failure != nil {
			if after := w.l.String(); after != before {
				t.Fatalf("a failure left\n%s\nof\n%s", after, before)
			}
			_ = failure.String()
			if failure.Placed >= failure.Need && failure.Exist == 0 && len(a.Roles) == 1 {
				t.Fatalf("%d of %d have a place, and yet: %s", failure.Placed, failure.Need, failure)
			}
			return
		}
		check(t, w, a, plan)
		if after := w.l.String(); len(plan.Placements) > 0 && after == before {
			t.Fatal("nothing is held")
		}
		// Placed one by one on the state before, each passes Fit.
		for _, p := range plan.Placements {
			w.l.Drop(p.Holder)
		}
		if after := w.l.String(); after != before {
			t.Fatalf("dropping all members left\n%s\nof\n%s", after, before)
		}
		for _, p := range plan.Placements {
			v, _ := w.l.View(p.Node)
			r := a.Roles[p.Role].Request
			if missing, short := v.Shortage(r); !v.Covers(r) || short {
				t.Fatalf("%s: %+v", p.Holder, missing)
			}
			if r.Vendor != "" {
				if _, refusal := place.Fit(r, v); refusal != nil {
					t.Fatalf("%s on %s: %s", p.Holder, p.Node, refusal)
				}
			}
			w.l.Put(p.Node, p.Grant.Claim(p.Holder, r, v.Node))
			if debt := w.l.Debt(p.Node); debt > 0 {
				t.Fatalf("%s on %s: no devices for it", p.Holder, p.Node)
			}
		}
	})
}

func check(t *rapid.T, w world, a *gang.Ask, plan gang.Plan) {
	count := make([]int, len(a.Roles))
	seen := map[model.HolderID]bool{}
	where := slices.Clone(a.Beside)
	for _, p := range plan.Placements {
		if seen[p.Holder] || !slices.Contains(a.Roles[p.Role].Members, p.Holder) {
			t.Fatalf("%s is there twice, or is no member of role %d", p.Holder, p.Role)
		}
		seen[p.Holder] = true
		count[p.Role]++
		where = append(where, p.Node)
		if a.May != nil && a.May(p.Role, p.Node) != nil {
			t.Fatalf("%s may not be on %s", p.Holder, p.Node)
		}
		if a.Within != nil && !slices.Contains(a.Within, p.Node) {
			t.Fatalf("%s is on %s, outside of %v", p.Holder, p.Node, a.Within)
		}
		if id, _ := w.l.Held(p.Holder); id != p.Node {
			t.Fatalf("%s holds on %s, planned on %s", p.Holder, id, p.Node)
		}
	}
	for i, r := range a.Roles {
		if count[i] < r.Min {
			t.Fatalf("%d of role %d, %d needed", count[i], i, r.Min)
		}
	}
	if len(plan.Placements) < a.Min || len(nodesOf(plan)) != plan.Nodes {
		t.Fatalf("%d of %d members, on %d nodes, says %d", len(plan.Placements), a.Min, len(nodesOf(plan)), plan.Nodes)
	}
	if a.Require.Name == "" || len(plan.Placements) == 0 {
		return
	}
	where = slices.DeleteFunc(where, func(id model.NodeID) bool { _, there := w.l.View(id); return !there })
	slices.Sort(where)
	where = slices.Compact(where)
	if a.Require.Depth == model.NodeDepth {
		if len(where) != 1 {
			t.Fatalf("on one node: %v", where)
		}
		return
	}
	if d, ok := w.l.Domains().Common(where...); !ok || d.Depth < a.Require.Depth {
		t.Fatalf("%v share no %s", where, a.Require.Name)
	}
}

// TestCompleteForOneRole: a gang of one role that asks for whole GPUs is placed exactly
// if the nodes that accept it have enough room, counted independently (devices, and the
// number of pods a node may have), in one domain if it requires a level. It uses as few
// nodes as the roomiest ones allow.
func TestCompleteForOneRole(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		l := coretest.Ledger(t)
		room := map[model.NodeID]int{}
		domain := map[string][]model.NodeID{}
		level := rapid.SampledFrom([]model.Level{{}, node, zone, rack}).Draw(t, "level")
		size := rapid.IntRange(1, 4).Draw(t, "GPUs")
		var closed []model.NodeID
		for i := range rapid.IntRange(1, 8).Draw(t, "nodes") {
			z, r := fmt.Sprint("z", rapid.IntRange(0, 1).Draw(t, "zone")), fmt.Sprint("r", rapid.IntRange(0, 1).Draw(t, "rack"))
			pods := rapid.IntRange(1, 8).Draw(t, "pods")
			n := coretest.Node(fmt.Sprint("n", i)).GPUs(rapid.IntRange(0, 8).Draw(t, "has"), "A100").Domains(z, r).Extra("pods", int64(pods)).Build()
			if err := l.SetNode(n); err != nil {
				t.Fatal(err)
			}
			taken := rapid.IntRange(0, len(n.Devices)).Draw(t, "taken")
			if taken > 0 {
				v, _ := l.View(n.ID)
				other := coretest.WholeClaim("other"+string(n.ID), n, coretest.Request(taken), v.Free(model.NVIDIA).Lowest(taken))
				other.Extras = model.Extras{{Name: "pods", Amount: 1}}
				l.Put(n.ID, other)
				pods--
			}
			if rapid.IntRange(0, 5).Draw(t, "closed") == 0 {
				closed = append(closed, n.ID)
				continue
			}
			room[n.ID] = min((len(n.Devices)-taken)/size, pods)
			key := map[string]string{"": "", "node": string(n.ID), "zone": z, "rack": z + r}[level.Name]
			domain[key] = append(domain[key], n.ID)
		}
		most := 0 // members in the best domain
		for _, ids := range domain {
			sum := 0
			for _, id := range ids {
				sum += room[id]
			}
			most = max(most, sum)
		}
		count := rapid.IntRange(1, 20).Draw(t, "members")
		a := ask(count, size)
		a.Roles[0].Request.Extras = model.Extras{{Name: "pods", Amount: 1}}
		a.Require = level
		a.Min = rapid.IntRange(1, count).Draw(t, "min")
		a.Terse = true
		if len(closed) > 0 {
			a.May = refuseUnless(func(_ int, id model.NodeID) bool { return !slices.Contains(closed, id) })
		}
		w := world{l, planner.New(l)}
		plan, failure := gang.Make(l, w.p, a)
		if (failure == nil) != (most >= a.Min) {
			t.Fatalf("room for %d in one domain of %q, needs %d: %v", most, level.Name, a.Min, failure)
		}
		if failure == nil && level.Name == "" && len(plan.Placements) < count && len(plan.Placements) < most && plan.Domain == "" {
			t.Fatalf("%d of %d placed, room for %d", len(plan.Placements), count, most)
		}
		if failure == nil && level.Name == "" && plan.Domain == "" {
			fewest(t, room, len(plan.Placements), plan.Nodes)
		}
	})
}

// fewest checks that no fewer nodes would do.
func fewest(t *rapid.T, room map[model.NodeID]int, members, nodes int) {
	var rooms []int
	for _, r := range room { // sorted below
		rooms = append(rooms, r)
	}
	slices.Sort(rooms)
	need, left := 0, members
	for _, r := range slices.Backward(rooms) {
		if left > 0 {
			need, left = need+1, left-r
		}
	}
	if nodes > need {
		t.Fatalf("%d members on %d nodes, %d would do: room %v", members, nodes, need, rooms)
	}
}
