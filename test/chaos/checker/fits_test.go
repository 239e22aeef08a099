package checker

import (
	"fmt"
	"testing"
	"time"
)

// TestKeep: what is kept fits wherever each pod is put.
func TestKeep(t *testing.T) {
	f := twoNodes() // n-0 and n-1 with two devices each, t4 with one
	unit := func(name, queue string, asks ...Ask) Unit {
		return Unit{Name: name, Queue: queue, Minimum: len(asks), Pods: asks}
	}
	tests := []struct {
		name  string
		units []Unit
		want  int
	}{
		{"as many singles as devices", []Unit{unit("g", "", Ask{Whole: 1}, Ask{Whole: 1}, Ask{Whole: 1}, Ask{Whole: 1}, Ask{Whole: 1})}, 1},
		{"one single too many", []Unit{unit("g", "", Ask{Whole: 1}, Ask{Whole: 1}, Ask{Whole: 1}, Ask{Whole: 1}, Ask{Whole: 1}, Ask{Whole: 1})}, 0},
		// Two singles can be on different nodes, and then no node has two free.
		{"a pair beside one single", []Unit{unit("pair", "", Ask{Whole: 2}), unit("s", "", Ask{Whole: 1})}, 2},
		{"a pair beside two singles", []Unit{unit("pair", "", Ask{Whole: 2}), unit("s", "", Ask{Whole: 1}), unit("t", "", Ask{ShareMiB: 1})}, 2},
		{"more than any node has", []Unit{unit("x", "", Ask{Whole: 3})}, 0},
		{"a profile no device has", []Unit{unit("x", "", Ask{Profile: "2g.20gb"})}, 0},
		{"a share larger than any device", []Unit{unit("x", "", Ask{ShareMiB: 80001})}, 0},
		{"more than one pool has", []Unit{unit("x", "", Ask{Whole: 1, Pool: "old"}), unit("y", "", Ask{Whole: 1, Pool: "old"})}, 1},
		{"a limit", []Unit{unit("a", "a", Ask{Whole: 1}), unit("b", "a", Ask{Whole: 1}), unit("c", "a", Ask{Whole: 1})}, 2},
		{"the limit above", []Unit{unit("a", "a", Ask{Whole: 2}), unit("b", "b", Ask{Whole: 1}), unit("c", "b", Ask{Whole: 1})}, 2},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := f.Keep(tt.units); len(got) != tt.want {
				t.Errorf("kept %d of %d units: %+v", len(got), len(tt.units), got)
			}
		})
	}
}

func TestOverdue(t *testing.T) {
	s := newStory(t)
	units := []Unit{
		{Name: "bound", Minimum: 1, Pods: []Ask{{Whole: 1}}},
		{Name: "waits", Minimum: 1, Pods: []Ask{{Whole: 1}}},
		{Name: "job", Minimum: 2, Pods: []Ask{{Whole: 1}, {Whole: 1}}}, // never made its pods
		{Name: "over", Minimum: 1, Pods: []Ask{{Whole: 1}}},
	}
	s.see(whole("bound", "n-0", 0), false)
	s.see(waiting(whole("waits", "n-0", 1)), false)
	s.after(time.Minute)
	late := s.Overdue(s.now, units, map[string]bool{"over": true})
	if len(late) != 2 {
		t.Fatalf("late: %q", late)
	}
	s.ReportOverdue(s.now, late)
	b := s.wants(NotBound, NotBound)
	if len(b[0].History) == 0 {
		t.Error("no history of the pod that waits")
	}
	if free, held := s.FreeDevices("n-0"); fmt.Sprint(free, held) != "[1] [0]" {
		t.Errorf("free %v, held %v", free, held)
	}
}
