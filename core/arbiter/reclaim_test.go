package arbiter_test

import (
	"fmt"
	"testing"

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
		s += fmt.Sprintf("%s %d;", x.Queue, tree.Map(x.Over)[gpu])
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
	if r.Take("lab-b", tree.Amounts(amounts{gpu: 1})) {
		t.Error("took from a queue that is not above its share")
	}
	if r.Take("lab-a", tree.Amounts(amounts{cpu: 1})) {
		t.Error("took what does not help")
	}
	if !r.Take("lab-a", tree.Amounts(amounts{gpu: 5})) || r.Take("lab-a", tree.Amounts(amounts{gpu: 4})) || !r.Take("lab-a", tree.Amounts(amounts{gpu: 3})) {
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
	// eng's queue is reclaimable, eng is not: nobody outside eng takes from it.
	one := tree.Amounts(amounts{gpu: 1})
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
	if err := tree.Charge(arbiter.Job{ID: "v", Queue: "v"}, tree.Amounts(amounts{gpu: 10, cpu: 4})); err != nil {
		t.Fatal(err)
	}
	submit(t, tree, arbiter.Job{ID: "w", Queue: "w"}, amounts{gpu: 2})
	r, ok := tree.Reclaim("w")
	if !ok || r.Take("v", tree.Amounts(amounts{gpu: 1, cpu: 3})) || !r.Take("v", tree.Amounts(amounts{gpu: 1, cpu: 2})) {
		t.Error("the guarantee was not kept, or too much was")
	}
}
