package bench

import (
	"testing"
)

func TestRingTakesTurnsAndSkipsFullNodes(t *testing.T) {
	r := &ring{nodes: []string{"a", "b", "c"}, free: map[string]int{"a": 2, "b": 1, "c": 0}}
	for _, want := range []string{"a", "b", "a", ""} {
		got, ok := r.take(1)
		if got != want || ok != (want != "") {
			t.Fatalf("take(1) = %q, %v, want %q", got, ok, want)
		}
	}
	r.give("c", 2)
	if got, _ := r.take(2); got != "c" {
		t.Errorf("after giving back c: %q", got)
	}
	if got, ok := r.take(1); ok {
		t.Errorf("an empty ring gave %q", got)
	}
}
