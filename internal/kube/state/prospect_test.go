package state

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/tangram-dev/tangram/api/names"
	"github.com/tangram-dev/tangram/core/model"
)

// TestProspect: who waits is told which nodes are kept for it, and when it is
// expected to start.
func TestProspect(t *testing.T) {
	s := newGangSetup(t, 3)
	runs := member("runs", "short", 1, 8)
	runs.Annotations = map[string]string{names.AnnotationRuntime: "1h"}
	s.addPod(runs)
	s.tracked(1)
	if turn := s.Dispatch(time.Now()); len(turn.Wake) != 1 {
		t.Fatalf("%d woken", len(turn.Wake))
	}
	s.bindTo(runs, s.ReleaseOf(runs))
	s.eventually("bound", func() bool { return s.ReleaseOf(runs) == nil })
	for i := range 3 {
		s.addPod(member(fmt.Sprintf("w%d", i), "wide", 3, 8))
	}
	s.tracked(4)
	text := ""
	s.eventually("told", func() bool {
		if told := s.Dispatch(time.Now()).Conditions; len(told) > 0 {
			text = told[0].Text
		}
		return text != ""
	})
	want := "; nodes n0, n1, n2 kept for it, start expected by " + time.Now().Add(time.Hour).UTC().Format("2006-01-02 15:")
	if !strings.Contains(text, "waits for capacity: needs 3 members, 2 can be placed") || !strings.Contains(text, want) {
		t.Errorf("told %q, want %q", text, want)
	}
}

func TestSpellNodes(t *testing.T) {
	for want, nodes := range map[string][]model.NodeID{
		"node a": {"a"}, "nodes a, b": {"a", "b"}, "nodes a, b, c and 2 more": {"a", "b", "c", "d", "e"},
	} {
		if got := spellNodes(nodes); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
