package arbiter_test

import (
	"slices"
	"testing"

	"github.com/tangram-dev/tangram/core/arbiter"
)

func ids(tree *arbiter.Tree) (out []arbiter.JobID) {
	for j := range tree.Waiting(100) {
		out = append(out, j.ID)
	}
	return out
}

// Four of ten GPUs are left: the large job waits, the small one behind it may go
// only where order is not strict.
func TestModes(t *testing.T) {
	tree := newTree(t, amounts{gpu: 10}, arbiter.Queue{Name: "a", Order: arbiter.RoundRobin}, arbiter.Queue{Name: "b"},
		arbiter.Queue{Name: "c", Closed: true}, arbiter.Queue{Name: "d", Capability: amounts{gpu: 1}})
	submit(t, tree, arbiter.Job{ID: "runs", Queue: "a"}, amounts{gpu: 6})
	placeAll(tree, 0)
	submit(t, tree, arbiter.Job{ID: "large", Queue: "b", Submitted: 1}, amounts{gpu: 5})
	submit(t, tree, arbiter.Job{ID: "large-too", Queue: "b", Submitted: 2}, amounts{gpu: 5})
	submit(t, tree, arbiter.Job{ID: "small", Queue: "b", Submitted: 3}, amounts{gpu: 1})
	submit(t, tree, arbiter.Job{ID: "other", Queue: "a", Submitted: 4}, amounts{gpu: 7})
	submit(t, tree, arbiter.Job{ID: "closed", Queue: "c", Submitted: 5}, amounts{gpu: 1})
	submit(t, tree, arbiter.Job{ID: "never", Queue: "d", Submitted: 6}, amounts{gpu: 2})
	submit(t, tree, arbiter.Job{ID: "behind", Queue: "d", Submitted: 7}, amounts{gpu: 1})
	var strict []arbiter.JobID
	for o := range tree.InOrder(100) {
		strict = append(strict, o.Job.ID)
	}
	if want := []arbiter.JobID{"behind"}; !slices.Equal(strict, want) {
		t.Errorf("in order: %v, want %v", strict, want)
	}
	if got, want := offers(tree, 100), []arbiter.JobID{"small", "behind"}; !slices.Equal(got, want) {
		t.Errorf("candidates: %v, want %v", got, want)
	}
	if got, want := ids(tree), []arbiter.JobID{"large", "small", "never", "behind", "other"}; !slices.Equal(got, want) {
		t.Errorf("waiting: %v, want %v", got, want)
	}
	if tree.Ever("never") || !tree.Ever("large") {
		t.Error("large may start one day, never may not")
	}
}

// Beside a guarantee of others, half of the cluster is all there is.
func TestEverBesideGuarantees(t *testing.T) {
	tree := newTree(t, amounts{gpu: 4}, arbiter.Queue{Name: "kept", Guarantee: amounts{gpu: 2}}, arbiter.Queue{Name: "a"})
	submit(t, tree, arbiter.Job{ID: "runs", Queue: "a"}, amounts{gpu: 2})
	placeAll(tree, 0)
	submit(t, tree, arbiter.Job{ID: "two", Queue: "a"}, amounts{gpu: 2})
	submit(t, tree, arbiter.Job{ID: "three", Queue: "a"}, amounts{gpu: 3})
	submit(t, tree, arbiter.Job{ID: "own", Queue: "kept"}, amounts{gpu: 4})
	if !tree.Ever("two") || tree.Ever("three") || !tree.Ever("own") {
		t.Error(tree.Ever("two"), tree.Ever("three"), tree.Ever("own"))
	}
}

// A class that has no capacity is not offered again over the same space, only over
// another one, or by passes that look at all.
func TestCandidatesIn(t *testing.T) {
	tree := newTree(t, amounts{gpu: 10}, arbiter.Queue{Name: "a"})
	submit(t, tree, arbiter.Job{ID: "full", Queue: "a", Class: "odd", Submitted: 1}, amounts{gpu: 5})
	submit(t, tree, arbiter.Job{ID: "full-too", Queue: "a", Class: "odd", Submitted: 2}, amounts{gpu: 5})
	submit(t, tree, arbiter.Job{ID: "other", Queue: "a", Class: "even", Submitted: 3}, amounts{gpu: 5})
	offered := func(space uint64) (out []arbiter.JobID) {
		for o := range tree.CandidatesIn(100, space) {
			out = append(out, o.Job.ID)
			if o.Job.Class == "odd" {
				o.NoCapacityYet()
			} else {
				o.NoCapacity() // for this pass
			}
		}
		return out
	}
	for _, step := range []struct {
		space uint64
		want  []arbiter.JobID
	}{
		{1, []arbiter.JobID{"full", "other"}}, {1, []arbiter.JobID{"other"}}, {1, []arbiter.JobID{"other"}},
		{2, []arbiter.JobID{"full", "other"}}, {2, []arbiter.JobID{"other"}},
	} {
		if got := offered(step.space); !slices.Equal(got, step.want) {
			t.Errorf("in space %d: %v, want %v", step.space, got, step.want)
		}
	}
	if got, want := offers(tree, 100), []arbiter.JobID{"full", "full-too", "other"}; !slices.Equal(got, want) {
		t.Errorf("candidates: %v, want %v", got, want)
	}
	if got, want := ids(tree), []arbiter.JobID{"full", "other"}; !slices.Equal(got, want) {
		t.Errorf("waiting: %v, want %v", got, want)
	}
}
