package engine_test

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/tangram-dev/tangram/core/arbiter"
	"github.com/tangram-dev/tangram/core/engine"
	"github.com/tangram-dev/tangram/core/model"
	"github.com/tangram-dev/tangram/test/coretest"
)

// quarrel is queues and gangs at odds. Between changes from outside no gang ends by
// itself: all that moves is what the engine makes move.
type quarrel struct {
	*world
	r    *rand.Rand
	next int
	// going are victims that take their grace, with the decisions left to them.
	going map[model.HolderID]int
	// timed: gangs say how long they run, though none keeps to it.
	timed bool
	// by[x][y]: x has evicted members of y since the last change from outside.
	by map[engine.ID]map[engine.ID]bool
}

func newQuarrel(t *testing.T, seed uint64) *quarrel {
	r := rand.New(rand.NewPCG(seed, 4))
	queues := []arbiter.Queue{{Name: "dep"}, {Name: "a"}, {Name: "b"}, {Name: "c"}, {Name: "d"}}
	for i := range queues {
		q := &queues[i]
		q.Weight, q.Reclaimable, q.Order = 1+int64(r.IntN(3)), r.IntN(4) > 0, arbiter.Policy(r.IntN(4))
		q.Aging = time.Duration(1+r.IntN(300)) * time.Second
		if i > 2 {
			q.Parent = "dep"
		} else if i > 0 && r.IntN(3) == 0 {
			q.Guarantee = map[arbiter.Resource]int64{gpu: 1000 * int64(1+r.IntN(2))}
		}
		if i > 0 && r.IntN(3) == 0 {
			q.Capability = map[arbiter.Resource]int64{gpu: 1000 * int64(3+r.IntN(10))}
		}
		if i > 0 && r.IntN(4) == 0 {
			q.Priority = int32(r.IntN(2))
		}
		if q.Guarantee == nil && i > 0 && r.IntN(4) == 0 {
			q.Deserved = map[arbiter.Resource]int64{gpu: 1000 * int64(1+r.IntN(3))}
		}
	}
	o := options()
	if r.IntN(2) == 0 {
		o.Patience = time.Duration(1+r.IntN(30)) * time.Minute
	}
	o.Reservations = 1 + r.IntN(3)
	q := &quarrel{r: r, timed: seed%2 == 1, going: map[model.HolderID]int{}}
	q.world = newWorld(t, o, queues, nodes(5, 4)...)
	return q
}

// change is one thing that happens outside.
func (q *quarrel) change() {
	q.by = map[engine.ID]map[engine.ID]bool{}
	ids := slices.Sorted(maps.Keys(q.gangs))
	switch q.r.IntN(6) {
	case 0, 1, 2:
		for range 1 + q.r.IntN(5) {
			q.come()
		}
	case 3:
		q.r.Shuffle(len(ids), func(i, j int) { ids[i], ids[j] = ids[j], ids[i] })
		for _, id := range ids[:min(len(ids), 1+q.r.IntN(8))] {
			q.withdraw(id)
		}
	case 4:
		id := model.NodeID(fmt.Sprintf("n%03d", q.r.IntN(5)))
		if _, there := q.l.View(id); !there {
			for _, n := range nodes(5, 4) {
				if n.ID == id {
					if err := q.l.SetNode(n); err != nil {
						q.t.Fatal(err)
					}
				}
			}
			break
		}
		q.l.RemoveNode(id)
		for _, g := range ids {
			for h, at := range q.placed[g] {
				if at == id {
					q.ended(h)
				}
			}
		}
	case 5: // a gang crashes, and is created anew
		if len(ids) > 0 {
			for h := range q.placed[ids[q.r.IntN(len(ids))]] {
				q.ended(h)
				break
			}
		}
	}
}

func (q *quarrel) come() {
	q.next++
	r := q.r
	g := engine.Gang{
		ID: engine.ID(fmt.Sprintf("g%03d", q.next)), Queue: []string{"a", "b", "c", "d", ""}[r.IntN(5)], Priority: int32(r.IntN(1 + r.IntN(20))), Submitted: q.now,
		Preemptible: r.IntN(8) > 0, NeverPreempts: r.IntN(8) == 0,
		MinRuntime: time.Duration(r.IntN(2)*r.IntN(5)) * time.Minute,
	}
	if q.timed {
		g.Runtime = time.Duration(r.IntN(3)*r.IntN(60)) * time.Minute
	}
	for i := range 1 + r.IntN(2) {
		n := 1 + r.IntN(4)
		role := engine.Role{Name: fmt.Sprint(i), Request: coretest.Request(1 + r.IntN(3)), Members: holders(g.ID, 100*i, 100*i+n), Min: r.IntN(n + 1)}
		if r.IntN(3) == 0 {
			role.Min = n
		}
		g.Min += role.Min
		g.Roles = append(g.Roles, role)
	}
	g.Min = max(1, g.Min)
	if r.IntN(4) == 0 {
		g.Require = rack
	}
	q.submit(g)
}

// evicted says whether a gang has evicted another, or one that has, and so on.
func (q *quarrel) evicted(by, id engine.ID) bool {
	if q.by[by][id] {
		return true
	}
	for next := range q.by[by] { // any
		if q.evicted(next, id) {
			return true
		}
	}
	return false
}

// turn is one decision, and what follows from it. It returns how many are told to go.
func (q *quarrel) turn(grace int) int {
	q.now += second * int64(1+q.r.IntN(30))
	for _, h := range slices.Sorted(maps.Keys(q.going)) {
		if q.going[h]--; q.going[h] < 0 {
			delete(q.going, h)
			if id, ok := q.e.Of(h); ok && q.placed[id][h] != "" {
				q.ended(h)
			}
		}
	}
	told := 0
	for _, x := range q.decide().Evicts {
		if q.by[x.For] == nil {
			q.by[x.For] = map[engine.ID]bool{}
		}
		for _, h := range x.Members {
			id, _ := q.e.Of(h)
			if q.evicted(id, x.For) {
				q.t.Fatalf("%s evicts %s, which has evicted it, or one that has: %v\n%+v\n%+v", x.For, id, q.by, q.gangs[x.For], q.gangs[id])
			}
			q.by[x.For][id] = true
			told++
			q.going[h] = q.r.IntN(grace + 1)
		}
	}
	return told
}

const quarrels = 12

// TestQuarrels: whichever gangs are at odds, and whatever happens outside, evictions come
// to an end afterwards, and no gang evicts one that has evicted it. Where gangs run
// over their time, reservations move, and an eviction may become possible late.
func TestQuarrels(t *testing.T) {
	const turns = 200
	total, most := 0, 0
	for seed := range uint64(quarrels) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			q := newQuarrel(t, seed)
			for range 20 {
				q.come()
			}
			for range 12 {
				q.change()
				if err := q.tree.SetTotal(q.total()); err != nil {
					t.Fatal(err)
				}
				sum, last := 0, 0
				for turn := range turns {
					if n := q.turn(int(seed % 4)); n > 0 {
						sum, last = sum+n, turn
					}
				}
				total, most = total+sum, max(most, sum)
				if last > turns-40 && !q.timed || sum > 60 {
					t.Fatalf("%d evictions, the last in turn %d", sum, last)
				}
			}
		})
	}
	t.Logf("%d evictions, at most %d after one change", total, most)
}

// A gang that nodes refuse for reasons core does not know, each only once it is to
// start there: no eviction helps it, which is known only after the victims are gone.
func TestRefusedGangStopsEvicting(t *testing.T) {
	refused := map[model.NodeID]int64{}
	var w *world
	o := options()
	o.Facts = facts{may: func(s engine.Shape, id model.NodeID) bool { return s != "picky" || refused[id] < w.now }}
	w = newWorld(t, o, nil, nodes(6, 2)...)
	w.fill(12, 1)
	u := urgent("u", 1, 2)
	u.Roles[0].Shape = "picky"
	w.submit(u)
	evicted := 0
	for range 6 * 3600 / 5 {
		w.now += 5 * second
		w.e.Changed()
		d := w.decide()
		evicted += w.carryOut(d)
		for _, s := range d.Starts {
			if s.Gang == "u" {
				refused[s.Plan.Placements[0].Node] = w.now + 15*second
				w.e.Undo("u", holders("u", 0, 1))
				clear(w.placed["u"])
				w.submit(w.gangs["u"])
			}
		}
	}
	// Six hours: after 1, 2, 4, ... minutes.
	if evicted == 0 || evicted > 2*10 {
		t.Errorf("%d are evicted in vain", evicted)
	}
}
