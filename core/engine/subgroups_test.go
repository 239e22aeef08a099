package engine_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/tangram-dev/tangram/core/arbiter"
	"github.com/tangram-dev/tangram/core/engine"
	"github.com/tangram-dev/tangram/core/model"
	"github.com/tangram-dev/tangram/test/coretest"
)

var rackLevel = model.Level{Name: "rack", Label: "r", Depth: 1}

// drawSubgroups makes a gang of subgroups, some of them with subgroups of their own.
func drawSubgroups(t *rapid.T, g engine.Gang) engine.Gang {
	parents := []string{""}
	if rapid.IntRange(0, 2).Draw(t, "deep") == 0 {
		parents = append(parents, "p")
		g.Subgroups = append(g.Subgroups, engine.Subgroup{Name: "p"})
	}
	children := map[string]int{}
	if len(parents) > 1 {
		children[""]++
	}
	leaves := rapid.IntRange(len(parents), 4).Draw(t, "leaves")
	for i := range leaves {
		n := rapid.IntRange(1, 3).Draw(t, "members")
		s := engine.Subgroup{Name: fmt.Sprint("s", i), Min: rapid.IntRange(1, n).Draw(t, "min"), Parent: rapid.SampledFrom(parents).Draw(t, "parent")}
		if i == 0 && len(parents) > 1 {
			s.Parent = "p"
		}
		if rapid.IntRange(0, 2).Draw(t, "in a rack") == 0 {
			s.Require = rackLevel
		}
		children[s.Parent]++
		g.Subgroups = append(g.Subgroups, s)
		g.Roles = append(g.Roles, engine.Role{
			Name: s.Name, Subgroup: s.Name, Members: holders(g.ID, 100*i, 100*i+n),
			Request: coretest.Request(rapid.IntRange(1, 2).Draw(t, "GPUs each")),
		})
	}
	g.MinGroups = rapid.IntRange(0, children[""]).Draw(t, "groups")
	if len(parents) > 1 {
		g.Subgroups[0].MinGroups = rapid.IntRange(0, children["p"]).Draw(t, "groups of p")
	}
	return g
}

// inGroup are the members of a group, "" for the gang, that are among some.
func inGroup(g engine.Gang, name string, among map[model.HolderID]model.NodeID) (out []model.HolderID) {
	for _, r := range g.Roles {
		for at := r.Subgroup; ; {
			if at == name {
				for _, h := range r.Members {
					if _, ok := among[h]; ok {
						out = append(out, h)
					}
				}
				break
			}
			if at == "" {
				break
			}
			i := slices.IndexFunc(g.Subgroups, func(s engine.Subgroup) bool { return s.Name == at })
			at = g.Subgroups[i].Parent
		}
	}
	return out
}

// wholeIn says whether a group has its minimum among some members, counted naively.
func wholeIn(g engine.Gang, name string, among map[model.HolderID]model.NodeID) bool {
	least, groups, children, whole := 0, g.MinGroups, 0, 0
	for _, s := range g.Subgroups {
		if s.Name == name {
			least, groups = s.Min, s.MinGroups
		}
		if s.Parent == name {
			children++
			if wholeIn(g, s.Name, among) {
				whole++
			}
		}
	}
	switch {
	case children == 0:
		return len(inGroup(g, name, among)) >= least
	case groups == 0:
		return whole == children
	}
	return whole >= groups
}

// checkSubgroups checks a start, which was written down: every group that got members, and
// is not still short of some that it lost, is whole, and in one domain of its level.
func (w *world) checkSubgroups(s *engine.Start) {
	w.t.Helper()
	g, now := w.gangs[s.Gang], w.placed[s.Gang]
	before := maps.Clone(now)
	got := map[model.HolderID]model.NodeID{}
	for _, p := range s.Plan.Placements {
		delete(before, p.Holder)
		got[p.Holder] = p.Node
	}
	for _, sub := range append(slices.Clone(g.Subgroups), engine.Subgroup{Require: g.Require}) {
		if len(inGroup(g, sub.Name, got)) == 0 {
			continue
		}
		inner := slices.ContainsFunc(g.Subgroups, func(o engine.Subgroup) bool { return o.Parent == sub.Name })
		if !wholeIn(g, sub.Name, now) && !(inner && len(inGroup(g, sub.Name, before)) > 0) {
			w.t.Fatalf("%s: %q starts with %v of %+v", s.Gang, sub.Name, inGroup(g, sub.Name, now), g.Subgroups)
		}
		w.shares(g, sub.Name, sub.Require)
	}
}

// shares checks that a group is in one domain of a level, unless nodes went.
func (w *world) shares(g engine.Gang, name string, level model.Level) {
	w.t.Helper()
	var nodes []model.NodeID
	for _, h := range inGroup(g, name, w.placed[g.ID]) {
		id := w.placed[g.ID][h]
		if _, there := w.l.View(id); there {
			nodes = append(nodes, id)
		}
	}
	if level.Name == "" || len(nodes) == 0 {
		return
	}
	if d, ok := w.l.Domains().Common(nodes...); !ok || d.Depth < level.Depth {
		w.t.Fatalf("%s: %q is on %v, which share no %s", g.ID, name, nodes, level.Name)
	}
}

// checkEvictedSubgroups checks that no group that was whole is left in part.
func (w *world) checkEvictedSubgroups(id engine.ID, evicted []model.HolderID) {
	w.t.Helper()
	g, left := w.gangs[id], maps.Clone(w.placed[id])
	for _, h := range evicted {
		delete(left, h)
	}
	for _, s := range append(slices.Clone(g.Subgroups), engine.Subgroup{}) {
		has, had := len(inGroup(g, s.Name, left)), len(inGroup(g, s.Name, w.placed[id]))
		switch {
		case has == 0 || has == had || wholeIn(g, s.Name, left):
		case wholeIn(g, s.Name, w.placed[id]):
			w.t.Fatalf("%s: %q keeps %d of %d, not its minimum, of %v", id, s.Name, has, had, evicted)
		}
	}
}

// serving is a gang of subgroups of four members of so many GPUs each, in a rack each.
func serving(id string, groups, least, gpus int) engine.Gang {
	g := engine.Gang{ID: engine.ID(id), Preemptible: true, MinGroups: least}
	for i := range groups {
		name := fmt.Sprint("s", i)
		g.Subgroups = append(g.Subgroups, engine.Subgroup{Name: name, Min: 2, Require: rackLevel})
		g.Roles = append(g.Roles, engine.Role{Name: name, Subgroup: name, Request: coretest.Request(gpus), Members: holders(g.ID, 100*i, 100*i+2)})
	}
	return g
}

// counts is how many members of each subgroup have a place.
func (w *world) counts(id string) (out []int) {
	g := w.gangs[engine.ID(id)]
	for _, s := range g.Subgroups {
		out = append(out, len(inGroup(g, s.Name, w.placed[g.ID])))
	}
	return out
}

func (w *world) expect(id string, want ...int) {
	w.t.Helper()
	if got := w.counts(id); !slices.Equal(got, want) {
		w.t.Fatalf("%s has %v, want %v", id, got, want)
	}
}

// Needed groups start at once or not at all; further ones follow whole, as room comes.
func TestSubgroupsStart(t *testing.T) {
	w := newTest(t, 6, 4) // three racks of two nodes
	w.submit(simple("other", 3, 4))
	w.decide() // a rack and a half
	w.submit(serving("g", 3, 2, 4))
	w.decide()
	w.expect("g", 0, 0, 0)
	if r := w.e.Why("g"); !strings.Contains(r.String(), `needs 4 members, 2 can be placed; subgroup "s1" needs 2 members in one rack, and no rack has room for them`) {
		t.Errorf("%s", r.String())
	}
	w.ended("other/002")
	w.submit(simple("other", 2, 4))
	w.decide()
	w.expect("g", 2, 2, 0)
	w.withdraw("other")
	w.now += second
	w.decide()
	w.expect("g", 2, 2, 2)
	if r := w.e.Why("g"); r.Is() {
		t.Errorf("%s", r.String())
	}
}

// Who lost a member gets it back in its own rack, and the others go on; one that cannot be
// mended because its members are gone is replaced by another one that is needed.
func TestSubgroupLosesMembers(t *testing.T) {
	w := newTest(t, 8, 4)
	w.submit(serving("g", 3, 2, 4))
	w.decide()
	w.expect("g", 2, 2, 2)
	rack := w.placed["g"]["g/000"]
	w.ended("g/000")
	w.submit(simple("x", 1, 4)) // takes the place, or the free rack
	d := w.decide()
	w.expect("g", 2, 2, 2)
	if len(d.Starts) == 0 || !d.Starts[0].Repair || w.placed["g"]["g/000"] != rack {
		t.Errorf("back on %s, was on %s: %+v", w.placed["g"]["g/000"], rack, d.Starts)
	}
	// Two of three go; the gang needs two groups, and pods of the first do not come back.
	for _, h := range []model.HolderID{"g/000", "g/001", "g/100", "g/101"} {
		w.ended(h)
	}
	g := serving("g", 3, 2, 4)
	g.Roles[0].Members = g.Roles[0].Members[:1]
	w.submit(g)
	w.now += second
	w.decide()
	w.expect("g", 0, 2, 2)
	// With one group only, which waits for its pods.
	for _, h := range []model.HolderID{"g/100", "g/101"} {
		w.ended(h)
	}
	g.Roles = slices.Clone(g.Roles)
	g.Roles[1].Members = nil
	w.submit(g)
	w.now += second
	w.decide()
	w.expect("g", 0, 0, 2)
	if r := w.e.Why("g"); r.String() != `waits for members: 0 of 2 of subgroup "s1" exist` && !strings.Contains(r.String(), "of 2 exist") {
		t.Errorf("%s", r.String())
	}
}

// Of many groups that lost members a step tries some, the next one others; when all have
// been tried in vain, they are not before something was freed, or a while has passed.
func TestSubgroupsMendedByAndBy(t *testing.T) {
	const groups = 40
	w := newTest(t, 2*groups, 4)
	w.submit(serving("g", groups, groups, 4))
	for w.decide().More {
	}
	var last *model.Node
	for i := range groups {
		h := model.HolderID(fmt.Sprintf("g/%03d", 100*i))
		node := w.placed["g"][h]
		if node == "" {
			t.Fatalf("%s has no place", h)
		}
		v, _ := w.l.View(node)
		last = v.Node
		w.ended(h)
		w.e.RemoveNode(node)
	}
	for step, want := range []int{16, 32, 0, 0, 0} {
		w.now += second
		d := w.decide()
		tried, worth := w.e.Mending("g")
		if tried != want || worth != (want > 0) || d.More != (want > 0) {
			t.Errorf("step %d: %d tried, want %d; worth trying: %v, more: %v", step, tried, want, worth, d.More)
		}
	}
	for step := 0; ; step++ {
		if _, worth := w.e.Mending("g"); worth {
			break
		}
		if w.decide(); step > 100 {
			t.Fatal("never tried again")
		}
	}
	if _, err := w.e.SetNode(last, nil); err != nil { // of the last in order
		t.Fatal(err)
	}
	for w.now += second; w.decide().More; w.now += second {
	}
	if got := w.counts("g"); got[groups-1] != 2 || got[0] != 1 {
		t.Errorf("%v", got)
	}
}

// Evicted are optional members first, then optional groups, each whole, then all.
func TestSubgroupsEvicted(t *testing.T) {
	w := newTest(t, 6, 4)
	g := serving("low", 3, 2, 4)
	w.submit(g)
	w.decide()
	w.expect("low", 2, 2, 2)
	w.now += second
	high := simple("high", 1, 4)
	high.Priority = 10
	w.submit(high)
	d := w.decide()
	if len(d.Evicts) != 1 || fmt.Sprint(d.Evicts[0].Members) != "[low/200 low/201]" {
		t.Fatalf("%+v", d.Evicts)
	}
	w.carryOut(d)
	w.now += second
	w.decide()
	w.expect("low", 2, 2, 0)
	if !w.runs("high") {
		t.Fatal("does not run")
	}
	high = simple("higher", 2, 4)
	high.Priority = 20
	w.submit(high)
	w.now += second
	d = w.decide()
	// One node is free. None of the groups that are left can be spared, so all of them go,
	// before a pod of higher priority.
	if len(d.Evicts) != 1 || fmt.Sprint(d.Evicts[0].Members) != "[low/000 low/001 low/100 low/101]" {
		t.Fatalf("%+v", d.Evicts)
	}
}

// queueOf is a queue that may use so many GPUs.
func queueOf(name string, gpus int64) arbiter.Queue {
	return arbiter.Queue{Name: name, Weight: 1, Capability: map[arbiter.Resource]int64{gpu: 1000 * gpus}}
}

// What queues are asked for is the minimum, and further groups come as quota allows.
func TestSubgroupsQuota(t *testing.T) {
	w := newTest(t, 8, 4, queueOf("q", 18))
	g := serving("g", 3, 2, 4)
	g.Queue = "q"
	w.submit(g)
	w.decide()
	w.expect("g", 2, 2, 0)
	w = newTest(t, 8, 4, queueOf("q", 15))
	w.submit(g)
	w.decide()
	w.expect("g", 0, 0, 0)
	if r := w.e.Why("g"); !strings.Contains(r.String(), "waits for quota: queue q may use 15 GPUs") && !strings.Contains(r.String(), "can never start: queue q may use 15") {
		t.Errorf("%s", r.String())
	}
}

// Members that do not exist yet are named by their subgroup.
func TestSubgroupsAwaited(t *testing.T) {
	w := newTest(t, 8, 4)
	g := serving("g", 3, 0, 4)
	g.Roles[1].Members = g.Roles[1].Members[:1]
	w.submit(g)
	w.decide()
	if r := w.e.Why("g"); r.String() != `waits for members: subgroup "s1": 1 of 2 exist` {
		t.Errorf("%s", r.String())
	}
	g.MinGroups = 3
	g.Roles = g.Roles[:2]
	w.submit(g)
	g.MinGroups = 2
	w.submit(g)
	if r := w.e.Why("g"); r.String() != `waits for members: 1 of 2 subgroups are complete; subgroup "s1": 1 of 2 exist` {
		t.Errorf("%s", r.String())
	}
}

// A gang of subgroups that fit nowhere together never starts, and is told so.
func TestSubgroupsNever(t *testing.T) {
	w := newTest(t, 6, 4)
	w.submit(serving("g", 4, 0, 4))
	w.decide()
	if r := w.e.Why("g"); !r.Never || !strings.Contains(r.String(), `can never fit on the nodes there are: needs 8 members, 6 can be placed; subgroup "s3" needs 2 members in one rack`) {
		t.Errorf("%s", r.String())
	}
}

// What is wrong is named by its field.
func TestSubgroupsInvalid(t *testing.T) {
	w := newTest(t, 1, 4)
	for want, change := range map[string]func(*engine.Gang){
		`gang "g": roles[0].subgroup: "x" is not a subgroup with members`: func(g *engine.Gang) { g.Roles[0].Subgroup = "x" },
		`gang "g": roles[0].subgroup: "" is not a subgroup with members`:  func(g *engine.Gang) { g.Roles[0].Subgroup = "" },
		`gang "g": roles[0].min: 1, but the minimums of subgroups count`:  func(g *engine.Gang) { g.Roles[0].Min = 1 },
		`gang "g": minGroups: 3, but there are only 2`:                    func(g *engine.Gang) { g.MinGroups = 3 },
		`gang "g": subgroups[0].parent: there is no subgroup "nowhere"`:   func(g *engine.Gang) { g.Subgroups[0].Parent = "nowhere" },
	} {
		g := serving("g", 2, 0, 1)
		change(&g)
		if err := w.e.Submit(g); err == nil || err.Error() != want {
			t.Errorf("%v, want %s", err, want)
		}
	}
}
