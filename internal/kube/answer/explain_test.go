package answer

import (
	"strings"
	"testing"

	coreanswer "github.com/tangram-dev/tangram/core/answer"
	"github.com/tangram-dev/tangram/core/explain"
	"github.com/tangram-dev/tangram/core/planner"
	"github.com/tangram-dev/tangram/core/score"
)

// TestExplainNote: that other nodes score higher is explained, and nothing is said where none
// does, as far as is shown.
func TestExplainNote(t *testing.T) {
	merits := func(own, other int) *coreanswer.Merits {
		return &coreanswer.Merits{Rating: planner.Rating{Total: own * score.Scale / 100}, Others: []coreanswer.RatedNode{{Node: "n1", Rating: planner.Rating{Total: other * score.Scale / 100}}}}
	}
	sick := merits(50, 60)
	sick.Refusal = &explain.Refusal{Code: explain.Cordoned}
	for _, c := range []struct {
		merits *coreanswer.Merits
		gang   bool
		want   string
	}{
		{merits(60, 50), true, ""}, {merits(50, 50), true, ""}, {&coreanswer.Merits{}, true, ""},
		{merits(50, 60), true, "Other nodes score higher for this pod alone: a gang is placed as a whole"},
		{merits(50, 60), false, "Other nodes score higher now: pods have come or gone"},
		{sick, false, "Its node would not take it now: it has been cordoned."},
	} {
		if got := note(c.merits, c.gang); !strings.HasPrefix(got, c.want) || (got == "") != (c.want == "") {
			t.Errorf("%q, want %q", got, c.want)
		}
	}
}
