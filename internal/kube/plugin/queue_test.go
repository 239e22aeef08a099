package plugin

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/component-base/featuregate"
	"k8s.io/kubernetes/pkg/features"
)

// TestQueueOrder: the order of the queue is a strict weak one, or kube-scheduler's
// heap would lose its order: no pod is before itself, no two before each other, and both
// "before" and "neither" are transitive. Ranked pods come first, by rank.
func TestQueueOrder(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 9))
	epoch := time.Unix(1000, 0)
	var all []position
	for range 60 {
		p := position{priority: int32(random.IntN(3)), at: epoch.Add(time.Duration(random.IntN(4)) * time.Second)}
		if random.IntN(2) == 0 {
			p.ranked, p.rank = true, int64(random.IntN(10))
		}
		all = append(all, p)
	}
	neither := func(a, b position) bool { return !a.before(b) && !b.before(a) }
	for _, a := range all {
		if a.before(a) {
			t.Fatalf("%+v is before itself", a)
		}
		for _, b := range all {
			if a.before(b) && b.before(a) {
				t.Fatalf("%+v and %+v are before each other", a, b)
			}
			if a.ranked && !b.ranked && !a.before(b) {
				t.Fatalf("%+v is not before %+v", a, b)
			}
			if a.ranked && b.ranked && a.rank < b.rank && !a.before(b) {
				t.Fatalf("%+v is not before %+v", a, b)
			}
			for _, c := range all {
				if a.before(b) && b.before(c) && !a.before(c) || neither(a, b) && neither(b, c) && !neither(a, c) {
					t.Fatalf("not transitive: %+v, %+v, %+v", a, b, c)
				}
			}
		}
	}
}

// TestDefaultsOfGates: members that wait for each other for a moment cost no write, and
// no pod is popped from the back-off queue (hole H16), unless the flag says so.
func TestDefaultsOfGates(t *testing.T) {
	cmd := NewCommand(nil)
	for _, gate := range []featuregate.Feature{features.NominatedNodeNameForExpectation, features.SchedulerPopFromBackoffQ} {
		enabled := func() bool {
			t.Helper()
			if err := cmd.PersistentPreRunE(cmd, nil); err != nil {
				t.Fatal(err)
			}
			return utilfeature.DefaultFeatureGate.Enabled(gate)
		}
		if enabled() {
			t.Errorf("%s is on", gate)
		}
		for _, want := range []bool{true, false} {
			if err := cmd.Flags().Set("feature-gates", fmt.Sprintf("%s=%v", gate, want)); err != nil {
				t.Fatal(err)
			}
			if enabled() != want {
				t.Errorf("the flag does not decide: want %v", want)
			}
		}
	}
}
