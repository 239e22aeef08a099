package engine

import (
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"

	"github.com/tangram-dev/tangram/api/names"
	"github.com/tangram-dev/tangram/core/engine"
)

// failed is a pod whose start failed after its claim was allocated, reserved for some.
func (s *claimSetup) failed(name string, reserved ...*v1.Pod) *v1.Pod {
	s.t.Helper()
	s.claim("c", 2, nil)
	p := s.user(name, "c")
	s.add(p)
	set := s.placed(p)
	r := s.release(p)
	s.claim("c", 2, reservedFor(set, append(reserved, p)...))
	s.Sync()
	s.claim("c", 2, reservedFor(set, reserved...)) // its reservation is taken back, and then it fails
	s.Failed(p, r.Ticket, "the API server was away")
	return p
}

// reservedFor allocates a claim to cards, reserved for some pods.
func reservedFor(cards interface{ Count() int }, pods ...*v1.Pod) func(*resourceapi.ResourceClaim) {
	return func(c *resourceapi.ResourceClaim) {
		allocate(nil, 0b11)(c)
		for _, p := range pods {
			c.Status.ReservedFor = append(c.Status.ReservedFor, resourceapi.ResourceClaimConsumerReference{Resource: "pods", Name: p.Name, UID: p.UID})
		}
		if len(c.Status.Allocation.Devices.Results) != cards.Count() {
			panic("planned other cards than this test writes")
		}
	}
}

// TestGiveBack: an allocation that a failed start left behind is given back once nobody can
// be using it, and the pod is planned anew.
func TestGiveBack(t *testing.T) {
	s := newClaimSetup(t)
	p := s.failed("p")
	turn := s.Step()
	if len(turn.GiveBack) != 1 || turn.GiveBack[0].Key() != "default/c" || len(turn.GiveBack[0].Pods) != 1 {
		t.Fatalf("to be given back: %+v", turn.GiveBack)
	}
	if turn = s.Step(); len(turn.GiveBack) != 0 {
		t.Fatal("given back twice at once")
	}
	s.GaveBack("default/c", true)
	if turn = s.after(10*time.Second - time.Second); len(turn.GiveBack) != 0 {
		t.Fatal("tried again at once")
	}
	if s.gate.Released(p) { // pinned to where its claim is, meanwhile: then it is in use
		r := s.release(p)
		s.Failed(p, r.Ticket, "again")
	}
	if turn = s.after(time.Second); len(turn.GiveBack) != 1 {
		t.Fatal("not tried again")
	}
	s.claim("c", 2, nil)
	s.GaveBack("default/c", false)
	s.eventually("the pod has a place again", func() bool { s.after(time.Second); return s.gate.Released(p) })
	if _, set := s.heldBy(p); set.Count() != 2 || s.free() != 6 || !s.driver.claims.Next().IsZero() {
		t.Errorf("holds %b, %d free, next %s", set, s.free(), s.driver.claims.Next())
	}
	if _, err := s.Check(); err != nil {
		t.Error(err)
	}
}

// TestGiveBackNot: what may be in use is not given back.
func TestGiveBackNot(t *testing.T) {
	nothing := func(s *claimSetup, d time.Duration, why string) {
		t.Helper()
		if turn := s.after(d); len(turn.GiveBack) != 0 {
			t.Errorf("given back, though %s", why)
		}
	}
	s := newClaimSetup(t)
	foreign := s.user("foreign", "c")
	foreign.Spec.SchedulerName = "default-scheduler"
	s.add(foreign)
	s.claim("c", 2, reservedFor(two{}))
	nothing(s, time.Minute, "another scheduler's pod waits with it")

	s = newClaimSetup(t)
	bound := s.user("bound", "c")
	bound.Spec.NodeName = "n0"
	s.add(bound)
	s.claim("c", 2, reservedFor(two{}))
	nothing(s, time.Minute, "a pod that names it is bound")

	s = newClaimSetup(t)
	gone := s.user("gone", "c")
	s.claim("c", 2, reservedFor(two{}, gone))
	nothing(s, time.Minute, "kube-controller-manager takes back what is reserved for a pod that is gone")

	s = newClaimSetup(t)
	s.claim("c", 2, func(c *resourceapi.ResourceClaim) {
		reservedFor(two{})(c)
		c.Status.Allocation.Devices.Results[0].Driver, c.Status.Allocation.Devices.Results[1].Driver = "nic", "nic"
	})
	nothing(s, time.Minute, "it has no GPU and nobody waits with it")

	s = newClaimSetup(t)
	s.claim("c", 2, reservedFor(two{}))
	if turn := s.Step(); len(turn.GiveBack) != 1 {
		t.Error("GPUs that nobody can ever use are not given back")
	}
}

type two struct{}

func (two) Count() int { return 2 }

// TestGiveBackAfterCrash: a scheduler ended between the write of the claim and the Binding.
// The next one gives the claim back when no Binding can be on its way any more; the time
// counts from when it leads.
func TestGiveBackAfterCrash(t *testing.T) {
	s := newClaimSetup(t)
	full := s.member("full", "", 0, 6)
	full.Spec.NodeName = "n0"
	s.add(full)
	p := s.user("p", "c")
	// Nothing may keep it from its node, or it starts there again.
	p.Spec.NodeSelector = map[string]string{"no": "node"}
	s.add(p)
	s.claim("c", 2, reservedFor(two{}, p))
	s.now = s.now.Add(time.Hour)
	s.Sync() // as a standby
	if turn := s.Step(); len(turn.GiveBack) != 0 {
		t.Error("given back at once")
	}
	if turn := s.after(15*time.Second - time.Second); len(turn.GiveBack) != 0 {
		t.Error("given back early")
	}
	if turn := s.after(time.Second); len(turn.GiveBack) != 1 {
		t.Error("not given back")
	}
}

// TestRetryWithClaims: a member of a gang that is being bound fails after its claim was
// allocated, or before, and tries again. It keeps its place and what was planned for it:
// the claim does not take the cards for itself meanwhile, and is not given back.
func TestRetryWithClaims(t *testing.T) {
	for name, written := range map[string]bool{"claim written": true, "claim not written": false} {
		t.Run(name, func(t *testing.T) {
			s := newClaimSetup(t)
			var pods []*v1.Pod
			for _, name := range []string{"a", "b"} {
				s.claim(name, 2, nil)
				p := s.user(name, name)
				p.Labels = map[string]string{names.LabelGang: "g", names.LabelGangSize: "2"}
				pods = append(pods, p)
				s.add(p)
			}
			s.placed(pods[0])
			var tickets []engine.Release
			for _, p := range pods {
				tickets = append(tickets, s.release(p))
				s.Reserved(p, tickets[len(tickets)-1].Ticket)
			}
			_, set := s.heldBy(pods[0])
			if written {
				s.claim("a", 2, allocate(pods[0], set))
				s.Sync()
				s.claim("a", 2, allocate(nil, set))
			}
			s.Failed(pods[0], tickets[0].Ticket, "the API server was away")
			_, other := s.heldBy(pods[1])
			s.claim("b", 2, allocate(pods[1], other))
			s.edit("b", func(p *v1.Pod) { p.Spec.NodeName = "n0" })
			if turn := s.Step(); len(turn.GiveBack) != 0 || s.gate.Released(pods[0]) {
				t.Fatalf("while it pauses: to be given back %d, released %v", len(turn.GiveBack), s.gate.Released(pods[0]))
			}
			if _, now := s.heldBy(pods[0]); now != set || s.free() != 4 {
				t.Fatalf("while it pauses it holds %b, planned %b, %d free", now, set, s.free())
			}
			s.eventually("it is let go again", func() bool { s.after(time.Second); return s.gate.Released(pods[0]) })
			c, ok := s.Begin(pods[0])
			if !ok || !c.ByClaim() || c.Grant.Set != set || !s.Confirm(pods[0], c.Ticket) {
				t.Fatalf("begins %v, by claim %v, grant %b, planned %b", ok, c.ByClaim(), c.Grant.Set, set)
			}
			s.claim("a", 2, allocate(pods[0], set))
			s.edit("a", func(p *v1.Pod) { p.Spec.NodeName = "n0" })
			s.Step()
			if _, now := s.heldBy(pods[0]); now != set || s.free() != 4 {
				t.Errorf("bound, it holds %b, planned %b, %d free", now, set, s.free())
			}
			if _, err := s.Check(); err != nil {
				t.Error(err)
			}
		})
	}
}
