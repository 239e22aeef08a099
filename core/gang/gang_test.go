package gang_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/tangram-dev/tangram/core/explain"
	"github.com/tangram-dev/tangram/core/gang"
	"github.com/tangram-dev/tangram/core/ledger"
	"github.com/tangram-dev/tangram/core/model"
	"github.com/tangram-dev/tangram/core/planner"
	"github.com/tangram-dev/tangram/core/score"
	"github.com/tangram-dev/tangram/test/coretest"
)

var (
	node = model.Level{Name: "node", Depth: model.NodeDepth}
	zone = model.Level{Name: "zone", Label: "z", Depth: 0}
	rack = model.Level{Name: "rack", Label: "r", Depth: 1}
)

type world struct {
	l *ledger.Ledger
	p *planner.Planner
}

func newWorld(t coretest.T, nodes ...*model.Node) world {
	t.Helper()
	l := coretest.Ledger(t, nodes...)
	return world{l, planner.New(l)}
}

// uniform is nodes of so many GPUs in racks of 4, two racks to a zone.
func uniform(count, gpus int) []*model.Node {
	var out []*model.Node
	for i := range count {
		out = append(out, coretest.Node(fmt.Sprintf("n%05d", i)).GPUs(gpus, "A100").Domains(fmt.Sprintf("z%04d", i/8), fmt.Sprintf("r%04d", i/4)).Build())
	}
	return out
}

// take gives an unrelated holder some GPUs of a node.
func (w world) take(id string, gpus int) {
	v, _ := w.l.View(model.NodeID(id))
	r := coretest.Request(gpus)
	set := v.Free(model.NVIDIA).Lowest(gpus)
	w.l.Put(v.Node.ID, coretest.WholeClaim(fmt.Sprintf("other-%s-%d", id, set), v.Node, r, set))
}

func members(name string, n int) []model.HolderID {
	out := make([]model.HolderID, n)
	for i := range out {
		out[i] = model.HolderID(fmt.Sprintf("%s-%03d", name, i))
	}
	return out
}

func ask(count, gpus int) *gang.Ask {
	return &gang.Ask{
		Roles: []gang.Role{{Name: "worker", Request: coretest.Request(gpus), Members: members("m", count)}},
		Min:   count, Weights: score.DefaultWeights(),
	}
}

func (w world) plan(t testing.TB, a *gang.Ask) gang.Plan {
	t.Helper()
	plan, failure := gang.Make(w.l, w.p, a)
	if failure != nil {
		t.Fatalf("no plan: %s", failure)
	}
	if err := w.l.Audit(); err != nil {
		t.Fatal(err)
	}
	return plan
}

func (w world) refuse(t testing.TB, a *gang.Ask) *gang.Failure {
	t.Helper()
	before := w.l.String()
	plan, failure := gang.Make(w.l, w.p, a)
	if failure == nil {
		t.Fatalf("a plan: %v", plan)
	}
	if after := w.l.String(); after != before {
		t.Fatalf("the ledger changed:\n%s\nwas\n%s", after, before)
	}
	return failure
}

func nodesOf(p gang.Plan) []model.NodeID {
	var out []model.NodeID
	for _, m := range p.Placements {
		out = append(out, m.Node)
	}
	slices.Sort(out)
	return slices.Compact(out)
}

func TestFewestNodes(t *testing.T) {
	for _, c := range []struct{ count, gpus, nodes int }{{8, 1, 1}, {16, 1, 2}, {4, 2, 1}, {5, 2, 2}, {3, 8, 3}, {9, 1, 2}, {2, 5, 2}, {1, 8, 1}} {
		t.Run(fmt.Sprintf("%dx%d", c.count, c.gpus), func(t *testing.T) {
			w := newWorld(t, uniform(12, 8)...)
			if p := w.plan(t, ask(c.count, c.gpus)); p.Nodes != c.nodes || len(nodesOf(p)) != c.nodes || len(p.Placements) != c.count {
				t.Errorf("%d members on %d nodes, want %d on %d", len(p.Placements), p.Nodes, c.count, c.nodes)
			}
		})
	}
}

// A node that can take all of it is preferred to the rack with the least headroom.
func TestOneNodeBeforeTightRack(t *testing.T) {
	w := newWorld(t, uniform(8, 8)...)
	for i, gpus := range []int{4, 4, 8, 8} {
		w.take(fmt.Sprintf("n%05d", i), gpus)
	}
	if p := w.plan(t, ask(8, 1)); p.Nodes != 1 {
		t.Errorf("on %v", nodesOf(p))
	}
}

func TestTightestDomain(t *testing.T) {
	w := newWorld(t, uniform(16, 8)...)
	// The second rack has 12 left, all others 32: 16 fit into any rack but this, 12
	// only there without breaking a larger one.
	w.take("n00004", 4)
	w.take("n00005", 8)
	w.take("n00006", 8)
	if p := w.plan(t, ask(12, 1)); p.Domain != "z0000/r0001" {
		t.Errorf("12 in %q", p.Domain)
	}
	if p := w.plan(t, ask(16, 1)); !strings.Contains(p.Domain, "/r") || p.Nodes != 2 {
		t.Errorf("16 in %q on %d nodes", p.Domain, p.Nodes)
	}
	// 40 fit in no rack, in a zone they do.
	if p := w.plan(t, ask(40, 1)); p.Domain != "z0001" {
		t.Errorf("40 in %q", p.Domain)
	}
}

func TestRequiredLevel(t *testing.T) {
	w := newWorld(t, uniform(8, 8)...)
	a := ask(33, 1)
	a.Require = rack
	if f := w.refuse(t, a); f.String() != "waits for capacity: needs 33 members in one rack, and no rack has room for them" {
		t.Error(f)
	}
	a = ask(9, 1)
	a.Require = node
	if f := w.refuse(t, a); f.String() != "waits for capacity: needs 9 members in one node, and no node has room for them" {
		t.Error(f)
	}
	a = ask(33, 1)
	a.Require = zone
	w.plan(t, a)
}

// A required level is kept although May rejects most domains: none is skipped for
// coming late in the order.
func TestRequiredLevelOfMany(t *testing.T) {
	w := newWorld(t, uniform(4*200, 8)...)
	a := ask(16, 1)
	a.Require = rack
	a.May = refuseUnless(func(_ int, id model.NodeID) bool { return id >= "n00796" })
	if p := w.plan(t, a); p.Domain != "z0099/r0199" {
		t.Errorf("in %q", p.Domain)
	}
}

func TestRepairStaysNear(t *testing.T) {
	w := newWorld(t, uniform(16, 8)...)
	a := ask(2, 1)
	a.Beside = []model.NodeID{"n00009"}
	if p := w.plan(t, a); !slices.Equal(nodesOf(p), a.Beside) {
		t.Errorf("room on its own node, but on %v", nodesOf(p))
	}
	w = newWorld(t, uniform(16, 8)...)
	w.take("n00009", 8)
	if p := w.plan(t, a); p.Domain != "z0001/r0002" {
		t.Errorf("room in its own rack, but in %q", p.Domain)
	}
	for _, id := range []string{"n00008", "n00010", "n00011"} {
		w.take(id, 8)
	}
	if p := w.plan(t, &gang.Ask{Roles: []gang.Role{{Request: coretest.Request(1), Members: members("x", 3)}}, Min: 3, Beside: a.Beside, Require: zone}); p.Domain != "z0001" {
		t.Errorf("in %q", p.Domain)
	}
	w.refuse(t, &gang.Ask{Roles: []gang.Role{{Request: coretest.Request(1), Members: members("y", 3)}}, Min: 3, Beside: a.Beside, Require: rack})
	// A node that no longer exists does not restrict the gang: any rack is possible.
	w.plan(t, &gang.Ask{Roles: []gang.Role{{Request: coretest.Request(1), Members: members("g", 3)}}, Min: 3, Beside: []model.NodeID{"gone"}, Require: rack})
}

func TestElastic(t *testing.T) {
	w := newWorld(t, uniform(2, 8)...)
	w.take("n00000", 3)
	a := ask(20, 1)
	a.Min = 4
	// Not all fit: the minimum, and the optional members that fit beside it.
	if p := w.plan(t, a); len(p.Placements) != 5 || p.Nodes != 1 {
		t.Errorf("%d members on %d nodes", len(p.Placements), p.Nodes)
	}
	// All of them over two nodes rather than some of them on one.
	w = newWorld(t, uniform(4, 8)...)
	a = ask(16, 1)
	a.Min = 4
	if p := w.plan(t, a); len(p.Placements) != 16 || p.Nodes != 2 {
		t.Errorf("%d members on %d nodes", len(p.Placements), p.Nodes)
	}
}

// A launcher without GPUs, and two workers that must both be there.
func TestRoles(t *testing.T) {
	n := coretest.Node("a").GPUs(4, "A100").Build()
	n.Host = model.Host{CPU: 8000, Memory: 1 << 20}
	w := newWorld(t, n)
	launcher := &model.Request{Host: model.Host{CPU: 6000}}
	worker := coretest.Request(2)
	worker.Host.CPU = 1000
	a := &gang.Ask{Roles: []gang.Role{
		{Name: "launcher", Request: launcher, Members: members("l", 1), Min: 1},
		{Name: "worker", Request: worker, Members: members("w", 2), Min: 2},
	}, Min: 3, Weights: score.DefaultWeights()}
	if p := w.plan(t, a); p.Nodes != 1 || len(p.Placements) != 3 {
		t.Error(p)
	}
	w = newWorld(t, n)
	launcher.Host.CPU = 7000
	if f := w.refuse(t, a); f.String() != `waits for capacity: needs 3 members, 2 can be placed; for the next of role "launcher": 0/1 nodes fit: 1 has too little free CPU (needs 7 CPUs, at most 6 CPUs free)` {
		t.Error(f)
	}
	a.Roles[1].Min, a.Min = 3, 4
	if f := w.refuse(t, a); f.String() != "waits for members: 3 of 4 exist" {
		t.Error(f)
	}
}

func TestNever(t *testing.T) {
	w := newWorld(t, uniform(2, 8)...)
	w.take("n00000", 8)
	w.take("n00001", 8)
	empty := gang.NewEmpty(w.l)
	if f := empty.Never(ask(16, 1)); f != nil {
		t.Error(f)
	}
	f := empty.Never(ask(17, 1))
	if f == nil || f.String() != "waits for capacity: needs 17 members, 16 can be placed; for the next: 0/2 nodes fit: 2 have too few free GPUs (0 of 1)" {
		t.Error(f)
	}
	if err := w.l.SetNode(coretest.Node("n00002").GPUs(1, "A100").Build()); err != nil {
		t.Fatal(err)
	}
	if f := empty.Never(ask(17, 1)); f != nil {
		t.Error("a node came:", f)
	}
	w.l.RemoveNode("n00001")
	if f := empty.Never(ask(17, 1)); f == nil {
		t.Error("a node went")
	}
}

// The cost of a plan must not grow with the fleet.
func BenchmarkMake(b *testing.B) {
	for _, count := range []int{1000, 16000} {
		b.Run(fmt.Sprintf("8x1/nodes=%d", count), func(b *testing.B) {
			w := newWorld(b, uniform(count, 8)...)
			a := ask(8, 1)
			a.Terse = true
			b.ReportAllocs()
			for b.Loop() {
				tx := w.l.Begin()
				if _, failure := gang.Make(w.l, w.p, a); failure != nil {
					b.Fatal(failure)
				}
				tx.Rollback()
			}
		})
		b.Run(fmt.Sprintf("16x8/nodes=%d", count), func(b *testing.B) {
			w := newWorld(b, uniform(count, 8)...)
			a := ask(16, 8)
			a.Terse = true
			for b.Loop() {
				tx := w.l.Begin()
				if _, failure := gang.Make(w.l, w.p, a); failure != nil {
					b.Fatal(failure)
				}
				tx.Rollback()
			}
		})
	}
}

// refuseUnless makes a rule of a predicate.
func refuseUnless(may func(int, model.NodeID) bool) func(int, model.NodeID) *explain.Refusal {
	return func(role int, id model.NodeID) *explain.Refusal {
		if may(role, id) {
			return nil
		}
		return &explain.Refusal{Code: explain.Filtered}
	}
}
