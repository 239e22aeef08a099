package arbiter_test

import (
	"fmt"
	"testing"

	"github.com/tangram-dev/tangram/core/arbiter"
)

const (
	gpu arbiter.Resource = "nvidia.com/gpu"
	cpu arbiter.Resource = "cpu"
	mem arbiter.Resource = "memory"
)

type amounts = map[arbiter.Resource]int64

func newTree(t testing.TB, total amounts, queues ...arbiter.Queue) *arbiter.Tree {
	t.Helper()
	tree, err := arbiter.NewTree(queues, total)
	if err != nil {
		t.Fatal(err)
	}
	return tree
}

// submit adds a job that asks for the demand.
func submit(t testing.TB, tree *arbiter.Tree, j arbiter.Job, demand amounts) {
	t.Helper()
	j.Demand = arbiter.NewAmounts(demand)
	if err := tree.Submit(j); err != nil {
		t.Fatal(err)
	}
}

// submitMany adds equal jobs, IDs counting up.
func submitMany(t testing.TB, tree *arbiter.Tree, queue string, n int, demand amounts) {
	t.Helper()
	for i := range n {
		submit(t, tree, arbiter.Job{ID: arbiter.JobID(fmt.Sprintf("%s-%04d", queue, i)), Queue: queue, Submitted: int64(i)}, demand)
	}
}

// placeAll places whatever is offered: the cluster is one big machine.
func placeAll(tree *arbiter.Tree, now int64) []arbiter.JobID {
	var order []arbiter.JobID
	for o := range tree.Candidates(now) {
		o.Place(nil)
		order = append(order, o.Job.ID)
	}
	return order
}

// offers lists what is offered while nothing fits, each job on its own.
func offers(tree *arbiter.Tree, now int64) []arbiter.JobID {
	var order []arbiter.JobID
	for o := range tree.Candidates(now) {
		order = append(order, o.Job.ID)
	}
	return order
}

func used(tree *arbiter.Tree, queue string, r arbiter.Resource) int64 {
	return tree.Used(queue).Map()[r]
}

func share(tree *arbiter.Tree, queue string, r arbiter.Resource) int64 {
	return tree.Share(queue).Map()[r]
}
