package plugin

import (
	"context"
	"errors"
	"math/rand/v2"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/features"
	"k8s.io/kubernetes/pkg/scheduler"
	"k8s.io/kubernetes/pkg/scheduler/framework"

	"github.com/tangram-dev/tangram/api/names"
	"github.com/tangram-dev/tangram/internal/kube/state"
)

// TestQueueOrder: the order of the queue is a strict weak one, or kube-scheduler's
// heap would lose its order: nobody before itself, nobody before each other, and both
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

// TestNominationsAreOff: members that wait for each other for a moment cost no write,
// unless the flag says so.
func TestNominationsAreOff(t *testing.T) {
	cmd := NewCommand(nil)
	enabled := func() bool {
		t.Helper()
		if err := cmd.PersistentPreRunE(cmd, nil); err != nil {
			t.Fatal(err)
		}
		return utilfeature.DefaultFeatureGate.Enabled(features.NominatedNodeNameForExpectation)
	}
	if enabled() {
		t.Error("nominations are written")
	}
	for _, want := range []bool{true, false} {
		if err := cmd.Flags().Set("feature-gates", "NominatedNodeNameForExpectation="+map[bool]string{true: "true", false: "false"}[want]); err != nil {
			t.Fatal(err)
		}
		if enabled() != want {
			t.Errorf("the flag does not decide: want %v", want)
		}
	}
}

// TestQuiet: who waits for others is told by the dispatcher, not by a failed cycle;
// everything else is told as ever.
func TestQuiet(t *testing.T) {
	by := func(plugin string) *framework.FitError {
		return &framework.FitError{Diagnosis: framework.Diagnosis{UnschedulablePlugins: sets.New(plugin)}}
	}
	for name, tt := range map[string]struct {
		status *fwk.Status
		fit    *framework.FitError
		want   bool
	}{
		"taken back before its cycle": {fwk.AsStatus(by(names.PluginGang)), by(names.PluginGang), true},
		"rejected at Permit":          {fwk.NewStatus(fwk.Unschedulable, takenBack).WithPlugin(names.PluginGang), nil, true},
		"taken back at Reserve":       {fwk.NewStatus(fwk.Unschedulable, takenBack).WithPlugin(names.PluginReserve), nil, true},
		"the filter said no":          {fwk.AsStatus(by(names.PluginFilter)), by(names.PluginFilter), false},
		"a Binding failed":            {fwk.AsStatus(errors.New("conflict")).WithPlugin(names.PluginBind), nil, false},
		"Permit failed":               {fwk.AsStatus(errors.New("x")).WithPlugin(names.PluginGang), nil, false},
	} {
		if got := quiet(tt.status, tt.fit); got != tt.want {
			t.Errorf("%s: quiet %v", name, got)
		}
	}
}

// TestNothingToClear: a pod that fails without a nomination does not get an empty one;
// a nomination it has is cleared.
func TestNothingToClear(t *testing.T) {
	var got *fwk.NominatingInfo
	sched := &scheduler.Scheduler{FailureHandler: func(_ context.Context, _ framework.Framework, _ *framework.QueuedPodInfo, _ *fwk.Status, n *fwk.NominatingInfo, _ time.Time) {
		got = n
	}}
	NewShared(state.Sources{}).KeepQuiet(sched)
	for nominated, cleared := range map[string]bool{"": false, "n": true} {
		info, _ := framework.NewPodInfo(&v1.Pod{Status: v1.PodStatus{NominatedNodeName: nominated}})
		sched.FailureHandler(context.Background(), nil, &framework.QueuedPodInfo{PodInfo: info}, fwk.NewStatus(fwk.Unschedulable, "full"),
			&fwk.NominatingInfo{NominatingMode: fwk.ModeOverride}, time.Now())
		if (got != nil) != cleared {
			t.Errorf("nominated to %q: got %+v", nominated, got)
		}
	}
}
