package score_test

import (
	"testing"

	"github.com/tangram-dev/tangram/core/score"
)

// TestEveryObjectiveIsListed: an objective has a name of its own and a basis. What the
// basis promises is held by the planner's TestNothingBeatsTheBound.
func TestEveryObjectiveIsListed(t *testing.T) {
	seen := map[string]bool{}
	for o := range score.NumObjectives {
		if o.String() == "" || seen[o.String()] || o.Basis() == 0 {
			t.Errorf("objective %d: name %q, basis %d: it must be listed in objectives", o, o, o.Basis())
		}
		seen[o.String()] = true
	}
	if got, want := score.DefaultWeights(), (score.Weights{25, 20, 20, 15, 10, 10, 5, 5, 5, 5}); got != want {
		t.Errorf("default weights are %v, want %v", got, want)
	}
}
