package engine

import (
	"testing"
	"time"

	"k8s.io/component-base/metrics/legacyregistry"

	"github.com/tangram-dev/tangram/internal/kube/answer"
	"github.com/tangram-dev/tangram/internal/kube/metrics"
)

// TestPanicUnderLock: the query server recovers panics, so a question that panics must not
// leave the engine locked.
func TestPanicUnderLock(t *testing.T) {
	s := newSetup(t, 1)
	for what, f := range map[string]func(){
		"look": func() { s.Engine.Look("test", func(*answer.View) { panic("oops") }) },
		"do":   func() { s.do("test", func(*driver, time.Time) { panic("oops") }) },
	} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%s swallows a panic", what)
				}
			}()
			f()
		}()
		if !s.Engine.mu.held.TryLock() {
			t.Fatalf("%s leaves the engine locked", what)
		}
		s.Engine.mu.Unlock()
	}
}

// TestReplicasCountNothing: the lock of a replica is not the scheduler's.
func TestReplicasCountNothing(t *testing.T) {
	s := newSetup(t, 1)
	metrics.Register()
	before := lockCount(t, "test-copied")
	observer := s.observer
	s.observer = nil
	s.Engine.Look("test-copied", func(*answer.View) {})
	s.do("test-copied", func(*driver, time.Time) {})
	if n := lockCount(t, "test-copied"); n != before {
		t.Errorf("a replica's lock was counted %d times", n-before)
	}
	s.observer = observer
	s.Engine.Look("test-copied", func(*answer.View) {})
	if n := lockCount(t, "test-copied"); n != before+1 {
		t.Errorf("a lock was counted %d times, want once", n-before)
	}
}

// TestLockedCalls: a single pod's way from its release to its Binding takes the lock once, a
// gang member's twice; five times each were needed when every call took it.
func TestLockedCalls(t *testing.T) {
	metrics.Register()
	for name, want := range map[string]struct {
		members int
		calls   uint64
	}{"single": {1, 1}, "gang": {4, 2}} {
		t.Run(name, func(t *testing.T) {
			s := newSetup(t, 1)
			var cycles []*Cycle
			pods := s.gang("g", want.members, 1)
			s.Step()
			before := lockCount(t, "")
			for _, p := range pods {
				c, ok := s.Begin(p)
				if !ok {
					t.Fatal("not released")
				}
				c.Took(c.Node.ID)
				if refusal := c.Take(c.Node.ID); refusal != nil {
					t.Fatal(refusal)
				}
				if _, _, ok := c.Reserved(); !ok {
					t.Fatal("not reserved")
				}
				cycles = append(cycles, &c)
			}
			for _, c := range cycles {
				if _, ok := c.Confirm(); !ok {
					t.Fatal("not confirmed")
				}
			}
			if n := lockCount(t, "") - before; n != want.calls*uint64(want.members) {
				t.Errorf("the lock was taken %d times for %d pods, want %d each", n, want.members, want.calls)
			}
		})
	}
}

// lockCount is how often the lock's metric was told of a purpose; empty: of any.
func lockCount(t *testing.T, what string) (n uint64) {
	t.Helper()
	families, err := legacyregistry.DefaultGatherer.Gather()
	must(t, err)
	for _, f := range families {
		if f.GetName() != metrics.LockSeconds.Name {
			continue
		}
		for _, m := range f.GetMetric() {
			for _, l := range m.GetLabel() {
				if l.GetValue() == what || what == "" {
					n += m.GetHistogram().GetSampleCount()
				}
			}
		}
	}
	return n
}
