package arbiter_test

import (
	"testing"
	"time"

	"github.com/tangram-dev/tangram/core/arbiter"
)

// TestMinRuntime: a queue's own time counts, else that of the nearest queue above it.
func TestMinRuntime(t *testing.T) {
	tree, err := arbiter.NewTree([]arbiter.Queue{
		{Name: "org", MinRuntime: time.Hour}, {Name: "team", Parent: "org"}, {Name: "own", Parent: "org", MinRuntime: time.Minute}, {Name: "other"},
	}, nil)
	if err != nil {
		t.Fatal(err)
	}
	for queue, want := range map[string]time.Duration{"team": time.Hour, "own": time.Minute, "other": 0, "nowhere": 0} {
		if got := tree.MinRuntime(queue); got != want {
			t.Errorf("%s: %s, want %s", queue, got, want)
		}
	}
}
