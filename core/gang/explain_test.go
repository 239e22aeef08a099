package gang_test

import (
	"fmt"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/tangram-dev/tangram/core/explain"
	"github.com/tangram-dev/tangram/core/gang"
	"github.com/tangram-dev/tangram/core/model"
	"github.com/tangram-dev/tangram/test/coretest"
)

// unselected refuses all nodes.
func unselected(int, model.NodeID) *explain.Refusal {
	return &explain.Refusal{Code: explain.Unselected, Detail: "nodeSelector disk=ssd"}
}

// TestTellsOfAllNodes: a gang that no node takes is told of all of them, not of the domain
// that was tried first; and which label is missing.
func TestTellsOfAllNodes(t *testing.T) {
	block := model.Level{Name: "block", Label: "example.com/block", Depth: 2}
	const none = "0 can be placed; for the next: 0/30 nodes fit: 30 do not match nodeSelector disk=ssd"
	for name, c := range map[string]struct {
		change func(*gang.Ask)
		want   string
	}{
		"selector":            {func(a *gang.Ask) { a.May = unselected }, none},
		"selector and level":  {func(a *gang.Ask) { a.May, a.Require = unselected, rack }, "needs 4 members in one rack, " + none},
		"selector and node":   {func(a *gang.Ask) { a.May, a.Require = unselected, node }, "needs 4 members in one node, " + none},
		"selector, beside":    {func(a *gang.Ask) { a.May, a.Beside = unselected, []model.NodeID{"n00001"} }, none},
		"level without label": {func(a *gang.Ask) { a.Require = block }, "needs 4 members in one block, 0 can be placed; for the next: 0/30 nodes fit: 30 have no block (label example.com/block)"},
		"one rack":            {func(a *gang.Ask) { a.May, a.Require, a.Beside = unselected, rack, []model.NodeID{"n00001"} }, "0/4 nodes fit"}, // it runs there
		"level, and too few": {func(a *gang.Ask) {
			a.Require, a.Min = rack, 5
			a.Roles[0].Members = members("m", 5)
		}, "needs 5 members in one rack, and no rack has room for them"},
		"subgroup and selector": {func(a *gang.Ask) {
			*a = gang.Ask{May: unselected}
			leafOf(a, 0, "s", 4, 4, 8, rack)
		}, `subgroup "s" needs 4 members in one rack, 0 of them can be placed; for the next: 0/30 nodes fit: 30 do not match nodeSelector disk=ssd`},
		"subgroup without label": {func(a *gang.Ask) {
			*a = gang.Ask{}
			leafOf(a, 0, "s", 4, 4, 8, block)
		}, `subgroup "s" needs 4 members in one block, 0 of them can be placed; for the next: 0/30 nodes fit: 30 have no block (label example.com/block)`},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, uniform(30, 8)...)
			a := ask(4, 8)
			c.change(a)
			if f := w.refuse(t, a); !strings.Contains(f.String(), c.want) {
				t.Errorf("%s\nlacks %s", f, c.want)
			}
		})
	}
}

// TestTellsOfOneDomain: with a required level the nodes of the domain that takes most are
// counted, and it is said that it is one; without one, all nodes are.
func TestTellsOfOneDomain(t *testing.T) {
	w := newWorld(t, append(uniform(8, 8), coretest.Node("x").GPUs(4, "A100").Build())...)
	a := ask(4, 8)
	a.Require, a.May = rack, refuseUnless(func(_ int, id model.NodeID) bool { return id < "n00003" })
	if f := w.refuse(t, a); !strings.Contains(f.String(), "needs 4 members in one rack, 3 can be placed; for the next in that rack: 0/4 nodes fit") {
		t.Error(f)
	}
	a.Require = model.Level{}
	if f := w.refuse(t, a); !strings.Contains(f.String(), "needs 4 members, 3 can be placed; for the next: 0/9 nodes fit") {
		t.Error(f)
	}
}

// TestCountsNodesOnce: whatever the gang and the rules, a gang of which nothing is placed is
// told of every node exactly once, unless its level alone is in the way.
func TestCountsNodesOnce(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		count := rapid.IntRange(1, 20).Draw(t, "nodes")
		var nodes []*model.Node
		for i := range count {
			n := coretest.Node(fmt.Sprintf("n%05d", i)).GPUs(rapid.IntRange(1, 4).Draw(t, "gpus"), "A100")
			if rapid.Bool().Draw(t, "in a rack") {
				n = n.Domains(fmt.Sprint("z", i%2), fmt.Sprint("r", i%3))
			}
			nodes = append(nodes, n.Build())
		}
		w := newWorld(t, nodes...)
		a := ask(rapid.IntRange(1, 4).Draw(t, "members"), rapid.IntRange(1, 4).Draw(t, "each"))
		a.Require = rapid.SampledFrom([]model.Level{{}, rack, zone, node}).Draw(t, "level")
		if nested := rapid.Bool().Draw(t, "nested"); nested {
			level := a.Require
			*a = gang.Ask{}
			leafOf(a, 0, "s", 2, 2, rapid.IntRange(1, 4).Draw(t, "each of the group"), level)
		}
		taking := rapid.IntRange(0, 2).Draw(t, "taking")
		a.May = refuseUnless(func(_ int, id model.NodeID) bool { return id < model.NodeID(fmt.Sprintf("n%05d", taking)) })
		_, f := gang.Make(w.l, w.p, a)
		if f == nil || f.Placed > 0 {
			return
		}
		r := f.Reason()
		if got := r.Nodes.Nodes(); r.Code == explain.Nodes && got != count || r.Code == explain.NoDomain && got != 0 {
			t.Fatalf("%d of %d nodes are counted: %s", got, count, f)
		}
		if r.Code == explain.NoDomain && taking == 0 {
			t.Fatalf("no node takes a member: %s", f)
		}
	})
}
