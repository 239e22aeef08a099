package engine

import (
	"testing"
	"time"

	"k8s.io/component-base/metrics/legacyregistry"

	"github.com/tangram-dev/tangram/internal/kube/metrics"
)

// TestPanicUnderLock: the query server recovers panics, so a question that panics must not
// leave the engine locked.
func TestPanicUnderLock(t *testing.T) {
	s := newSetup(t, 1)
	for what, f := range map[string]func(){
		"look": func() { s.Engine.look("test", func() { panic("oops") }) },
		"do":   func() { s.do("test", func(time.Time) { panic("oops") }) },
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
	s.copied = true
	s.Engine.look("test-copied", func() {})
	s.do("test-copied", func(time.Time) {})
	if n := lockCount(t, "test-copied"); n != before {
		t.Errorf("a replica's lock was counted %d times", n-before)
	}
	s.copied = false
	s.Engine.look("test-copied", func() {})
	if n := lockCount(t, "test-copied"); n != before+1 {
		t.Errorf("a lock was counted %d times, want once", n-before)
	}
}

// lockCount is how often the lock's metric was told of a purpose.
func lockCount(t *testing.T, what string) (n uint64) {
	t.Helper()
	families, err := legacyregistry.DefaultGatherer.Gather()
	must(t, err)
	for _, f := range families {
		for _, m := range f.GetMetric() {
			for _, l := range m.GetLabel() {
				if l.GetValue() == what {
					n += m.GetHistogram().GetSampleCount()
				}
			}
		}
	}
	return n
}
