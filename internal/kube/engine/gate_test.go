package engine

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/tangram-dev/tangram/api/names"
	"github.com/tangram-dev/tangram/internal/dialect"
)

// TestGateWaitsForNoLock: what kube-scheduler asks under the lock of its queue is
// answered while a decision is being made.
func TestGateWaitsForNoLock(t *testing.T) {
	s := newSetup(t, 4)
	pods, _ := s.planned("g", 4, 1)
	single, bad, cpu, foreign := s.member("s", "", 0, 1), s.member("bad", "x", 0, 1), s.member("cpu", "", 0, 0), testPod("foreign", 1)
	cpu.Spec.Containers[0].Resources = v1.ResourceRequirements{}
	s.Engine.mu.Lock()
	defer s.Engine.mu.Unlock()
	answered := make(chan string)
	go func() {
		var b strings.Builder
		for _, p := range append(slices.Clone(pods[:1]), single, bad, cpu, foreign) {
			_, ranked := s.gate.RankOf(p)
			fmt.Fprintln(&b, p.Name, s.gate.Manages(p), s.gate.Waits(p), s.gate.Released(p), ranked, s.gate.Owns(p.Spec.SchedulerName))
		}
		answered <- b.String()
	}()
	select {
	case got := <-answered:
		want := `g0 true false true true true
s true true false false true
bad true true false false true
cpu false false false false true
foreign false false false false false
`
		if got != want {
			t.Errorf("got\n%s\nwant\n%s", got, want)
		}
	case <-time.After(time.Minute):
		t.Fatal("waits for the engine's lock")
	}
}

// TestRanks: a pod's place in kube-scheduler's queue is given when it is first released
// and never changes: an order that changes would corrupt the heap (hole H13).
func TestRanks(t *testing.T) {
	s := newSetup(t, 2)
	pods, releases := s.planned("g", 2, 8)
	rank := func(p *v1.Pod) int64 {
		t.Helper()
		r, ok := s.gate.RankOf(p)
		if !ok {
			t.Fatalf("%s has no rank", p.Name)
		}
		return r
	}
	first := []int64{rank(pods[0]), rank(pods[1])}
	if first[0] == first[1] {
		t.Error("two pods of one rank")
	}
	s.Refused(pods[0], releases[0].Ticket, nil)
	if s.gate.Released(pods[0]) || rank(pods[0]) != first[0] {
		t.Error("the rank went with the release")
	}
	s.Step()
	if s.release(pods[0]); rank(pods[0]) != first[0] || rank(pods[1]) != first[1] {
		t.Error("the rank changed with the next release")
	}
	waits := s.member("waits", "", 0, 8)
	s.add(waits)
	s.Step()
	if _, ranked := s.gate.RankOf(waits); ranked {
		t.Error("a pod that was never released has a rank")
	}
}

// TestOnePath: no object elsewhere changes how a pod is placed: single pods wait for the
// engine and start, with gangs and queues in the cluster and without, and after the last
// gang has gone.
func TestOnePath(t *testing.T) {
	story := func(s *setup, before func()) string {
		before()
		var b strings.Builder
		note := func(what string, turn Turn) {
			fmt.Fprintln(&b, what)
			for _, p := range turn.Activate {
				fmt.Fprintln(&b, " starts", p.Name, s.release(p).Node.ID)
			}
			for _, v := range turn.Evict {
				fmt.Fprintln(&b, " evicts", v.Pod.Name, v.Why)
			}
			for _, n := range turn.Notices {
				fmt.Fprintln(&b, " tells", n.Pod.Name, n.Reason, n.Text)
			}
		}
		first, second := s.member("first", "", 0, 8), s.member("second", "", 0, 8)
		fmt.Fprintln(&b, s.gate.Waits(first), s.gate.Waits(second))
		s.add(first, second)
		note("two come", s.after(time.Second))
		for _, p := range []*v1.Pod{first, second} {
			r := s.release(p)
			s.Reserved(p, r.Ticket)
			s.bind(p, r)
		}
		waits, urgent := s.member("waits", "", 0, 8), s.member("urgent", "", 0, 8)
		priority(1000)(urgent)
		s.add(waits)
		note("no room", s.after(time.Second))
		note("told", s.after(time.Second))
		s.add(urgent)
		note("urgent", s.after(time.Second))
		s.deletePod("first")
		note("first ends", s.after(time.Second))
		return b.String()
	}
	plain := newSetup(t, 2)
	want := story(plain, func() {})
	if !strings.Contains(want, "starts second") || !strings.Contains(want, "evicts") || !strings.Contains(want, "tells waits Unschedulable") {
		t.Fatalf("the story is\n%s", want)
	}
	queues := newSetup(t, 2, dialect.Queues)
	if got := story(queues, func() {
		queues.groups[dialect.Queues].Add(queue("idle", map[string]any{"weight": int64(3)}))
		queues.eventually("the queue is known", func() bool { queues.Step(); return queues.inTree() == "idle" })
	}); got != want {
		t.Errorf("beside a queue\n%s\nwant\n%s", got, want)
	}
	gangs := newSetup(t, 2)
	if got := story(gangs, func() {
		gangs.runs("g", 2, 8)
		gangs.deletePod("g0")
		gangs.deletePod("g1")
		gangs.add(gangs.member("part", "h", 2, 8))
		gangs.Step()
		gangs.deletePod("part")
	}); got != want {
		t.Errorf("after gangs\n%s\nwant\n%s", got, want)
	}
}

// TestOtherProfiles: pods of other schedulers are not managed, and count once they are
// bound.
func TestOtherProfiles(t *testing.T) {
	s := newSetup(t, 1)
	p := testPod("p", 8)
	p.Spec.SchedulerName = "default-scheduler"
	s.add(p)
	if turn := s.Step(); len(turn.Activate) > 0 || s.gate.Manages(p) || s.held() != 0 {
		t.Errorf("placed a pod of another scheduler: %+v", turn)
	}
	s.edit("p", func(p *v1.Pod) { p.Spec.NodeName = "n0" })
	if s.Step(); s.held() != 1 {
		t.Error("its devices are not held")
	}
	q := s.member("q", "", 0, 1)
	q.Labels[names.LabelQueue] = ""
	s.add(q)
	if s.Step(); s.gate.Released(q) {
		t.Error("its devices were given to another pod")
	}
}

// TestPodIsReadOnce: the gate, the waiting room, the gang, the cycle and the filter share one
// reading of a pod's version.
func TestPodIsReadOnce(t *testing.T) {
	s := newSetup(t, 1)
	p := s.member("p", "", 0, 1)
	p.ResourceVersion = "1"
	before := s.reader.Parsed()
	if !s.gate.Waits(p) || !s.gate.Manages(p) {
		t.Fatal("not the engine's")
	}
	s.add(p)
	s.Step()
	if _, ok := s.Begin(p); !ok {
		t.Fatal("not released")
	}
	if _, err := s.Request(p); err != nil {
		t.Fatal(err)
	}
	if n := s.reader.Parsed() - before; n != 1 {
		t.Errorf("read %d times, want once", n)
	}
}

// TestBoundPodIsReadOnce: what a pod that is bound when it is first seen asks for is learned and
// held by one reading.
func TestBoundPodIsReadOnce(t *testing.T) {
	s := newSetup(t, 1)
	p := s.member("p", "", 0, 1)
	p.ResourceVersion, p.Spec.NodeName = "1", "n0"
	before := s.reader.Parsed()
	s.add(p)
	s.Step()
	if n := s.reader.Parsed() - before; n != 1 {
		t.Errorf("read %d times, want once", n)
	}
}
