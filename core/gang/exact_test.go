package gang_test

import (
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/tangram-dev/tangram/core/gang"
	"github.com/tangram-dev/tangram/core/model"
	"github.com/tangram-dev/tangram/core/planner"
	"github.com/tangram-dev/tangram/core/score"
	"github.com/tangram-dev/tangram/test/coretest"
)

// roles are members of each of some requests, all needed.
func roles(counts []int, requests ...*model.Request) *gang.Ask {
	a := &gang.Ask{Weights: score.DefaultWeights()}
	for i, r := range requests {
		a.Roles = append(a.Roles, gang.Role{Name: fmt.Sprint("r", i), Request: r, Members: members(fmt.Sprint("r", i), counts[i]), Min: counts[i]})
		a.Min += counts[i]
	}
	return a
}

// Roles that compete for scarce nodes: placed one after the other, the first takes
// what the second needs.
func TestRolesCompete(t *testing.T) {
	free := func(sizes ...int) []*model.Node {
		var out []*model.Node
		for i, n := range sizes {
			out = append(out, coretest.Node(fmt.Sprint("n", i)).GPUs(n, "A100").Build())
		}
		return out
	}
	of := func(n int, name string) *model.Request {
		r := coretest.Request(n)
		r.UseModels = []model.GPUModel{model.ParseModel(name)}
		return r
	}
	t.Run("sizes", func(t *testing.T) {
		// Only the 4 beside a 3 leaves room for the other two 3s.
		w := newWorld(t, free(6, 7)...)
		w.plan(t, roles([]int{1, 3}, coretest.Request(4), coretest.Request(3)))
		w = newWorld(t, free(7, 8)...)
		w.plan(t, roles([]int{3, 3}, coretest.Request(3), coretest.Request(2)))
	})
	t.Run("a model others could use", func(t *testing.T) {
		// The larger request would do with either node, the smaller needs the A100s.
		w := newWorld(t, coretest.Node("a").GPUs(2, "A100").Build(), coretest.Node("b").GPUs(4, "T4").Build())
		w.plan(t, roles([]int{1, 2}, coretest.Request(2), of(1, "A100")))
	})
	t.Run("models on one node", func(t *testing.T) {
		// Either role placed first must leave the A100s to the other.
		w := newWorld(t, coretest.Node("a").GPUs(2, "A100").GPUs(2, "T4").Build(), coretest.Node("b").GPUs(1, "T4").Build())
		w.plan(t, roles([]int{1, 2}, coretest.Request(2), of(1, "A100")))
	})
	t.Run("CPUs", func(t *testing.T) {
		// The launcher needs the one node with many CPUs, which has the most GPUs, too.
		a, b := coretest.Node("a").GPUs(4, "A100").Build(), coretest.Node("b").GPUs(4, "A100").Build()
		a.Host, b.Host = model.Host{CPU: 16, Memory: 1}, model.Host{CPU: 8, Memory: 1}
		worker, launcher := coretest.Request(2), &model.Request{Host: model.Host{CPU: 9}}
		worker.Host.CPU = 4
		w := newWorld(t, a, b)
		w.plan(t, roles([]int{3, 1}, worker, launcher))
		w = newWorld(t, a, b)
		launcher.Host.CPU = 13
		w.refuse(t, roles([]int{3, 1}, worker, launcher))
	})
	t.Run("one node for one of them only", func(t *testing.T) {
		w := newWorld(t, free(4, 4)...)
		a := roles([]int{1, 1}, coretest.Request(4), coretest.Request(3))
		for _, only := range []model.NodeID{"n0", "n1"} {
			a.May = refuseUnless(func(role int, id model.NodeID) bool { return role == 0 || id == only })
			tx := w.l.Begin()
			w.plan(t, a)
			tx.Rollback()
		}
	})
}

// headroom is what a node has left, counted independently of the ledger.
type headroom struct {
	gpus     int
	cpu, hca int64
	model    string
	closed   []bool // by role
	zone, in string // its domains
}

func (s *headroom) wrong(r *model.Request) bool {
	return len(r.UseModels) > 0 && r.UseModels[0] != model.ParseModel(s.model)
}

// TestCompleteForRoles: a gang of several roles that ask for whole GPUs, of some
// model or any, for CPUs and for an extended resource, is placed exactly if trying everything finds a way: in
// one domain, on nodes that take the role, with the minimums of roles and gang, as
// many as the quota allows.
func TestCompleteForRoles(t *testing.T) {
	greedy, exact, refused := 0, 0, 0
	rapid.Check(t, func(t *rapid.T) {
		l := coretest.Ledger(t)
		a := &gang.Ask{Weights: score.DefaultWeights(), Terse: true}
		count := rapid.IntRange(2, 3).Draw(t, "roles")
		for i := range count {
			r := &model.Request{}
			if rapid.IntRange(0, 4).Draw(t, "launcher") > 0 {
				r = coretest.Request(rapid.SampledFrom([]int{3, 2, 4, 5, 1}).Draw(t, "GPUs each"))
				if m := rapid.SampledFrom([]string{"", "", "A100", "T4"}).Draw(t, "wants"); m != "" {
					r.UseModels = []model.GPUModel{model.ParseModel(m)}
				}
			}
			r.Host.CPU = rapid.SampledFrom([]int64{0, 1, 2, 3}).Draw(t, "CPUs each")
			if hca := rapid.SampledFrom([]int64{0, 0, 1, 2}).Draw(t, "HCAs each"); hca > 0 {
				r.Extras = model.Extras{{Name: "rdma/hca", Amount: hca}}
			}
			a.Roles = append(a.Roles, gang.Role{Name: fmt.Sprint("r", i), Request: r})
		}
		// Nodes are made for members, about, so that there is often just one way.
		nodes := map[model.NodeID]*headroom{}
		var ids []model.NodeID
		all := make([]int, count)
		for i := range rapid.SampledFrom([]int{3, 4, 2, 1}).Draw(t, "nodes") {
			s := &headroom{gpus: rapid.SampledFrom([]int{0, 0, 0, 0, 0, -1, 1}).Draw(t, "GPUs"), cpu: rapid.SampledFrom([]int64{0, 0, 1, 4, -1}).Draw(t, "CPUs"), model: rapid.SampledFrom([]string{"A100", "T4"}).Draw(t, "model")}
			for role := range count {
				s.closed = append(s.closed, rapid.IntRange(0, 5).Draw(t, "closed") == 0)
				r := a.Roles[role].Request
				if s.closed[role] || s.wrong(r) {
					continue
				}
				n := min(rapid.SampledFrom([]int{1, 2, 0, 3}).Draw(t, "members here"), 6-all[role])
				all[role] += n
				s.gpus += n * r.Count()
				s.cpu += int64(n) * r.Host.CPU
				s.hca += int64(n) * r.Extras.Amount("rdma/hca")
			}
			s.hca += rapid.SampledFrom([]int64{0, 0, 0, 1, 5}).Draw(t, "HCAs more")
			s.gpus, s.cpu = max(0, s.gpus), max(0, s.cpu)
			s.zone = fmt.Sprint("z", rapid.IntRange(0, 1).Draw(t, "zone"))
			s.in = fmt.Sprint("r", rapid.IntRange(0, 1).Draw(t, "rack"))
			taken := rapid.IntRange(0, 2).Draw(t, "taken")
			n := coretest.Node(fmt.Sprint("n", i)).GPUs(s.gpus+taken, s.model).Domains(s.zone, s.in).Build()
			n.Host = model.Host{CPU: s.cpu, Memory: 1}
			n.Extras = model.MakeExtras([]model.Extra{{Name: "rdma/hca", Amount: s.hca}})
			if err := l.SetNode(n); err != nil {
				t.Fatal(err)
			}
			if taken > 0 {
				l.Put(n.ID, coretest.WholeClaim("other"+string(n.ID), n, coretest.Request(taken), model.Mask(1<<taken-1)))
			}
			nodes[n.ID] = s
			ids = append(ids, n.ID)
		}
		sum, least := 0, 0
		for i := range a.Roles {
			r := &a.Roles[i]
			r.Members = members(r.Name, all[i])
			r.Min = max(0, all[i]-rapid.SampledFrom([]int{0, 0, 0, 1, 2}).Draw(t, "beyond min"))
			sum, least = sum+all[i], least+r.Min
		}
		a.Min = sum - rapid.IntRange(0, sum-least).Draw(t, "beyond the gang's min")
		a.Require = rapid.SampledFrom([]model.Level{{}, {}, {}, {}, {}, node, zone, rack}).Draw(t, "level")
		a.May = refuseUnless(func(role int, id model.NodeID) bool { return !nodes[id].closed[role] })
		if rapid.IntRange(0, 3).Draw(t, "repair") == 0 {
			a.Beside = []model.NodeID{rapid.SampledFrom(ids).Draw(t, "beside")}
		}
		quota := 100
		if rapid.IntRange(0, 3).Draw(t, "quota") == 0 {
			quota = rapid.IntRange(0, 16).Draw(t, "GPUs allowed")
			a.Allow = func(counts []int) bool { return gpusOf(a, counts) <= quota }
		}
		want := false
		for _, in := range domainsOf(nodes, ids, a) {
			want = want || possible(nodes, in, a, quota)
		}
		w := world{l, planner.New(l)}
		before := l.String()
		plan, failure := gang.Make(l, w.p, a)
		if (failure == nil) != want {
			t.Fatalf("possible: %v, but: %v %v", want, plan, failure)
		}
		if failure != nil {
			if after := l.String(); after != before {
				t.Fatalf("a failure left\n%s\nof\n%s", after, before)
			}
			refused++
			return
		}
		if plan.Weighed() {
			exact++
		} else {
			greedy++
		}
		check(t, w, a, plan)
		counts := make([]int, count)
		for _, p := range plan.Placements {
			s, r := nodes[p.Node], a.Roles[p.Role].Request
			counts[p.Role]++
			s.gpus, s.cpu, s.hca = s.gpus-r.Count(), s.cpu-r.Host.CPU, s.hca-r.Extras.Amount("rdma/hca")
			if s.gpus < 0 || s.cpu < 0 || s.hca < 0 || s.wrong(r) {
				t.Fatalf("%s does not fit on %s", p.Holder, p.Node)
			}
		}
		if gpusOf(a, counts) > quota {
			t.Fatalf("%v take %d GPUs of %d", counts, gpusOf(a, counts), quota)
		}
	})
	t.Logf("%d placed one role after the other, %d by weighing, %d refused", greedy, exact, refused)
}

func gpusOf(a *gang.Ask, counts []int) int {
	sum := 0
	for i, n := range counts {
		sum += n * a.Roles[i].Request.Count()
	}
	return sum
}

// domainsOf lists the nodes of each domain that would do.
func domainsOf(nodes map[model.NodeID]*headroom, ids []model.NodeID, a *gang.Ask) [][]model.NodeID {
	key := func(id model.NodeID) string {
		s := nodes[id]
		return map[string]string{"": "", "node": string(id), "zone": s.zone, "rack": s.zone + s.in}[a.Require.Name]
	}
	by := map[string][]model.NodeID{}
	for _, id := range ids {
		by[key(id)] = append(by[key(id)], id)
	}
	var out [][]model.NodeID
	for name, in := range by { // any will do
		if len(a.Beside) == 0 || key(a.Beside[0]) == name {
			out = append(out, in)
		}
	}
	return out
}

// possible tries every number of members of each role on every node.
func possible(nodes map[model.NodeID]*headroom, in []model.NodeID, a *gang.Ask, quota int) bool {
	reached := map[[3]int]bool{{}: true}
	for _, id := range in {
		s := nodes[id]
		next := map[[3]int]bool{}
		var try func(at [3]int, role, gpus int, cpu, hca int64)
		try = func(at [3]int, role, gpus int, cpu, hca int64) {
			if role == len(a.Roles) {
				next[at] = true
				return
			}
			r := a.Roles[role].Request
			for {
				try(at, role+1, gpus, cpu, hca)
				at[role]++
				gpus, cpu, hca = gpus-r.Count(), cpu-r.Host.CPU, hca-r.Extras.Amount("rdma/hca")
				if s.closed[role] || s.wrong(r) || gpus < 0 || cpu < 0 || hca < 0 || at[role] > len(a.Roles[role].Members) {
					return
				}
			}
		}
		for at := range reached { // a set
			try(at, 0, s.gpus, s.cpu, s.hca)
		}
		reached = next
	}
	for at := range reached { // any will do
		sum, enough := 0, true
		for i, r := range a.Roles {
			sum += at[i]
			enough = enough && at[i] >= r.Min
		}
		if enough && sum >= a.Min && gpusOf(a, slices.Clone(at[:len(a.Roles)])) <= quota {
			return true
		}
	}
	return false
}

// A gang of two roles that fails because one of them does not fit alone must not be
// weighed, and weighing has a bounded cost for every fleet.
func BenchmarkRoles(b *testing.B) {
	for _, count := range []int{1000, 16000} {
		for _, c := range []struct {
			name  string
			roles *gang.Ask
		}{
			{"in order", roles([]int{4, 8}, coretest.Request(8), coretest.Request(2))},
			{"weighed", roles([]int{4, 12}, coretest.Request(4), coretest.Request(3))},
			{"one has no place", roles([]int{4, 8}, coretest.Request(8), coretest.Request(16))},
			{"no place together", roles([]int{8, 5}, coretest.Request(4), coretest.Request(3))},
		} {
			b.Run(fmt.Sprintf("%s/nodes=%d", c.name, count), func(b *testing.B) {
				w := newWorld(b, uniform(count, 8)...)
				for i := range count {
					switch {
					case c.name == "in order" || c.name == "one has no place":
					case i < 8:
						w.take(fmt.Sprintf("n%05d", i), 1+i%2)
					default:
						w.take(fmt.Sprintf("n%05d", i), 6+i%3)
					}
				}
				c.roles.Terse = true
				b.ReportAllocs()
				for b.Loop() {
					tx := w.l.Begin()
					if plan, failure := gang.Make(w.l, w.p, c.roles); (c.name == "weighed") != plan.Weighed() || (failure == nil) != (c.name == "in order" || plan.Weighed()) {
						b.Fatal(plan, failure)
					}
					tx.Rollback()
				}
			})
		}
	}
}
