package engine_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/tangram-dev/tangram/core/answer"
	"github.com/tangram-dev/tangram/core/engine"
	"github.com/tangram-dev/tangram/core/model"
	"github.com/tangram-dev/tangram/core/topology"
	"github.com/tangram-dev/tangram/test/coretest"
)

// racks are nodes of 8 GPUs, so many in each rack of a zone.
func racks(counts ...int) []*model.Node {
	var out []*model.Node
	for r, n := range counts {
		for i := range n {
			out = append(out, coretest.Node(fmt.Sprintf("r%d-%02d", r, i)).GPUs(8, "A100").Domains("z", fmt.Sprint("r", r)).Build())
		}
	}
	return out
}

var byRack = model.Level{Name: "rack", Label: "r", Depth: 1}

// inRack is a gang of members with 8 GPUs that share a rack.
func inRack(id string, members int) engine.Gang {
	g := simple(id, members, 8)
	g.Require = byRack
	return g
}

// TestShortages: a gang that must share a rack is short of nodes in each, in the rack with
// most room first; all its members are asked for.
func TestShortages(t *testing.T) {
	w := newWorld(t, options(), nil, racks(3, 9, 0)...)
	w.submit(inRack("g", 12))
	w.decide()
	members, where, fixed := w.e.Shortages.Of("g", nil)
	if len(members) != 12 || fixed || len(where) != 2 {
		t.Fatalf("%d members, fixed %v, %+v", len(members), fixed, where)
	}
	if s := where[0]; s.Placed != 9 || !slices.Equal(s.Values, []string{"z", "r1"}) || where[1].Placed != 3 {
		t.Errorf("%+v", where)
	}
	if got := w.e.Shortages.Domains(byRack); !slices.Equal(got, []string{"r0", "r1"}) {
		t.Errorf("racks %v", got)
	}
}

// TestNoShortage: no nodes of one domain are missing for who need not share one, has room,
// lacks members, or is invalid.
func TestNoShortage(t *testing.T) {
	free := simple("free", 30, 8)
	few := inRack("few", 12)
	few.Min = 13
	invalid := inRack("invalid", 12)
	invalid.Invalid = "spec.x: wrong"
	single := inRack("single", 1)
	w := newWorld(t, options(), nil, racks(2)...)
	w.submit(free, few, invalid, single)
	for _, id := range []engine.ID{"free", "few", "invalid", "single", "unknown"} {
		if members, _, _ := w.e.Shortages.Of(id, nil); len(members) > 0 {
			t.Errorf("%s: %d members need nodes", id, len(members))
		}
	}
	w = newWorld(t, options(), nil, racks(1, 3)...)
	w.submit(inRack("fits", 3))
	if members, _, _ := w.e.Shortages.Of("fits", nil); len(members) > 0 {
		t.Error("nodes are missing for a gang that fits")
	}
}

// TestShortageOfRunning: members that a running gang has lost are needed where the others
// are, and nowhere else.
func TestShortageOfRunning(t *testing.T) {
	w := newWorld(t, options(), nil, racks(3, 9)...)
	w.submit(inRack("g", 3))
	w.decide()
	if !w.whole("g") {
		t.Fatal("it does not run")
	}
	w.e.RemoveNode("r0-00")
	w.ended(slices.Sorted(func(yield func(model.HolderID) bool) {
		for h, n := range w.placed["g"] {
			if n == "r0-00" && !yield(h) {
				return
			}
		}
	})[0])
	w.submit(inRack("g", 3))
	members, where, fixed := w.e.Shortages.Of("g", nil)
	if len(members) != 1 || !fixed || len(where) != 1 || where[0].Values[1] != "r0" {
		t.Errorf("%v, fixed %v, %+v", members, fixed, where)
	}
}

// TestShortageTouchesNothing: a question changes neither ledger nor decisions.
func TestShortageTouchesNothing(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		counts := rapid.SliceOfN(rapid.IntRange(0, 4), 1, 5).Draw(t, "racks")
		w := newWorld(t, options(), nil, racks(counts...)...)
		for i, n := range rapid.SliceOfN(rapid.IntRange(1, 6), 1, 4).Draw(t, "gangs") {
			w.submit(inRack(fmt.Sprint("g", i), n))
		}
		w.decide()
		before := w.e.Confirmed()
		for id := range w.gangs {
			members, where, _ := w.e.Shortages.Of(id, nil)
			for i, s := range where {
				if s.Placed >= len(members) || s.Placed < 0 || i > 0 && s.Placed > where[i-1].Placed {
					t.Fatalf("%s: %+v for %d members", id, where, len(members))
				}
				free := counts[s.Values[1][1]-'0']
				for o := range w.gangs {
					for _, n := range w.placed[o] {
						if n[:2] == model.NodeID(s.Values[1]) {
							free--
						}
					}
				}
				if s.Placed != min(free, len(members)) {
					t.Fatalf("%s: %d can be placed in %s, counted by hand %d", id, s.Placed, s.Values[1], free)
				}
			}
		}
		if after := w.e.Confirmed(); after != before {
			t.Fatalf("the ledger changed:\n%s\n%s", before, after)
		}
	})
}

// TestKept: nodes of reservations are kept, each once.
func TestKept(t *testing.T) {
	o := options()
	w := newWorld(t, o, nil, racks(3)...)
	if len(w.e.KeptNodes()) > 0 {
		t.Error("nodes are kept though no gang has a reservation")
	}
	first := simple("runs", 1, 8)
	first.Runtime, first.Preemptible = time.Hour, false
	w.submit(first)
	w.decide()
	w.submit(inRack("wide", 3))
	w.decide()
	if got := w.e.KeptNodes(); !slices.Equal(got, []model.NodeID{"r0-00", "r0-01", "r0-02"}) {
		t.Errorf("kept are %v", got)
	}
	w.withdraw("wide")
	w.decide()
	if len(w.e.KeptNodes()) > 0 {
		t.Error("nodes are kept for a gang that is gone")
	}
}

func shortages(placed ...int) []answer.Shortage {
	var out []answer.Shortage
	for i, n := range placed {
		out = append(out, answer.Shortage{Domain: topology.Domain{Depth: 1, Path: fmt.Sprint("z/r", i)}, Values: []string{"z", fmt.Sprint("r", i)}, Placed: n})
	}
	return out
}

// TestPursuit: a domain is asked for until no node came for the patience; then the next,
// then a new one, then the first again.
func TestPursuit(t *testing.T) {
	const patience = 10
	var p answer.Pursuit
	for i, tt := range []struct {
		now   int64
		where []answer.Shortage
		fixed bool
		want  string
	}{
		{0, shortages(9, 3), false, "r0"},
		{9, shortages(9, 3), false, "r0"},
		{9, shortages(10, 3), false, "r0"}, // a node came
		{18, shortages(10, 3), false, "r0"},
		{19, shortages(10, 3), false, "r1"},
		{29, shortages(10, 3), false, "new"},
		{38, shortages(10, 3, 1), false, "new"},
		{39, shortages(10, 3, 11), false, "r2"},
		{49, shortages(10, 3), false, "r0"}, // its nodes are gone, all others were tried
		{50, shortages(8, 3), false, "r0"},  // other pods took nodes
		{59, shortages(8, 3), true, "r1"},
		{69, shortages(8), true, "r0"},
		{70, nil, true, ""},
		{71, nil, false, "new"},
	} {
		p = p.Next(tt.where, tt.fixed, tt.now, patience)
		got := ""
		switch {
		case p.New():
			got = "new"
		case len(p.Values) > 0:
			got = p.Values[1]
		}
		if got != tt.want {
			t.Fatalf("%d: %s is asked for, want %s", i, got, tt.want)
		}
	}
}

// TestPursuitInto: once a node of a new domain has come, the rest is asked for there, until
// none came for the patience.
func TestPursuitInto(t *testing.T) {
	p := answer.Pursuit{}.Next(nil, false, 0, 10)
	came := shortages(0, 1)[1]
	if !p.New() || !came.NewTo([]string{"r0"}) || came.NewTo([]string{"r0", "r1"}) {
		t.Fatalf("%+v", p)
	}
	p = p.Into(came, 5)
	if p = p.Next(shortages(3, 1), false, 14, 10); p.New() || p.Values[1] != "r1" {
		t.Errorf("%v is asked for, want r1", p.Values)
	}
	if p = p.Next(shortages(3, 1), false, 15, 10); p.New() || p.Values[1] != "r0" {
		t.Errorf("%v is asked for, want r0", p.Values)
	}
}

// TestPursuitReachesAll: whatever the domains, each is asked for in one round, and none is
// left while nodes come.
func TestPursuitReachesAll(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 6).Draw(t, "domains")
		fixed := rapid.Bool().Draw(t, "fixed")
		where := shortages(rapid.SliceOfN(rapid.IntRange(0, 5), n, n).Draw(t, "placed")...)
		var p answer.Pursuit
		seen := map[string]bool{}
		now := int64(0)
		for range n + 1 {
			p = p.Next(where, fixed, now, 10)
			seen[fmt.Sprint(p.Values, p.New())] = true
			if at := slices.IndexFunc(where, func(s answer.Shortage) bool { return s.Domain == p.Domain }); at >= 0 && rapid.Bool().Draw(t, "comes") {
				where[at].Placed++
				now += 1000
				if next := p.Next(where, fixed, now, 10); next.Domain != p.Domain || next.New() != p.New() {
					t.Fatal("left although a node came")
				}
				p = p.Next(where, fixed, now, 10)
			}
			now += 10
		}
		want := n + 1
		if fixed {
			want = n
		}
		if len(seen) != want {
			t.Fatalf("%d were asked for, want %d: %v", len(seen), want, seen)
		}
	})
}
