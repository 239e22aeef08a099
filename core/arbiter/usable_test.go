package arbiter_test

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/tangram-dev/tangram/core/arbiter"
)

// TestUsableIsValid: whatever the queues, what is left of them is valid, does not
// depend on their order, and nothing is left out of what is valid, or left out and not reported.
func TestUsableIsValid(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var queues []arbiter.Queue
		names := []string{"q0", "q1", "q2", "q3", "q4", "q5", "root", "default", ""}
		for range rapid.IntRange(0, 7).Draw(t, "queues") {
			name := rapid.SampledFrom(names).Draw(t, "name")
			queues = append(queues, arbiter.Queue{
				Name: name, Parent: rapid.SampledFrom(names).Draw(t, "parent"), Weight: rapid.Int64Range(-1, 9).Draw(t, "weight"),
				Guarantee: drawAmounts(t, "guarantee", 3), Capability: drawAmounts(t, "capability", 9),
			})
		}
		usable, problems := arbiter.Usable(queues)
		if err := arbiter.ValidateQueues(usable); err != nil {
			t.Fatal(err)
		}
		if valid := arbiter.ValidateQueues(queues) == nil; valid != (len(problems) == 0) || valid && len(usable) != len(queues) {
			t.Fatalf("valid: %v, but %v", valid, problems)
		}
		checkReported(t, queues, usable, problems)
		slices.Reverse(queues)
		again, said := arbiter.Usable(queues)
		if fmt.Sprint(again) != fmt.Sprint(usable) || fmt.Sprint(slices.Sorted(maps.Keys(said))) != fmt.Sprint(slices.Sorted(maps.Keys(problems))) {
			t.Fatalf("%v, in another order %v", usable, again)
		}
	})
}

// checkReported: a queue that is not in the tree as it was given is never dropped
// silently. It is named in the mistakes; of one that only lost its guarantee, its
// parent is.
func checkReported(t *rapid.T, queues, usable []arbiter.Queue, mistakes map[string]error) {
	for _, q := range queues {
		i := slices.IndexFunc(usable, func(u arbiter.Queue) bool { return u.Name == q.Name })
		switch {
		case i < 0 && mistakes[q.Name] == nil:
			t.Fatalf("queue %q is left out and not reported: %v", q.Name, mistakes)
		case i >= 0 && !maps.Equal(usable[i].Guarantee, q.Guarantee) && mistakes[cmp.Or(q.Parent, arbiter.Root)] == nil:
			t.Fatalf("queue %q lost its guarantee, and %q is not reported: %v", q.Name, q.Parent, mistakes)
		}
	}
	if _, err := arbiter.NewTree(usable, nil); err != nil {
		t.Fatalf("a tree of usable queues: %v", err)
	}
}
