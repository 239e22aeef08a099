package gang_test

import (
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/tangram-dev/tangram/core/explain"
	"github.com/tangram-dev/tangram/core/gang"
	"github.com/tangram-dev/tangram/core/model"
	"github.com/tangram-dev/tangram/core/planner"
	"github.com/tangram-dev/tangram/core/score"
	"github.com/tangram-dev/tangram/test/coretest"
)

// leafOf adds a leaf of equal members to an ask, and returns its number.
func leafOf(a *gang.Ask, parent int, name string, need, has, gpus int, require model.Level) int {
	at := addGroup(a, gang.Group{Name: name, Parent: parent, Min: need, Require: require})
	a.Roles = append(a.Roles, gang.Role{
		Name: name, Request: coretest.Request(gpus), Members: members(name, has), Group: at, Shape: fmt.Sprint(gpus),
	})
	return at
}

func addGroup(a *gang.Ask, g gang.Group) int {
	if a.Tree == nil {
		a.Tree = &gang.Tree{Groups: []gang.Group{{Parent: -1}}}
		a.Weights = score.DefaultWeights()
	}
	a.Tree.Groups = append(a.Tree.Groups, g)
	return len(a.Tree.Groups) - 1
}

// placedIn are the nodes of the members of each group.
func placedIn(a *gang.Ask, plan gang.Plan) [][]model.NodeID {
	out := make([][]model.NodeID, len(a.Tree.Groups))
	for _, p := range plan.Placements {
		for g := a.Roles[p.Role].Group; g >= 0; g = a.Tree.Groups[g].Parent {
			out[g] = append(out[g], p.Node)
		}
	}
	return out
}

// Prefill groups of a rack each, and decode groups that need fewer: each in one rack, and
// all or none.
func TestSubgroupsInRacks(t *testing.T) {
	serving := func(prefill, decode int) *gang.Ask {
		a := &gang.Ask{}
		for i := range prefill {
			leafOf(a, 0, fmt.Sprint("prefill-", i), 4, 4, 8, rack)
		}
		for i := range decode {
			leafOf(a, 0, fmt.Sprint("decode-", i), 2, 2, 8, rack)
		}
		return a
	}
	w := newWorld(t, uniform(16, 8)...) // four racks of four nodes
	a := serving(2, 4)
	plan := w.plan(t, a)
	if len(plan.Placements) != 16 {
		t.Fatalf("%d members: %v", len(plan.Placements), plan)
	}
	for g, ids := range placedIn(a, plan)[1:] {
		if d, ok := w.l.Domains().Common(ids...); !ok || d.Depth < rack.Depth {
			t.Errorf("%s is on %v", a.Tree.Groups[g+1].Name, ids)
		}
	}
	w = newWorld(t, uniform(16, 8)...)
	w.refuse(t, serving(3, 3)) // three racks, and a half for three pairs
	w.take("n00000", 1)
	before := w.l.String()
	if f := w.refuse(t, serving(4, 0)); f.Subgroup != "prefill-3" || f.Placed != 12 || f.SubNeed != 4 || f.Bounded {
		t.Errorf("%+v", f)
	}
	if w.l.String() != before {
		t.Error("something is held")
	}
}

// Of more groups than are needed those are chosen that fit, each whole.
func TestSomeSubgroups(t *testing.T) {
	w := newWorld(t, uniform(8, 8)...)
	w.take("n00001", 4)
	w.take("n00005", 4) // no rack has four whole nodes
	a := &gang.Ask{}
	for i, n := range []int{4, 3, 2, 3} {
		leafOf(a, 0, fmt.Sprint("g", i), n, n, 8, rack)
	}
	a.Tree.Groups[0].MinGroups = 2
	counts := placedIn(a, w.plan(t, a))
	if got := []int{len(counts[1]), len(counts[2]), len(counts[3]), len(counts[4])}; !slices.Equal(got, []int{0, 3, 0, 3}) && !slices.Equal(got, []int{0, 3, 2, 0}) {
		t.Errorf("%v", got)
	}
}

// What a group of a running gang gets back is in the group's own rack; a further group is
// in the zone of the gang.
func TestSubgroupMended(t *testing.T) {
	a := &gang.Ask{}
	leafOf(a, 0, "a", 1, 1, 8, rack)
	leafOf(a, 0, "b", 2, 2, 8, rack)
	a.Tree.Groups[0].Require = zone
	a.Tree.Groups[0].Beside = []model.NodeID{"n00009"}
	a.Tree.Groups[1].Beside = []model.NodeID{"n00009"}
	for goal, want := range map[int]string{1: "[n00010]", 2: "[n00012 n00013]"} {
		w := newWorld(t, uniform(32, 8)...)
		for _, id := range []string{"n00008", "n00009"} {
			w.take(id, 8)
		}
		if goal == 2 {
			w.take("n00010", 8)
		}
		b := *a
		b.Roles = slices.Clone(a.Roles)
		b.Tree = &gang.Tree{Groups: slices.Clone(a.Tree.Groups), Goal: goal}
		b.Roles[2-goal].Members = nil
		plan := w.plan(t, &b)
		if got := fmt.Sprint(nodesOf(plan)); got != want {
			t.Errorf("goal %d on %s, want %s", goal, got, want)
		}
	}
	w := newWorld(t, uniform(32, 8)...)
	for _, id := range []string{"n00008", "n00009", "n00010", "n00011"} {
		w.take(id, 8) // its rack is full
	}
	b := *a
	b.Tree = &gang.Tree{Groups: a.Tree.Groups, Goal: 1}
	w.refuse(t, &b)
}

// drawTree draws a gang with subgroups: leaves of one kind, or of several kinds that are
// all needed.
func drawTree(t *rapid.T, most int) *gang.Ask {
	a := &gang.Ask{Terse: rapid.Bool().Draw(t, "terse")}
	levels := []model.Level{{}, {}, rack, rack, zone, node}
	left := most
	var draw func(parent, depth int)
	draw = func(parent, depth int) {
		children := rapid.IntRange(1, 3).Draw(t, "children")
		made := 0
		for range children {
			if left == 0 {
				break
			}
			made++
			require := rapid.SampledFrom(levels).Draw(t, "level")
			prefer := rapid.SampledFrom(levels).Draw(t, "prefers")
			name := fmt.Sprint("g", len(a.Tree.Groups))
			if depth < 2 && rapid.IntRange(0, 3).Draw(t, "inner") == 0 {
				draw(addGroup(a, gang.Group{Name: name, Parent: parent, Require: require, Prefer: prefer}), depth+1)
				continue
			}
			left--
			has := rapid.IntRange(1, 3).Draw(t, "members")
			at := leafOf(a, parent, name, rapid.IntRange(1, has).Draw(t, "min"), has, rapid.IntRange(1, 3).Draw(t, "GPUs"), require)
			a.Tree.Groups[at].Prefer = prefer
			if rapid.IntRange(0, 4).Draw(t, "two kinds") == 0 {
				a.Tree.Groups[at].Min = has + 1
				n := rapid.IntRange(1, 3).Draw(t, "GPUs of the other")
				a.Roles = append(a.Roles, gang.Role{Name: name, Request: coretest.Request(n), Members: members(name+"x", 1), Group: at, Shape: fmt.Sprint(n)})
			}
		}
		a.Tree.Groups[parent].MinGroups = rapid.IntRange(0, made).Draw(t, "of them")
	}
	addGroup(a, gang.Group{})
	a.Tree.Groups = a.Tree.Groups[:1]
	a.Tree.Groups[0].Require = rapid.SampledFrom([]model.Level{{}, {}, {}, zone, rack}).Draw(t, "gang's level")
	draw(0, 0)
	if len(a.Roles) == 0 {
		leafOf(a, 0, "only", 1, 1, 1, model.Level{})
	}
	return a
}

// small is a fleet of a few nodes, in racks and zones.
func small(t *rapid.T) (world, []*headroom, []model.NodeID) {
	l := coretest.Ledger(t)
	var free []*headroom
	var ids []model.NodeID
	for i := range rapid.IntRange(1, 5).Draw(t, "nodes") {
		h := &headroom{gpus: rapid.IntRange(1, 4).Draw(t, "has"), zone: fmt.Sprint("z", i/3), in: fmt.Sprint("r", rapid.IntRange(0, 2).Draw(t, "rack"))}
		n := coretest.Node(fmt.Sprint("n", i)).GPUs(h.gpus, "A100").Domains(h.zone, h.in).Build()
		if err := l.SetNode(n); err != nil {
			t.Fatal(err)
		}
		free, ids = append(free, h), append(ids, n.ID)
	}
	return world{l, planner.New(l)}, free, ids
}

// everything tries everything: whether some groups can be made whole on some nodes, one
// after the other. It shares no code with the planner.
type everything struct {
	a     *gang.Ask
	free  []*headroom
	steps int
}

type todo struct {
	group int
	nodes []int // allowed
}

func (e *everything) can(list []todo) bool {
	if e.steps++; e.steps > 1_000_000 {
		return false
	}
	if len(list) == 0 {
		return true
	}
	next, rest := list[0], list[1:]
	for _, nodes := range e.domains(next) {
		var children []int
		for g, o := range e.a.Tree.Groups {
			if o.Parent == next.group && g > 0 {
				children = append(children, g)
			}
		}
		if len(children) == 0 {
			if e.members(e.sizes(next.group), nodes, rest) {
				return true
			}
			continue
		}
		need := e.a.Tree.Groups[next.group].MinGroups
		if need == 0 {
			need = len(children)
		}
		for set := range 1 << len(children) {
			work := slices.Clone(rest)
			n := 0
			for i, c := range children {
				if set>>i&1 == 1 {
					n++
					work = append(work, todo{c, nodes})
				}
			}
			if n == need && e.can(work) {
				return true
			}
		}
	}
	return false
}

// sizes are the GPUs of the members that a leaf needs; nil when they do not exist.
func (e *everything) sizes(g int) []int {
	var out []int
	for _, r := range e.a.Roles {
		if r.Group == g {
			for range r.Members {
				out = append(out, r.Request.Count())
			}
		}
	}
	return out[:e.a.Tree.Groups[g].Min]
}

func (e *everything) members(sizes, nodes []int, rest []todo) bool {
	if len(sizes) == 0 {
		return e.can(rest)
	}
	for _, n := range nodes {
		if e.free[n].gpus >= sizes[0] {
			e.free[n].gpus -= sizes[0]
			ok := e.members(sizes[1:], nodes, rest)
			e.free[n].gpus += sizes[0]
			if ok {
				return true
			}
		}
	}
	return false
}

// domains are the sets of nodes that a group may use.
func (e *everything) domains(w todo) [][]int {
	by := map[string][]int{}
	var names []string
	for _, n := range w.nodes {
		f := e.free[n]
		name := map[string]string{"": "", "zone": f.zone, "rack": f.zone + "/" + f.in, "node": fmt.Sprint(n)}[e.a.Tree.Groups[w.group].Require.Name]
		if by[name] == nil {
			names = append(names, name)
		}
		by[name] = append(by[name], n)
	}
	var out [][]int
	for _, name := range names {
		out = append(out, by[name])
	}
	return out
}

// TestSubgroupsExact: a gang with subgroups is placed exactly if trying everything finds a
// way, unless the search says that it ended at its limit, which is rare.
func TestSubgroupsExact(t *testing.T) {
	placed, refused, bounded := 0, 0, 0
	rapid.Check(t, func(t *rapid.T) {
		w, free, ids := small(t)
		a := drawTree(t, 4)
		all := make([]int, len(ids))
		for i := range all {
			all[i] = i
		}
		e := &everything{a: a, free: free}
		want := e.can([]todo{{0, all}})
		if e.steps > 1_000_000 {
			t.Skip("too large to try everything")
		}
		before := w.l.String()
		plan, failure := gang.Make(w.l, w.p, a)
		switch {
		case failure == nil && !want:
			t.Fatalf("a plan where there is none: %v", plan)
		case failure != nil && want && !failure.Bounded:
			t.Fatalf("no plan where there is one: %s", failure)
		case failure != nil && w.l.String() != before:
			t.Fatalf("a failure left\n%s\nof\n%s", w.l, before)
		case failure != nil && want:
			bounded++
		case failure != nil:
			refused++
			_ = failure.String()
		default:
			placed++
			wholeTree(t, w, a, plan)
		}
	})
	t.Logf("%d placed, %d refused, %d missed at the limit", placed, refused, bounded)
	if bounded*100 > placed {
		t.Errorf("%d of %d missed at the limit", bounded, placed)
	}
}

// wholeTree checks a plan: every group of which a member is placed is whole, in one domain
// of its level, and so is the goal.
func wholeTree(t *rapid.T, w world, a *gang.Ask, plan gang.Plan) {
	where := placedIn(a, plan)
	whole := make([]bool, len(where))
	children := make([]int, len(where))
	groups := a.Tree.Groups
	for g := len(groups) - 1; g >= 0; g-- {
		if p := groups[g].Parent; p >= 0 {
			children[p]++
		}
	}
	done := make([]int, len(where))
	for g := len(groups) - 1; g >= 0; g-- {
		group := &groups[g]
		switch need := group.MinGroups; {
		case children[g] == 0:
			whole[g] = len(where[g]) >= group.Min
		case need == 0:
			whole[g] = done[g] == children[g]
		default:
			whole[g] = done[g] >= need
		}
		if whole[g] && group.Parent >= 0 {
			done[group.Parent]++
		}
		if !whole[g] && (len(where[g]) > 0 || g == a.Tree.Goal) {
			t.Fatalf("%q has %d members and is not whole: %v", group.Name, len(where[g]), plan)
		}
		if group.Require.Name == "" || len(where[g]) == 0 {
			continue
		}
		ids := append(slices.Clone(where[g]), group.Beside...)
		slices.Sort(ids)
		ids = slices.Compact(ids)
		if group.Require.Depth == model.NodeDepth {
			if len(ids) != 1 {
				t.Fatalf("%q on one node: %v", group.Name, ids)
			}
		} else if d, ok := w.l.Domains().Common(ids...); !ok || d.Depth < group.Require.Depth {
			t.Fatalf("%q: %v share no %s", group.Name, ids, group.Require.Name)
		}
	}
	if err := w.l.Audit(); err != nil {
		t.Fatal(err)
	}
}

// TestSubgroupsWhole: whatever a gang may use and however much of it the quota allows,
// there is never a half subgroup, and equal questions have equal answers.
func TestSubgroupsWhole(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := drawWorld(t)
		a := drawTree(t, 8)
		ids := slices.Sorted(w.l.Nodes())
		some := func(what string) []model.NodeID {
			out := rapid.SliceOfNDistinct(rapid.SampledFrom(ids), 0, len(ids), rapid.ID[model.NodeID]).Draw(t, what)
			slices.Sort(out)
			return out
		}
		if rapid.Bool().Draw(t, "restricted") {
			closed := some("closed")
			a.May = func(role int, id model.NodeID) *explain.Refusal {
				if a.Roles[role].Request.Count()%2 == 0 && slices.Contains(closed, id) {
					return &explain.Refusal{Code: explain.Cordoned}
				}
				return nil
			}
		}
		if rapid.IntRange(0, 3).Draw(t, "within") == 0 {
			a.Within = some("inside")
		}
		quota := 1000
		if rapid.Bool().Draw(t, "limited") {
			quota = rapid.IntRange(0, 12).Draw(t, "quota")
			a.Allow = func(counts []int) bool {
				sum := 0
				for i, n := range counts {
					sum += n * a.Roles[i].Request.Count()
				}
				return sum <= quota
			}
		}
		before := w.l.String()
		tx := w.l.Begin()
		again, _ := gang.Make(w.l, w.p, a)
		tx.Rollback()
		plan, failure := gang.Make(w.l, w.p, a)
		if fmt.Sprint(plan) != fmt.Sprint(again) {
			t.Fatalf("first %v, then %v", again, plan)
		}
		if failure != nil {
			if after := w.l.String(); after != before {
				t.Fatalf("a failure left\n%s\nof\n%s", after, before)
			}
			return
		}
		wholeTree(t, w, a, plan)
		sum, seen := 0, map[model.HolderID]bool{}
		for _, p := range plan.Placements {
			sum += a.Roles[p.Role].Request.Count()
			if seen[p.Holder] || !slices.Contains(a.Roles[p.Role].Members, p.Holder) {
				t.Fatalf("%s is there twice, or is no member of role %d", p.Holder, p.Role)
			}
			seen[p.Holder] = true
			if id, _ := w.l.Held(p.Holder); id != p.Node {
				t.Fatalf("%s holds on %s, planned on %s", p.Holder, id, p.Node)
			}
			if a.May != nil && a.May(p.Role, p.Node) != nil || a.Within != nil && !slices.Contains(a.Within, p.Node) {
				t.Fatalf("%s may not be on %s", p.Holder, p.Node)
			}
		}
		if sum > quota {
			t.Fatalf("%d GPUs, the quota is %d", sum, quota)
		}
	})
}

// Names of fields are in what is wrong with subgroups.
func TestSubgroupsValid(t *testing.T) {
	s := func(name, parent string, least, groups int) gang.Subgroup {
		return gang.Subgroup{Name: name, Parent: parent, Min: least, MinGroups: groups}
	}
	for want, list := range map[string][]gang.Subgroup{
		"":                         {s("a", "p", 1, 0), s("p", "", 0, 1)},
		"subgroups[1].name: empty": {s("a", "", 1, 0), s("", "", 1, 0)},
		`subgroups[1].name: "a" is also the name of [0]`:                                                   {s("a", "", 1, 0), s("a", "", 1, 0)},
		`subgroups[0].parent: there is no subgroup "b"`:                                                    {s("a", "b", 1, 0)},
		`subgroups[0].parent: "a" is inside "a" itself`:                                                    {s("a", "a", 1, 0)},
		`subgroups[0].parent: "b" is inside "a" itself`:                                                    {s("a", "b", 0, 0), s("b", "a", 0, 0)},
		"subgroups[0].min: 2 members, but the subgroup has subgroups of its own, and members are in those": {s("a", "", 2, 0), s("b", "a", 1, 0)},
		"subgroups[0].min: -1 is negative":                                                                 {s("a", "", -1, 0)},
		"subgroups[0].minGroups: -1 is negative":                                                           {s("a", "", 1, -1)},
		"subgroups[0].minGroups: 1, but the subgroup has no subgroups":                                     {s("a", "", 1, 1)},
		"subgroups[0].minGroups: 2, but there are only 1":                                                  {s("a", "", 0, 2), s("b", "a", 1, 0)},
		"subgroups[0].parent: more than 8 subgroups inside each other, or a circle":                        {s("x", "a", 1, 0), s("a", "b", 0, 0), s("b", "a", 0, 0)},
	} {
		err := gang.ValidateSubgroups(list, 0)
		if got := ""; err != nil {
			if got = err.Error(); got != want {
				t.Errorf("%v: %s, want %s", list, got, want)
			}
		} else if want != "" {
			t.Errorf("%v is valid, want %s", list, want)
		}
	}
	many := make([]gang.Subgroup, gang.MaxSubgroups+1)
	if err := gang.ValidateSubgroups(many, 0); err == nil || err.Error() != "subgroups: 1025 subgroups, at most 1024" {
		t.Error(err)
	}
	for n, want := range map[int]string{2: "minGroups: 2, but there are only 1", -1: "minGroups: -1 is negative"} {
		if err := gang.ValidateSubgroups([]gang.Subgroup{s("a", "", 1, 0)}, n); err == nil || err.Error() != want {
			t.Errorf("%v, want %s", err, want)
		}
	}
	if err := gang.ValidateSubgroups(nil, 1); err == nil || err.Error() != "minGroups: 1, but there are no subgroups" {
		t.Error(err)
	}
	foreign := gang.SubgroupError{Index: 1, Field: "min", Problem: "x", List: "spec.subGroups", Words: map[string]string{"min": "minMember"}}
	if got := foreign.Error(); got != "spec.subGroups[1].minMember: x" {
		t.Error(got)
	}
}

// BenchmarkSubgroups: prefill groups of a rack each and decode groups of half of one, on an
// empty fleet; where one rack too few is free; and where counting finds room on every rack
// for one of two kinds of groups, but not for all of them.
func BenchmarkSubgroups(b *testing.B) {
	for _, count := range []int{1000, 16000} {
		for _, c := range []struct {
			name          string
			leaves, least []int // of each kind, and their members
			gpus          []int // of a member
			racks         int   // that have GPUs left
			free          []int // on their nodes
			fits          bool
		}{
			{"8 and 16", []int{8, 16}, []int{4, 2}, []int{8, 8}, count / 4, []int{8, 8, 8, 8}, true},
			{"one rack too few", []int{8, 16}, []int{4, 2}, []int{8, 8}, 15, []int{8, 8, 8, 8}, false},
			{"compete without success", []int{4, 3}, []int{2, 3}, []int{4, 3}, 6, []int{4, 4, 3, 3}, false},
		} {
			b.Run(fmt.Sprintf("%s/nodes=%d", c.name, count), func(b *testing.B) {
				w := newWorld(b, uniform(count, 8)...)
				for i := range count {
					taken := 8
					if i/4 < c.racks {
						taken -= c.free[i%4]
					}
					if taken > 0 {
						w.take(fmt.Sprintf("n%05d", i), taken)
					}
				}
				a := &gang.Ask{Terse: true}
				for kind, n := range c.leaves {
					for i := range n {
						leafOf(a, 0, fmt.Sprint(kind, "-", i), c.least[kind], c.least[kind], c.gpus[kind], rack)
					}
				}
				b.ReportAllocs()
				for b.Loop() {
					tx := w.l.Begin()
					if _, failure := gang.Make(w.l, w.p, a); (failure == nil) != c.fits {
						b.Fatal(failure)
					}
					tx.Rollback()
				}
			})
		}
	}
}
