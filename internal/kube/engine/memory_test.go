package engine

import (
	"reflect"
	"testing"
	"time"

	"github.com/tangram-dev/tangram/core/arbiter"
	"github.com/tangram-dev/tangram/core/explain"
	"github.com/tangram-dev/tangram/core/model"
)

// TestRestored: an engine that restores what another one learned goes on from there. Pods
// that were counted are not counted again, those that came since are; a waiting pod of
// which nothing was known has a runtime.
func TestRestored(t *testing.T) {
	first := newSetup(t, 1)
	first.add(first.member("a", "", 0, 1), first.member("b", "", 0, 8))
	first.Step()
	first.now = first.now.Add(time.Minute)
	saved := first.Learned()
	if err := saved.Validate(); err != nil || saved.Learned.Mix.Arrivals != 2 || saved.At != first.now.UnixNano() {
		t.Fatalf("%+v, %v", saved, err)
	}

	second := newSetup(t, 1)
	second.add(second.member("a", "", 0, 1), second.member("b", "", 0, 8))
	second.now = first.now.Add(time.Second)
	second.add(second.member("c", "", 0, 1))
	second.Sync()
	runtime := func(name string) (d time.Duration) {
		second.do("test", func(*driver, time.Time) {
			id, _ := second.driver.core.Gangs.Of(model.HolderID(second.latest(name).UID))
			g, _ := second.driver.core.Gangs.Gang(id)
			d = g.Runtime
		})
		return d
	}
	if d := runtime("b"); d != 0 {
		t.Fatalf("b is expected to run for %s", d)
	}
	key := runKeyOf(second, "b")
	saved.Runtimes = []arbiter.SavedRuntime{{Key: key, Mean: time.Hour, Runs: 3}}
	second.Restore(saved)
	again := second.Learned()
	if again.Learned.Mix.Arrivals != 3 {
		t.Errorf("%d requests are counted, want those of a, b and c", again.Learned.Mix.Arrivals)
	}
	if !reflect.DeepEqual(again.Runtimes, saved.Runtimes) {
		t.Errorf("saved %+v, restored %+v", saved.Runtimes, again.Runtimes)
	}
	if d := runtime("b"); d != time.Hour {
		t.Errorf("b is expected to run for %s", d)
	}
}

// runKeyOf is under which key runs of a pod are learned.
func runKeyOf(s *setup, name string) arbiter.RuntimeKey {
	p := s.latest(name)
	return arbiter.RuntimeKey{Owner: p.Namespace + "/", Shape: "8 1 "}
}

// TestRefusals: a gang's refusal is returned once, again when its causes are others, and
// not because numbers have changed; not at all unless somebody asks.
func TestRefusals(t *testing.T) {
	s := newSetup(t, 1)
	s.runs("busy", 1, 7)
	refused := func() (codes []string) {
		for range 40 {
			for _, r := range s.after(time.Second).Refusals {
				codes = append(codes, r.Gang+" "+r.Reason.Code.String())
			}
		}
		return codes
	}
	s.add(s.member("waits", "", 0, 4))
	if got := refused(); got != nil {
		t.Errorf("nobody asked for %v", got)
	}
	s.WatchRefusals()
	if got := refused(); !reflect.DeepEqual(got, []string{"default/waits " + explain.Nodes.String()}) {
		t.Errorf("got %v", got)
	}
	s.runs("more", 1, 1) // fewer are free: other numbers, the same cause
	if got := refused(); got != nil {
		t.Errorf("got %v", got)
	}
	node := testNode("n0", 8)
	node.Spec.Unschedulable = true
	s.addNode(node)
	if got := refused(); len(got) != 1 {
		t.Errorf("after a cordon: got %v", got)
	}
	s.deletePod("waits")
	if refused(); len(s.driver.refusals) != 0 {
		t.Errorf("%v is remembered of a gang that is gone", s.driver.refusals)
	}
}

// TestTimingIsUsed: what is set counts from the next step on.
func TestTimingIsUsed(t *testing.T) {
	s := newSetup(t, 1)
	timing := DefaultTiming()
	timing.Step = 7 * time.Minute
	s.Configure(func(set *Settings) { set.Timing = timing })
	if next := s.Step().Next; next != 7*time.Minute {
		t.Errorf("the next step is in %s", next)
	}
	s.Configure(func(set *Settings) {
		set.Options.BatchTimeout, set.Options.Timing.NudgeAfter = time.Hour, 11*time.Second
	})
	s.gang("g", 1, 1)
	if n := len(s.Step().Activate); n != 1 {
		t.Fatalf("%d pods are activated", n)
	}
	if n := len(s.after(10 * time.Second).Activate); n != 0 {
		t.Errorf("a released pod is nudged after 10s")
	}
	if n := len(s.after(time.Second).Activate); n != 1 {
		t.Errorf("a released pod is not nudged after 11s")
	}
}
