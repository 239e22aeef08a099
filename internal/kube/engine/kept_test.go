package engine

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/tangram-dev/tangram/core/engine"
)

// size is how many pods a table of the gate knows.
func size(m *sync.Map) (n int) {
	m.Range(func(any, any) bool { n++; return true })
	return n
}

// left says what is kept of pods; empty when nothing is.
func (s *setup) left() (out string) {
	s.do("test", func(*driver, time.Time) {
		pods, gangs := s.driver.work.Size()
		waiting, running := s.driver.core.Gangs.Size()
		counts := []int{
			pods, gangs, waiting, running, s.driver.core.Releases.Open(), len(s.driver.arrived), s.observer.Size(), s.driver.contests.Size(), len(s.driver.work.Changed()),
			size(&s.gate.releases.m), size(&s.gate.free.m), size(&s.gate.ranks.m),
			len(s.driver.outbox.activate) + len(s.driver.outbox.requeue) + len(s.driver.outbox.stop), len(s.driver.complaints.Take()),
		}
		for _, n := range counts {
			if n > 0 {
				out = fmt.Sprint(counts)
			}
		}
		if !s.driver.notices.Next().IsZero() || !s.driver.work.Next().IsZero() {
			out += fmt.Sprint(" to be looked at ", s.driver.notices.Next(), s.driver.work.Next())
		}
	})
	return out
}

// TestNothingKept: pods that come and go leave nothing behind, with gangs and without,
// whether they started or not.
func TestNothingKept(t *testing.T) {
	s := newSetup(t, 1)
	for _, gpus := range []int64{1, 9} {
		for _, gang := range []string{"", "g"} {
			s.add(s.member("a", gang, 2, gpus), s.member("b", gang, 2, gpus))
			s.Step()
			s.deletePod("a")
			s.deletePod("b")
			s.Step()
			s.after(time.Minute)
			if left := s.left(); left != "" || s.held() != 0 {
				t.Errorf("gang %q of %d GPUs: left %s, %d held", gang, gpus, left, s.held())
			}
		}
	}
}

// TestFollowerKeepsNothing: a replica that does not lead only follows; it keeps nothing
// of gangs that are gone.
func TestFollowerKeepsNothing(t *testing.T) {
	s := newSetup(t, 1)
	for i := range 100 {
		name := fmt.Sprintf("p%d", i)
		s.add(s.member(name, []string{"", "g"}[i%2], 1, 1))
		s.Sync()
		s.deletePod(name)
		s.Sync()
		s.now = s.now.Add(time.Second)
	}
	var changed []engine.ID
	s.do("test", func(*driver, time.Time) { changed = s.driver.work.Changed() })
	if len(changed) > 0 {
		t.Errorf("%d gangs are remembered", len(changed))
	}
	s.Step() // it leads now
	s.after(time.Minute)
	if left := s.left(); left != "" {
		t.Errorf("left %s", left)
	}
}
