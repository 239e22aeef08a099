package engine

import (
	"fmt"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/tangram-dev/tangram/api/names"
	"github.com/tangram-dev/tangram/internal/kube/report"
)

// TestBadMember: a member whose request is invalid is told so, naming the field; its
// gang waits for it.
func TestBadMember(t *testing.T) {
	s := newSetup(t, 1)
	p := s.member("a", "g", 2, 1)
	p.Annotations = map[string]string{names.AnnotationTopology: "nonsense"}
	s.add(p, s.member("b", "g", 2, 1))
	if !s.gate.Waits(p) {
		t.Error("it may be scheduled")
	}
	said := map[string]string{}
	for range 10 {
		turn := s.after(time.Second)
		for _, l := range turn.Lookups {
			s.Succeeded(l, nil, true)
		}
		for _, n := range turn.Notices {
			said[n.Pod.Name] = n.Reason + ": " + n.Text
		}
	}
	if !strings.HasPrefix(said["a"], "Invalid: ") || !strings.Contains(said["a"], names.AnnotationTopology) {
		t.Errorf("told %q", said["a"])
	}
	if said["b"] != "WaitingForMembers: waits for members: 1 of 2 exist" {
		t.Errorf("told %q", said["b"])
	}
	if s.held() != 0 {
		t.Error("a part of the gang started")
	}
}

// TestContradiction: members that contradict each other are refused by the field's name
// (hole H4).
func TestContradiction(t *testing.T) {
	for name, tt := range map[string]struct {
		change func(*v1.Pod)
		want   string
	}{
		"queues": {func(p *v1.Pod) { p.Labels[names.LabelQueue] = "x" }, `members of one gang contradict each other: metadata.labels[tangram.dev/queue]: "default" of pod default/a, "x" of pod default/b`},
		"sizes":  {func(p *v1.Pod) { p.Labels[names.LabelGangSize] = "3" }, "members of one gang contradict each other: metadata.labels[tangram.dev/gang-size]: 2 of pod default/a, 3 of pod default/b"},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSetup(t, 2)
			b := s.member("b", "g", 2, 8)
			tt.change(b)
			s.add(s.member("a", "g", 2, 8), b)
			notices := s.told()
			if len(notices) != 2 || notices[0].Reason != "Invalid" || notices[0].Text != tt.want || s.held() != 0 {
				t.Errorf("%d held, told %+v", s.held(), notices)
			}
		})
	}
}

// TestShown: a gang that waits for capacity is shown to autoscalers, and no longer when
// it waits for members. A condition that says so already is not written again; the event
// is.
func TestShown(t *testing.T) {
	s := newSetup(t, 1)
	for _, name := range []string{"a", "b"} {
		p := s.member(name, "g", 2, 8)
		p.Status.Conditions = []v1.PodCondition{{Type: v1.PodScheduled, Status: v1.ConditionFalse, Reason: v1.PodReasonUnschedulable}}
		s.add(p)
	}
	s.Step()
	turn := s.after(report.Every)
	if got := turn.Notices; len(got) != 2 || got[0].Reason != v1.PodReasonUnschedulable || !got[0].Event || len(turn.Activate) > 0 {
		t.Fatalf("%+v, %d activated; it waits for capacity", got, len(turn.Activate))
	}
	for _, n := range turn.Notices { // as the scheduler does
		s.edit(n.Pod.Name, func(p *v1.Pod) { p.Status.Conditions[0].Message = n.Text })
	}
	if got := s.after(report.Every).Notices; len(got) > 0 {
		t.Errorf("told twice: %+v", got)
	}
	// A condition that was lost, or that an older write undid, is written again, without another
	// event.
	s.edit("b", func(p *v1.Pod) { p.Status.Conditions = nil })
	s.edit("a", func(p *v1.Pod) { p.Status.Conditions[0].Message = "an older word" })
	if got := s.after(report.Every).Notices; len(got) != 2 || got[0].Event || got[1].Event {
		t.Errorf("told %+v", got)
	}
	s.deletePod("b")
	s.Sync()
	for _, l := range s.after(report.Every).Lookups {
		s.Succeeded(l, nil, true)
	}
	got := s.after(report.Every).Notices
	if len(got) != 1 || got[0].Reason != "WaitingForMembers" || !got[0].Event {
		t.Errorf("told %+v", got)
	}
}

// TestProspect: a waiting gang is told how many nodes are kept for it, and when it is
// expected to start. Nodes are not named: not everybody who reads pods may list them.
func TestProspect(t *testing.T) {
	s := newSetup(t, 3)
	s.runs("short", 1, 8, func(p *v1.Pod) { p.Annotations = map[string]string{names.AnnotationRuntime: "1h"} })
	var wide []*v1.Pod
	for i := range 3 {
		wide = append(wide, s.member(fmt.Sprintf("w%d", i), "wide", 3, 8))
	}
	s.add(wide...)
	notices := s.told()
	want := "; 3 nodes kept for it, start expected by 2026-03-01 13:01 UTC"
	if text := notices[0].Text; len(notices) != 3 || !strings.Contains(text, "waits for capacity: needs 3 members, 2 can be placed") || !strings.HasSuffix(text, want) {
		t.Errorf("told %q, want %q", text, want)
	}
}

// TestToldBounded: a step looks for few reasons, and the next ones go on.
func TestToldBounded(t *testing.T) {
	s := newSetup(t, 1)
	const n = 3*tellPerStep + 1
	for i := range n {
		s.add(s.member(fmt.Sprintf("p%03d", i), "", 0, 9))
	}
	s.Step()
	s.now = s.now.Add(report.Every / 20)
	told := map[string]bool{}
	for range 4 {
		turn := s.Step()
		if len(turn.Notices) > tellPerStep {
			t.Fatalf("%d in one step", len(turn.Notices))
		}
		for _, x := range turn.Notices {
			told[x.Pod.Name] = true
		}
		if len(told) < n && turn.Next > time.Millisecond {
			t.Errorf("%d of %d are told, and the next step is due in %s", len(told), n, turn.Next)
		}
	}
	if len(told) != n {
		t.Errorf("%d of %d are told", len(told), n)
	}
}
