package arbiter_test

import (
	"fmt"
	"maps"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/tangram-dev/tangram/core/arbiter"
)

// TestUsableIsValid: whatever the queues, what is left of them is valid, does not
// depend on their order, and nothing is left out of what is.
func TestUsableIsValid(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var queues []arbiter.Queue
		names := []string{"q0", "q1", "q2", "q3", "q4", "q5", "root", "default", ""}
		for _, name := range names[:rapid.IntRange(0, 6).Draw(t, "queues")] {
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
		slices.Reverse(queues)
		again, said := arbiter.Usable(queues)
		if fmt.Sprint(again) != fmt.Sprint(usable) || fmt.Sprint(slices.Sorted(maps.Keys(said))) != fmt.Sprint(slices.Sorted(maps.Keys(problems))) {
			t.Fatalf("%v, in another order %v", usable, again)
		}
	})
}
