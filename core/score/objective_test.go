package score_test

import (
	"fmt"
	"testing"

	"github.com/tangram-dev/tangram/core/score"
	"github.com/tangram-dev/tangram/test/coretest"
)

// TestEveryObjective: an objective has its row: a name of its own, words, a basis and a
// function. What the basis promises is held by the planner's TestNothingBeatsTheBound.
func TestEveryObjective(t *testing.T) {
	for _, o := range score.Objectives() {
		if fleet := o.Basis() == score.OfFleet; fleet == score.Rated(o) {
			t.Errorf("%s: basis %d, has a function: %v: one OfFleet is computed by the planner, any other by the function in its row", o, o.Basis(), score.Rated(o))
		}
		if got, ok := score.ParseObjective(o.String()); o.String() == "" || !ok || got != o || o.Best() == "" || o.Basis() == 0 {
			t.Errorf("objective %d: name %q parses as %d, best %q, basis %d: its row in objectives is incomplete", o, o, got, o.Best(), o.Basis())
		}
	}
	if _, ok := score.ParseObjective("beauty"); ok {
		t.Error("beauty is no objective")
	}
	if got, want := score.DefaultWeights(), (score.Weights{25, 20, 20, 15, 10, 10, 5, 5, 5, 5}); got != want {
		t.Errorf("default weights are %v, want %v", got, want)
	}
}

// TestObjectivePage: the page about placement has the objectives as the table has them. With
// -update it is written.
func TestObjectivePage(t *testing.T) {
	table := "| objective | default weight | 100 means |\n|---|---|---|\n"
	for _, o := range score.Objectives() {
		table += fmt.Sprintf("| `%s` | %d | %s |\n", o, score.DefaultWeights()[o], o.Best())
	}
	coretest.Block(t, "docs/concepts/placement.md", "objectives", table)
}
