package engine_test

import (
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/tangram-dev/tangram/core/arbiter"
	"github.com/tangram-dev/tangram/core/engine"
	"github.com/tangram-dev/tangram/core/model"
	"github.com/tangram-dev/tangram/test/coretest"
)

// drawReclaim is a cluster that queues use as it happened to be free, and a gang of
// one of them, which may take back what others use above their share, evict what
// matters less in its own queue, and use no more than its queue's capability.
func drawReclaim(t *rapid.T) *scene {
	var queues []arbiter.Queue
	for i := range 3 {
		q := arbiter.Queue{Name: fmt.Sprint("q", i), Weight: rapid.Int64Range(1, 3).Draw(t, "weight"), Reclaimable: rapid.IntRange(0, 4).Draw(t, "fixed") > 0}
		if rapid.IntRange(0, 3).Draw(t, "limited") == 0 {
			q.Capability = map[arbiter.Resource]int64{gpu: 1000 * rapid.Int64Range(3, 8).Draw(t, "capability")}
		}
		queues = append(queues, q)
	}
	s := &scene{world: newWorld(t, options(), queues, nodes(rapid.IntRange(2, 3).Draw(t, "nodes"), 4)...), protected: map[model.HolderID]bool{}}
	for i := range rapid.SampledFrom([]int{6, 5, 7, 8}).Draw(t, "victims") {
		g := simple(fmt.Sprint("v", i), rapid.SampledFrom([]int{1, 1, 2, 3}).Draw(t, "members"), rapid.SampledFrom([]int{1, 2, 1, 3}).Draw(t, "GPUs"))
		g.Queue, g.Priority = fmt.Sprint("q", rapid.IntRange(0, 2).Draw(t, "queue")), int32(rapid.IntRange(0, 1).Draw(t, "priority"))
		g.Min = rapid.IntRange(1, g.Min).Draw(t, "min")
		s.submit(g)
	}
	s.decide()
	for id := range s.gangs {
		if len(s.placed[id]) == 0 {
			s.withdraw(id)
		}
	}
	s.now += second
	s.urgent = simple("u", rapid.IntRange(1, 3).Draw(t, "urgent members"), rapid.IntRange(1, 4).Draw(t, "urgent GPUs"))
	s.urgent.Queue, s.urgent.Priority = "q0", int32(rapid.IntRange(0, 2).Draw(t, "urgent priority"))
	if rapid.Bool().Draw(t, "two roles") {
		s.urgent.Roles[0].Min = s.urgent.Min
		s.urgent.Roles = append(s.urgent.Roles, engine.Role{Name: "b", Request: coretest.Request(1), Members: holders("u", 10, 12), Min: 2})
		s.urgent.Min += 2
	}
	return s
}

// lawful says whether the rules of queues let some victims go for the urgent gang.
func (s *scene) lawful(vs []victim) bool {
	taken := map[string]int64{}
	for _, h := range gone(vs) {
		id, _ := s.e.Of(h)
		taken[s.gangs[id].Queue] += s.p.Demand(s.gangs[id].Roles[0].Request)
	}
	need := int64(0)
	for _, r := range s.urgent.Roles {
		need += int64(len(r.Members)) * s.p.Demand(r.Request)
	}
	use := func(q string) int64 { return lines(s.tree, q)[gpu].Used }
	share := func(q string) int64 { return lines(s.tree, q)[gpu].Share }
	for i, q := range s.queues {
		limit, limited := q.Capability[gpu]
		switch {
		case i == 0 && limited && use(q.Name)-taken[q.Name]+need > limit:
			return false
		case i > 0 && taken[q.Name] > 0 && (!q.Reclaimable || use(q.Name)-taken[q.Name] < share(q.Name) || use("q0")+need > share("q0") || limited0(s, need)):
			return false
		}
	}
	return true
}

// limited0: who is over its queue's capability already may not take from others.
func limited0(s *scene, need int64) bool {
	limit, limited := s.queues[0].Capability[gpu]
	return limited && lines(s.tree, "q0")[gpu].Used+need > limit
}

// TestReclaimVictims: with queues in play, too, no eviction is futile, no victim could have
// stayed, and the gang starts. How often victims that may be evicted would help and none
// is evicted is counted.
func TestReclaimVictims(t *testing.T) {
	var count tally
	rapid.Check(t, func(t *rapid.T) {
		s := drawReclaim(t)
		s.submit(s.urgent)
		all := slices.DeleteFunc(s.candidates(), func(v victim) bool {
			g := s.gangs[v.gang]
			return g.Queue == "q0" && g.Priority >= s.urgent.Priority
		})
		if len(all) > 12 {
			t.Skip("too many to try all")
		}
		var best price
		found := false
		start := s.tree.Why("u").Code == 0 && s.fits(nil)
		for set := range 1 << len(all) {
			var vs []victim
			for i, v := range all {
				if set>>i&1 == 1 {
					vs = append(vs, v)
				}
			}
			if p := priceOf(vs); (!found || p.less(best)) && s.lawful(vs) && s.fits(gone(vs)) {
				best, found = p, true
			}
		}
		d := s.decide()
		if len(d.Evicts) == 0 && len(d.Starts) == 0 { // gangs of another queue are not evicted at once
			s.now += 20 * second
			d = s.decide()
		}
		if len(d.Evicts) == 0 {
			if found && !start {
				count.missed++
			}
			return
		}
		vs := s.evicted(d.Evicts[0])
		if !found || start {
			t.Fatalf("in vain: %+v", vs)
		}
		if !s.lawful(vs) {
			t.Fatalf("unlawful: %+v", vs)
		}
		for i := range vs {
			if rest := slices.Delete(slices.Clone(vs), i, i+1); s.lawful(rest) && s.fits(gone(rest)) {
				t.Fatalf("%+v goes in vain, of %+v", vs[i], vs)
			}
		}
		count.judge(t, priceOf(vs), best)
		s.carryOut(d)
		if s.decide(); !s.runs("u") {
			t.Fatal("it does not start")
		}
	})
	count.log(t)
	if count.cases < 3 || count.missed*5 > count.cases {
		t.Error("too few evictions")
	}
}
