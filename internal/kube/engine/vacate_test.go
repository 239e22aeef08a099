package engine

import (
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
)

// sharers are bound pods that use one claim for all GPUs of the node.
func (s *claimSetup) sharers(priorities map[string]int32, names ...string) (out []*v1.Pod) {
	s.t.Helper()
	s.claim("c", 8, nil)
	var refs []resourceapi.ResourceClaimConsumerReference
	for _, name := range names {
		p := s.user(name, "c")
		p.Spec.NodeName = "n0"
		priority := priorities[name]
		p.Spec.Priority = &priority
		refs = append(refs, resourceapi.ResourceClaimConsumerReference{Resource: "pods", Name: p.Name, UID: p.UID})
		out = append(out, p)
		s.add(p)
	}
	s.claim("c", 8, func(c *resourceapi.ResourceClaim) {
		allocate(nil, 0xff)(c)
		c.Status.ReservedFor = refs
	})
	s.Sync()
	return out
}

// asksAll is a pod of a priority that asks for all GPUs.
func (s *claimSetup) asksAll(priority int32) *v1.Pod {
	p := s.member("high", "", 0, 8)
	p.Spec.Priority = &priority
	s.add(p)
	return p
}

// evicted steps until pods are told to go, or for a while.
func (s *claimSetup) evicted() (names string) {
	for range 20 {
		turn := s.after(time.Second)
		for _, v := range turn.Evict {
			names += v.Pod.Name + " "
		}
		if names != "" {
			break
		}
	}
	return strings.TrimSpace(names)
}

// TestSharersGoTogether: pods that share a claim are evicted together, and no other pod
// starts with the claim until it is given back, so that who they were evicted for gets it.
func TestSharersGoTogether(t *testing.T) {
	s := newClaimSetup(t)
	s.sharers(map[string]int32{"a": -5, "b": 3}, "a", "b")
	high := s.asksAll(10)
	if got := s.evicted(); got != "a b" {
		t.Fatalf("evicted: %q", got)
	}
	late := s.user("late", "c") // it would need no GPU of its own
	s.add(late)
	s.deletePod("a")
	s.after(time.Second)
	if s.gate.Released(late) || s.gate.Released(high) {
		t.Fatalf("while the claim is given back: late %v, high %v", s.gate.Released(late), s.gate.Released(high))
	}
	if _, err := s.reader.RequestIn(late, s.reader.Profile(late.Spec.SchedulerName)); err == nil || !strings.Contains(err.Error(), "ResourceClaim default/c is given back") {
		t.Errorf("it is told %v", err)
	}
	s.deletePod("b")
	s.claim("c", 8, nil)
	s.eventually("the high one starts", func() bool { s.after(time.Second); return s.gate.Released(high) })
	if s.gate.Released(late) {
		t.Error("both have the GPUs")
	}
}

// TestSharersPriority: a unit is evicted only for who outranks each of its pods, whichever of
// them is counted for the claim; sharing alone makes nobody safe.
func TestSharersPriority(t *testing.T) {
	for name, c := range map[string]struct {
		a, b int32
		want string
	}{
		"both below":     {0, 0, "a b"},
		"first above":    {20, 0, ""},
		"second above":   {0, 20, ""},
		"second equal":   {0, 10, ""},
		"both far below": {-100, -100, "a b"},
	} {
		s := newClaimSetup(t)
		s.sharers(map[string]int32{"a": c.a, "b": c.b}, "a", "b")
		s.asksAll(10)
		if got := s.evicted(); got != c.want {
			t.Errorf("%s: evicted %q, want %q", name, got, c.want)
		}
	}
	// One in a protected namespace does not go; claims do not reach over namespaces, so it
	// is the system's own priority that says so.
	s := newClaimSetup(t)
	s.sharers(map[string]int32{"a": 0, "b": 2_000_000_000}, "a", "b")
	s.asksAll(10)
	if got := s.evicted(); got != "" {
		t.Errorf("evicted %q with a pod of the system", got)
	}
}

// TestSharersStay: when one of them may not be evicted, pods may start with the claim again.
func TestSharersStay(t *testing.T) {
	s := newClaimSetup(t)
	pods := s.sharers(nil, "a", "b")
	s.asksAll(10)
	if got := s.evicted(); got != "a b" {
		t.Fatalf("evicted: %q", got)
	}
	late := s.user("late", "c")
	s.add(late)
	if s.after(time.Second); s.gate.Released(late) {
		t.Fatal("it starts while the others leave")
	}
	s.EvictionRefused(Victim{Pod: pods[1]})
	s.eventually("it starts", func() bool { s.after(time.Second); return s.gate.Released(late) })
}
