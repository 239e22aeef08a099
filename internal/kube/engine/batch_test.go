package engine

import (
	"slices"
	"testing"
	"time"

	"github.com/tangram-dev/tangram/core/model"
)

// TestBatchFails: until the last member is at Permit, one that fails takes back the
// places of all, at once; no cycle may go on with a place that was taken back.
func TestBatchFails(t *testing.T) {
	s := newSetup(t, 4)
	pods, releases := s.planned("m", 4, 8)
	for i := range 2 {
		if _, refusal := s.Take(pods[i], releases[i].Ticket, releases[i].Node.ID); refusal != nil {
			t.Fatal("the place is gone")
		}
		if ready, _, ok := s.Reserved(pods[i], releases[i].Ticket); ready || !ok {
			t.Fatalf("%d of 4 reserved: ready %v, ok %v", i+1, ready, ok)
		}
	}
	waiting := s.Refused(pods[2], releases[2].Ticket, nil)
	if want := []model.HolderID{"uid-m0", "uid-m1", "uid-m3"}; !slices.Equal(waiting, want) {
		t.Errorf("told to stop: %v, want %v", waiting, want)
	}
	if n := s.held(); n != 0 {
		t.Errorf("%d still held", n)
	}
	for _, p := range pods {
		if s.gate.Released(p) || !s.gate.Waits(p) {
			t.Errorf("%s may still be scheduled", p.Name)
		}
	}
	// m3 was in the middle of its cycle, m0's Unreserve comes late.
	if _, refusal := s.Take(pods[3], releases[3].Ticket, releases[3].Node.ID); refusal == nil {
		t.Error("a place that was taken back was taken")
	}
	turn := s.Step()
	if len(turn.Activate) != 4 || s.held() != 4 || len(turn.Stop) != 0 {
		t.Fatalf("planned anew: %d activated, %d held, %v stopped twice", len(turn.Activate), s.held(), turn.Stop)
	}
	if _, _, ok := s.Reserved(pods[3], releases[3].Ticket); ok {
		t.Error("a member passed Permit on an old plan")
	}
	if s.Confirm(pods[3], releases[3].Ticket) {
		t.Error("a Binding may be written by an old plan")
	}
	if waiting := s.Failed(pods[0], releases[0].Ticket, "late"); waiting != nil || s.held() != 4 {
		t.Errorf("an old failure undid the new plan: %v, %d held", waiting, s.held())
	}
}

// TestBindingFails: once all are at Permit each stands for itself, since others'
// Bindings are under way. The one that failed keeps its place, so that no other pod
// leaves the gang in part, and tries again there after a pause; not for ever.
func TestBindingFails(t *testing.T) {
	s := newSetup(t, 4)
	pods, releases := s.planned("m", 4, 8)
	for i, p := range pods {
		ready, others, ok := s.Reserved(p, releases[i].Ticket)
		if ready != (i == 3) || len(others) != map[bool]int{true: 3}[ready] || !ok {
			t.Fatalf("member %d: ready %v, others %v, ok %v", i, ready, others, ok)
		}
	}
	for _, i := range []int{0, 2, 3} {
		s.bind(pods[i], releases[i])
	}
	other := s.member("other", "", 0, 8)
	s.add(other)
	s.Step()
	if s.gate.Released(pods[0]) || s.gate.Released(pods[2]) || s.gate.Released(pods[3]) {
		t.Fatal("bound pods are released")
	}
	last, tries := releases[1], 0
	for ; tries < 100; tries++ {
		if waiting := s.Failed(pods[1], last.Ticket, "conflict"); waiting != nil {
			t.Errorf("%v were told to stop, and they are bound", waiting)
		}
		if s.held() == 3 {
			break
		}
		if turn := s.Step(); len(turn.Activate) > 0 || !s.gate.Waits(pods[1]) {
			t.Fatalf("try %d: tried again without a pause", tries)
		}
		if turn := s.after(time.Second); len(turn.Activate) != 1 || turn.Activate[0].Name != "m1" {
			t.Fatalf("try %d: not tried again: %+v", tries, turn)
		}
		next := s.release(pods[1])
		if next.Ticket == last.Ticket || next.Node.ID != last.Node.ID || s.held() != 4 {
			t.Fatalf("got %+v, %d held: it lost its place", next, s.held())
		}
		if _, refusal := s.Take(pods[1], last.Ticket, last.Node.ID); refusal == nil {
			t.Fatal("an old cycle goes on")
		}
		if _, refusal := s.Take(pods[1], next.Ticket, next.Node.ID); refusal != nil {
			t.Fatal("it may not try again")
		}
		if ready, _, ok := s.Reserved(pods[1], next.Ticket); !ready || !ok {
			t.Fatal("it waits for members that are bound")
		}
		last = next
	}
	if tries != 8 || s.gate.Released(pods[1]) {
		t.Errorf("%d tries: a place is kept for ever, or not long enough", tries)
	}
}

// TestMemberDeleted: a member that is deleted while others wait for it ends their
// wait, and nothing is held.
func TestMemberDeleted(t *testing.T) {
	s := newSetup(t, 4)
	pods, releases := s.planned("m", 4, 8)
	for i := range 3 {
		s.Reserved(pods[i], releases[i].Ticket)
	}
	s.deletePod("m3")
	turn := s.Step()
	slices.Sort(turn.Stop)
	if want := []model.HolderID{"uid-m0", "uid-m1", "uid-m2"}; !slices.Equal(turn.Stop, want) {
		t.Errorf("told to stop: %v, want %v", turn.Stop, want)
	}
	if n := s.held(); n != 0 || len(turn.Activate) != 0 {
		t.Errorf("%d held, %d activated", n, len(turn.Activate))
	}
	notices := s.told()
	if len(notices) != 3 || notices[0].Reason != "WaitingForMembers" || notices[0].Text != "waits for members: 3 of 4 exist" || !notices[0].Event {
		t.Errorf("told %+v", notices)
	}
}

// TestBatchKeptOut: a batch that another plugin keeps out of kube-scheduler's queue
// does not hold devices for ever.
func TestBatchKeptOut(t *testing.T) {
	s := newSetup(t, 4)
	s.planned("m", 4, 8)
	if turn := s.after(BatchTimeout + time.Second); len(turn.Stop) != 4 || s.held() != 0 {
		t.Errorf("%d told to stop, %d held", len(turn.Stop), s.held())
	}
}

// TestBoundByOthers: a member that another scheduler binds meanwhile keeps what it has;
// the others are planned beside it.
func TestBoundByOthers(t *testing.T) {
	s := newSetup(t, 4)
	pods, releases := s.planned("m", 4, 8)
	s.Reserved(pods[0], releases[0].Ticket)
	s.bind(pods[2], releases[2])
	turn := s.Step()
	if len(turn.Activate) != 3 || s.held() != 4 {
		t.Errorf("%d activated, %d held", len(turn.Activate), s.held())
	}
	if slices.Sort(turn.Stop); !slices.Contains(turn.Stop, "uid-m0") {
		t.Errorf("told to stop: %v", turn.Stop)
	}
}

// TestLostPod: a released pod that does not come to its scheduling cycle is activated
// again, and then queued again; one whose cycle began is left alone.
func TestLostPod(t *testing.T) {
	s := newSetup(t, 2)
	lost, seen := s.member("lost", "", 0, 8), s.member("seen", "", 0, 8)
	s.add(lost, seen)
	s.Step()
	s.Begin(seen)
	began := s.now
	for s.now.Sub(began) < time.Minute {
		turn := s.after(s.nextIn())
		for _, p := range append(turn.Activate, turn.Requeue...) {
			if p.Name == "seen" {
				t.Fatal("its cycle began")
			}
		}
		if len(turn.Requeue) > 0 {
			if d := s.now.Sub(began); d > 10*time.Second || turn.Requeue[0].Name != "lost" {
				t.Errorf("%s queued again after %s", turn.Requeue[0].Name, d)
			}
			return
		}
	}
	t.Error("never queued again")
}

// nextIn is when the loop would step again by itself.
func (s *setup) nextIn() (d time.Duration) {
	s.do("test", func(_ *driver, now time.Time) { d = s.driver.next(now, false) })
	return d
}

// TestStepTakesAll: what a step releases is in its own turn, and needs no further step.
func TestStepTakesAll(t *testing.T) {
	s := newSetup(t, 1)
	s.add(s.member("a", "", 0, 1))
	for len(s.Kicked()) > 0 {
		<-s.Kicked()
	}
	if turn := s.Step(); len(turn.Activate) != 1 {
		t.Fatalf("%+v", turn)
	}
	if len(s.Kicked()) > 0 {
		t.Error("a step asks for another one to carry out what it returned")
	}
}
