package arbiter_test

import (
	"fmt"
	"testing"

	"pgregory.net/rapid"

	"github.com/tangram-dev/tangram/core/arbiter"
)

// lent is a full cluster of 16 GPUs whose two departments have lent their parts:
// lab uses all, eng comes back.
func lent(t *testing.T) *arbiter.Tree {
	t.Helper()
	tree := newTree(t, amounts{gpu: 16},
		arbiter.Queue{Name: "eng"}, arbiter.Queue{Name: "lab", Reclaimable: true},
		arbiter.Queue{Name: "eng-a", Parent: "eng", Reclaimable: true},
		arbiter.Queue{Name: "lab-a", Parent: "lab", Reclaimable: true},
		arbiter.Queue{Name: "lab-b", Parent: "lab", Reclaimable: true, Weight: 3},
	)
	submitMany(t, tree, "lab-a", 10, amounts{gpu: 1})
	submitMany(t, tree, "lab-b", 6, amounts{gpu: 1})
	placeAll(tree, 0)
	submitMany(t, tree, "eng-a", 8, amounts{gpu: 1})
	return tree
}

func over(tree *arbiter.Tree, r *arbiter.Reclaim) string {
	s := ""
	for _, x := range r.Over() {
		s += fmt.Sprintf("%s %d;", x.Queue, x.Over.Map()[gpu])
	}
	return s
}

func TestReclaim(t *testing.T) {
	tree := lent(t)
	// lab deserves 8 of 16, divided 2 and 6: lab-a is 8 above, lab-b not at all.
	r, ok := tree.Reclaim("eng-a-0000")
	if !ok {
		t.Fatal("eng is below its share and may not reclaim")
	}
	if got := over(tree, r); got != "lab-a 8;" {
		t.Errorf("over: %s", got)
	}
	if r.Take("lab-b", arbiter.NewAmounts(amounts{gpu: 1})) {
		t.Error("took from a queue that is not above its share")
	}
	if r.Take("lab-a", arbiter.NewAmounts(amounts{cpu: 1})) {
		t.Error("took what does not help")
	}
	if !r.Take("lab-a", arbiter.NewAmounts(amounts{gpu: 5})) || r.Take("lab-a", arbiter.NewAmounts(amounts{gpu: 4})) || !r.Take("lab-a", arbiter.NewAmounts(amounts{gpu: 3})) {
		t.Error("what was taken before must count")
	}
	if got := over(tree, r); got != "" {
		t.Errorf("over after all was taken: %s", got)
	}
}

func TestWhoMayNotReclaim(t *testing.T) {
	tree := lent(t)
	submit(t, tree, arbiter.Job{ID: "big", Queue: "eng-a"}, amounts{gpu: 9})
	if _, ok := tree.Reclaim("big"); ok {
		t.Error("reclaims above its share")
	}
	submit(t, tree, arbiter.Job{ID: "typo", Queue: "typo"}, amounts{gpu: 1})
	for _, id := range []arbiter.JobID{"typo", "lab-a-0000", "nobody"} {
		if _, ok := tree.Reclaim(id); ok {
			t.Errorf("%s reclaims", id)
		}
	}
	// eng's queue is reclaimable, eng is not: no queue outside eng takes from it.
	one := arbiter.NewAmounts(amounts{gpu: 1})
	if tree.MayReclaim("eng-a", "lab-b", one) || !tree.MayReclaim("lab-a", "eng-a", one) {
		t.Error("MayReclaim disagrees")
	}
	if tree.MayReclaim("lab-a", "lab-a", one) || tree.MayReclaim("lab", "eng-a", one) || tree.MayReclaim("lab-a", "eng-a", nil) {
		t.Error("nonsense allowed")
	}
}

// TestReclaimKeepsGuarantees: of what the claimant does not need, a victim's queue
// keeps its guarantee.
func TestReclaimKeepsGuarantees(t *testing.T) {
	tree := newTree(t, amounts{gpu: 10, cpu: 10},
		arbiter.Queue{Name: "v", Reclaimable: true, Guarantee: amounts{cpu: 2}}, arbiter.Queue{Name: "w"})
	if err := tree.Charge(arbiter.Job{ID: "v", Queue: "v"}, arbiter.NewAmounts(amounts{gpu: 10, cpu: 4})); err != nil {
		t.Fatal(err)
	}
	submit(t, tree, arbiter.Job{ID: "w", Queue: "w"}, amounts{gpu: 2})
	r, ok := tree.Reclaim("w")
	if !ok || r.Take("v", arbiter.NewAmounts(amounts{gpu: 1, cpu: 3})) || !r.Take("v", arbiter.NewAmounts(amounts{gpu: 1, cpu: 2})) {
		t.Error("the guarantee was not kept, or too much was")
	}
}

// TestNoReclaimLoop: on a full cluster, every job that may reclaim does, one victim
// at a time and in any order. A victim cannot take back at once, and all of it
// ends: no circle of queues evicts for ever.
func TestNoReclaimLoop(t *testing.T) {
	leaves := []string{"a", "b", "c", "d"}
	moves := 0
	rapid.Check(t, func(t *rapid.T) {
		var queues []arbiter.Queue
		for _, name := range []string{"p", "a", "b", "c", "d"} {
			q := arbiter.Queue{Name: name, Weight: rapid.Int64Range(1, 3).Draw(t, "weight"), Reclaimable: true}
			if name == "c" || name == "d" {
				q.Parent = "p"
			}
			if name == "a" && rapid.Bool().Draw(t, "guaranteed") {
				q.Guarantee = amounts{gpu: 2}
			}
			if name == "b" && rapid.Bool().Draw(t, "explicit") {
				q.Deserved = amounts{gpu: 5}
			}
			queues = append(queues, q)
		}
		const gpus = 12
		tree, err := arbiter.NewTree(queues, amounts{gpu: gpus, cpu: 100})
		if err != nil {
			t.Fatal(err)
		}
		var ids []arbiter.JobID
		for i, free := 0, int64(gpus); i < 24; i++ {
			demand := amounts{gpu: rapid.Int64Range(1, 3).Draw(t, "gpus"), cpu: rapid.Int64Range(0, 3).Draw(t, "cpus")}
			j := arbiter.Job{ID: arbiter.JobID(fmt.Sprintf("j%02d", i)), Queue: rapid.SampledFrom(leaves).Draw(t, "queue"), Demand: arbiter.NewAmounts(demand)}
			if err := tree.Submit(j); err != nil {
				t.Fatal(err)
			}
			if free >= demand[gpu] { // facts, whatever the shares
				free -= demand[gpu]
				if err := tree.Charge(j, j.Demand); err != nil {
					t.Fatal(err)
				}
			}
			ids = append(ids, j.ID)
		}
		for range 1000 {
			claimant, victim := reclaimOne(t, tree, rapid.Permutation(ids).Draw(t, "order"))
			if claimant.ID == "" {
				return
			}
			moves++
			if r, ok := tree.Reclaim(victim.ID); ok && r.Take(claimant.Queue, claimant.Demand) {
				t.Fatalf("%s took from %s, which takes it back", claimant.ID, victim.ID)
			}
			if tree.MayReclaim(claimant.Queue, victim.Queue, victim.Demand) {
				t.Fatalf("%s took from %s, whose queue may take it back", claimant.ID, victim.ID)
			}
		}
		t.Fatal("evictions do not end")
	})
	if moves == 0 {
		t.Error("no job ever reclaimed")
	}
}

// reclaimOne lets the first job that may reclaim evict the first victim it may
// have that is as large as it is, and start.
func reclaimOne(t *rapid.T, tree *arbiter.Tree, order []arbiter.JobID) (claimant, victim arbiter.Job) {
	for _, c := range order {
		r, ok := tree.Reclaim(c)
		if !ok {
			continue
		}
		claimant, _ = tree.Job(c)
		for _, v := range order {
			victim, _ = tree.Job(v)
			gone := tree.Charged(v)
			if gone == nil || gone.Map()[gpu] < claimant.Demand.Map()[gpu] || !r.Take(victim.Queue, gone) {
				continue
			}
			if err := tree.Evict(v); err != nil {
				t.Fatal(err)
			}
			if err := tree.Charge(claimant, claimant.Demand); err != nil {
				t.Fatal(err)
			}
			return claimant, victim
		}
	}
	return arbiter.Job{}, arbiter.Job{}
}
