package engine_test

import (
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/tangram-dev/tangram/core/engine"
	"github.com/tangram-dev/tangram/core/gang"
	"github.com/tangram-dev/tangram/core/model"
	"github.com/tangram-dev/tangram/test/coretest"
)

var rack = model.Level{Name: "rack", Label: "r", Depth: 1}

// victim is members that may be evicted together: one a gang can spare, or all.
type victim struct {
	members  []model.HolderID
	gang     engine.ID
	priority int32
	whole    bool
}

// scene is a full cluster and an urgent gang.
type scene struct {
	*world
	urgent    engine.Gang
	protected map[model.HolderID]bool
	budgets   map[model.HolderID]engine.Budget
}

func share(milli int) *model.Request {
	r := coretest.Request(1)
	r.Containers[0].Part = model.Part{Kind: model.Share, Milli: milli, MemoryMilli: milli}
	return r
}

func slice(profile string) *model.Request {
	r := coretest.Request(1)
	r.Containers[0].Part = model.Part{Kind: model.Slice, Profile: profile}
	return r
}

// drawRequest is what a victim or a preemptor of some sort asks for.
func drawRequest(t *rapid.T, sort string) *model.Request {
	switch {
	case sort == "shares" || sort == "over shares":
		return share(rapid.SampledFrom([]int{500, 300, 700}).Draw(t, "milli"))
	case sort == "slices":
		return slice(rapid.SampledFrom([]string{"1g.5gb", "2g.10gb", "3g.20gb"}).Draw(t, "profile"))
	}
	r := coretest.Request(rapid.SampledFrom([]int{1, 2, 3, 4}).Draw(t, "GPUs"))
	if sort == "CPUs" {
		r.Host.CPU = rapid.SampledFrom([]int64{1, 4, 2, 3, 0}).Draw(t, "CPUs")
	}
	return r
}

// drawScene puts gangs on nodes at random, and draws a preemptor of a sort.
func drawScene(t *rapid.T, sort string, spread, elastic bool) *scene {
	s := &scene{protected: map[model.HolderID]bool{}, budgets: map[model.HolderID]engine.Budget{}}
	budgets := []engine.Budget{{Name: "x", Allowed: rapid.IntRange(1, 2).Draw(t, "x allows")}, {Name: "y", Allowed: 3}}
	o := options()
	o.Facts = facts{protected: s.protected, budgets: func(h model.HolderID) []engine.Budget {
		if b, ok := s.budgets[h]; ok {
			return []engine.Budget{b}
		}
		return nil
	}}
	var fleet []*model.Node
	for i := range rapid.SampledFrom([]int{3, 2, 4}).Draw(t, "nodes") {
		n := coretest.Node(fmt.Sprintf("n%03d", i)).GPUs(rapid.SampledFrom([]int{4, 2}).Draw(t, "GPUs"), "A100").Cuttable().Domains("z", fmt.Sprint("r", i/2)).Build()
		n.Host = model.Host{CPU: 7, Memory: 1}
		fleet = append(fleet, n)
	}
	s.world = newWorld(t, o, nil, fleet...)
	for i := range rapid.SampledFrom([]int{6, 5, 7, 4, 3, 8}).Draw(t, "victims") {
		id := engine.ID(fmt.Sprint("v", i))
		kind := sort
		if rapid.Bool().Draw(t, "whole") && sort != "CPUs" {
			kind = ""
		}
		r := drawRequest(t, kind)
		n := 1
		if spread || elastic {
			n = rapid.SampledFrom([]int{1, 2, 3}).Draw(t, "members")
		}
		g := engine.Gang{ID: id, Min: n, Priority: rapid.SampledFrom([]int32{0, 0, 0, 1}).Draw(t, "priority"), Preemptible: rapid.IntRange(0, 9).Draw(t, "not preemptible") > 0}
		if rapid.IntRange(0, 9).Draw(t, "young") == 0 {
			g.MinRuntime = time.Hour
		}
		g.Roles = []engine.Role{{Request: r, Members: holders(id, 0, n)}}
		if elastic {
			g.Min = rapid.IntRange(1, n).Draw(t, "min")
		}
		places := map[model.HolderID]model.NodeID{}
		for _, h := range g.Roles[0].Members {
			first := rapid.IntRange(0, len(fleet)-1).Draw(t, "node")
			for j := range fleet {
				at := fleet[(first+j)%len(fleet)].ID
				v, _ := s.l.View(at)
				if !v.FreeHost.Covers(r.Host) {
					continue
				}
				if grant, refusal := s.p.Fit(r, v); refusal == nil {
					s.l.Put(at, grant.Claim(h, r, v.Node))
					places[h] = at
					break
				}
			}
		}
		if len(places) < g.Min {
			for h := range places {
				s.l.Drop(h)
			}
			continue
		}
		s.submit(g)
		for _, h := range slices.Sorted(maps.Keys(places)) {
			at := places[h]
			s.e.Found(h, at, 0)
			s.placed[id][h] = at
			s.protected[h] = rapid.IntRange(0, 14).Draw(t, "protected") == 0
			if i := rapid.IntRange(0, 2).Draw(t, "budget"); sort == "budgets" && i < 2 {
				s.budgets[h] = budgets[i]
			}
		}
	}
	s.now = second
	s.urgent = engine.Gang{ID: "u", Priority: 10}
	if sort == "over shares" {
		sort = "" // but itself wants whole devices
	}
	count := 1
	if sort == "roles" {
		count = 2
	}
	for i := range count {
		n := rapid.SampledFrom([]int{2, 1, 3}).Draw(t, "urgent members")
		s.urgent.Roles = append(s.urgent.Roles, engine.Role{Name: fmt.Sprint(i), Request: drawRequest(t, sort), Members: holders("u", 10*i, 10*i+n), Min: n})
		s.urgent.Min += n
	}
	if sort == "domain" || sort == "repair" && rapid.Bool().Draw(t, "close") {
		s.urgent.Require = rack
	}
	if sort == "repair" {
		s.begin(t, fleet)
	}
	return s
}

// begin lets a member of the urgent gang run already.
func (s *scene) begin(t *rapid.T, fleet []*model.Node) {
	s.submit(s.urgent)
	r, h := s.urgent.Roles[0].Request, s.urgent.Roles[0].Members[0]
	first := rapid.IntRange(0, len(fleet)-1).Draw(t, "runs on")
	for j := range fleet {
		at := fleet[(first+j)%len(fleet)].ID
		v, _ := s.l.View(at)
		if grant, refusal := s.p.Fit(r, v); refusal == nil {
			s.l.Put(at, grant.Claim(h, r, v.Node))
			s.e.Found(h, at, 0)
			s.placed["u"][h] = at
			return
		}
	}
}

// candidates are those that may be evicted.
func (s *scene) candidates() []victim {
	var out []victim
	for i := range 10 {
		id := engine.ID(fmt.Sprint("v", i))
		g, there := s.gangs[id]
		if !there || !g.Preemptible || g.MinRuntime > 0 {
			continue
		}
		var placed []model.HolderID
		shielded := false
		for _, h := range g.Roles[0].Members {
			if _, ok := s.placed[id][h]; ok {
				placed = append(placed, h)
				shielded = shielded || s.protected[h]
			}
		}
		if !shielded {
			out = append(out, victim{placed, id, g.Priority, true})
		}
		for _, h := range placed[g.Min:] {
			if !s.protected[h] {
				out = append(out, victim{[]model.HolderID{h}, id, g.Priority, false})
			}
		}
	}
	return out
}

// fits says whether the urgent gang has a place once some have gone, as their budgets
// allow.
func (s *scene) fits(gone []model.HolderID) bool {
	taken := map[string]int{}
	for _, h := range gone {
		b := s.budgets[h]
		if taken[b.Name]++; b.Name != "" && taken[b.Name] > b.Allowed {
			return false
		}
	}
	tx := s.l.Begin()
	defer tx.Rollback()
	for _, h := range gone {
		s.l.Drop(h)
	}
	runs := s.placed["u"]
	ask := &gang.Ask{Min: s.urgent.Min - len(runs), Require: s.urgent.Require, Weights: s.o.Weights, Terse: true}
	for _, at := range runs { // one at most
		ask.Beside = append(ask.Beside, at)
	}
	for _, r := range s.urgent.Roles {
		ms := slices.DeleteFunc(slices.Clone(r.Members), func(h model.HolderID) bool { return runs[h] != "" })
		ask.Roles = append(ask.Roles, gang.Role{Request: r.Request, Members: ms, Min: len(ms)})
	}
	_, failure := gang.Make(s.l, s.p, ask)
	return failure == nil
}

func gone(vs []victim) []model.HolderID {
	var out []model.HolderID
	for _, v := range vs {
		out = append(out, v.members...)
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// price orders sets of victims: the highest priority, whether whole gangs of it go,
// and how many members.
type price struct {
	priority int32
	whole    bool
	members  int
}

func (p price) less(o price) bool {
	if p.priority != o.priority {
		return p.priority < o.priority
	}
	if p.whole != o.whole {
		return o.whole
	}
	return p.members < o.members
}

func priceOf(vs []victim) price {
	p := price{priority: -1, members: len(gone(vs))}
	for _, v := range vs {
		p.priority = max(p.priority, v.priority)
	}
	for _, v := range vs {
		p.whole = p.whole || v.whole && v.priority == p.priority
	}
	return p
}

// tally counts how evictions compare with the cheapest ones.
type tally struct {
	// cases are evictions; same cost as little as any, tier are of a dearer kind, more
	// is how many members too many went in the others; missed would have helped.
	cases, same, tier, more, missed int
}

func (c *tally) judge(t *rapid.T, p, best price) {
	c.cases++
	switch {
	case p.less(best):
		t.Fatalf("%+v was not found by trying all: %+v", p, best)
	case p == best:
		c.same++
	case p.priority == best.priority && p.whole == best.whole:
		c.more += p.members - best.members
	default:
		c.tier++
	}
}

func (c *tally) log(t *testing.T) {
	t.Logf("of %d evictions %d are the cheapest, %d of a dearer kind, %d members too many in all; %d missed", c.cases, c.same, c.tier, c.more, c.missed)
}

// cheapest tries all sets of victims.
func (s *scene) cheapest(all []victim) (best price, ok bool) {
	if s.fits(nil) {
		return price{}, false
	}
	for set := range 1 << len(all) {
		var vs []victim
		for i, v := range all {
			if set>>i&1 == 1 {
				vs = append(vs, v)
			}
		}
		if p := priceOf(vs); (!ok || p.less(best)) && s.fits(gone(vs)) {
			best, ok = p, true
		}
	}
	return best, ok
}

// evicted finds the bundles of an eviction.
func (s *scene) evicted(x engine.Evict) []victim {
	byGang := map[engine.ID][]model.HolderID{}
	for _, h := range x.Members {
		id, _ := s.e.Of(h)
		byGang[id] = append(byGang[id], h)
	}
	var out []victim
	for id, hs := range byGang { // a set
		g := s.gangs[id]
		if len(hs) == len(s.placed[id]) {
			out = append(out, victim{hs, id, g.Priority, true})
			continue
		}
		for _, h := range hs {
			out = append(out, victim{[]model.HolderID{h}, id, g.Priority, false})
		}
	}
	return out
}

// TestVictims: for any urgent gang and any candidates no eviction is futile, no victim could
// have stayed, no gang that may not be evicted is one, and gangs are evicted if that lets
// the urgent one start. How much more than the least is evicted is counted.
func TestVictims(t *testing.T) {
	for _, sort := range []string{"plain", "roles", "domain", "CPUs", "shares", "over shares", "slices", "repair", "budgets"} {
		for _, kind := range []string{"single", "spread", "elastic"} {
			t.Run(sort+"/"+kind, func(t *testing.T) {
				var count tally
				rapid.Check(t, func(t *rapid.T) {
					s := drawScene(t, sort, kind == "spread", kind == "elastic")
					all := s.candidates()
					if len(all) > 12 {
						t.Skip("too many to try all")
					}
					best, ok := s.cheapest(all)
					s.submit(s.urgent)
					d := s.decide()
					if !ok {
						if len(d.Evicts) > 0 {
							t.Fatalf("in vain: %+v", d.Evicts)
						}
						return
					}
					if len(d.Evicts) != 1 && sort == "budgets" {
						count.missed++
						return
					}
					if len(d.Evicts) != 1 {
						t.Fatalf("nothing is evicted, %+v would do", best)
					}
					if !s.fits(d.Evicts[0].Members) {
						t.Fatalf("%v go, and it does not fit, or budgets do not allow it", d.Evicts[0].Members)
					}
					vs := s.evicted(d.Evicts[0])
					for _, v := range vs {
						if !slices.ContainsFunc(all, func(o victim) bool { return o.gang == v.gang && o.whole == v.whole }) {
							t.Fatalf("%+v may not go", v)
						}
					}
					for i := range vs {
						if s.fits(gone(slices.Delete(slices.Clone(vs), i, i+1))) {
							t.Fatalf("%+v goes in vain, of %+v", vs[i], vs)
						}
					}
					count.judge(t, priceOf(vs), best)
					s.carryOut(d)
					if s.decide(); !s.whole("u") {
						t.Fatal("it does not start")
					}
				})
				count.log(t)
			})
		}
	}
}
