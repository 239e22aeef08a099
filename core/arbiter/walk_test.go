package arbiter_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/tangram-dev/tangram/core/arbiter"
)

// Where there is room for all, the order of those that wait (which walks the queues' lists)
// is that of offers (which merges buckets); and of jobs that are alike Waiting has the first.
func TestWalkIsTheMerge(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var queues []arbiter.Queue
		for i := range rapid.IntRange(1, 3).Draw(t, "queues") {
			queues = append(queues, arbiter.Queue{
				Name: fmt.Sprint("q", i), Order: rapid.SampledFrom(arbiter.Policies()).Draw(t, "policy"),
				Aging: time.Duration(rapid.SampledFrom([]int{0, 5, 30}).Draw(t, "aging")), Closed: rapid.IntRange(0, 9).Draw(t, "closed") == 0,
			})
		}
		tree, err := arbiter.NewTree(queues, amounts{gpu: 1 << 30})
		if err != nil {
			t.Fatal(err)
		}
		alike := map[arbiter.JobID]string{}
		for i := range rapid.IntRange(0, 600).Draw(t, "jobs") { // more than a chunk of a list
			j := arbiter.Job{
				ID: arbiter.JobID(fmt.Sprintf("j%03d", i)), Queue: fmt.Sprint("q", rapid.IntRange(0, len(queues)-1).Draw(t, "queue")),
				Namespace: fmt.Sprint("n", rapid.IntRange(0, 1).Draw(t, "namespace")), User: fmt.Sprint("u", rapid.IntRange(0, 2).Draw(t, "user")),
				Submitted: int64(rapid.IntRange(0, 40).Draw(t, "submitted")), Priority: int32(rapid.IntRange(0, 2).Draw(t, "priority")),
				ExpectedRuntime: time.Duration(rapid.IntRange(0, 3).Draw(t, "runtime")),
			}
			size := int64(rapid.IntRange(1, 3).Draw(t, "size"))
			j.Demand = arbiter.NewAmounts(amounts{gpu: size})
			if err := tree.Submit(j); err != nil {
				t.Fatal(err)
			}
			alike[j.ID] = fmt.Sprint(j.Queue, j.Namespace, size)
			if queues[slices.IndexFunc(queues, func(q arbiter.Queue) bool { return q.Name == j.Queue })].Order == arbiter.RoundRobin {
				alike[j.ID] += j.User
			}
			if rapid.IntRange(0, 5).Draw(t, "leaves") == 0 {
				tree.Remove(j.ID)
				delete(alike, j.ID)
			}
		}
		var want, order []arbiter.JobID
		for o := range tree.Candidates(40) {
			want = append(want, o.Job.ID)
		}
		for j := range tree.Order(40) {
			order = append(order, j.ID)
		}
		if !slices.Equal(order, want) {
			t.Fatalf("order %v\noffers %v", order, want)
		}
		if len(queues) > 1 {
			return // which queue is next depends on its next job
		}
		seen := map[string]bool{}
		first := slices.DeleteFunc(want, func(id arbiter.JobID) bool {
			was := seen[alike[id]]
			seen[alike[id]] = true
			return was
		})
		var waiting []arbiter.JobID
		for j := range tree.Waiting(40) {
			waiting = append(waiting, j.ID)
		}
		if queues[0].Order != arbiter.RoundRobin && !slices.Equal(waiting, first) {
			t.Fatalf("waiting %v\nfirst of their kind %v", waiting, first)
		}
	})
}

// BenchmarkWaiting is what the first 256 of 5,000 waiting jobs cost, each of another kind, and
// all in order.
func BenchmarkWaiting(b *testing.B) {
	tree := newTree(b, amounts{gpu: 8000}, arbiter.Queue{Name: "q", Order: arbiter.Priority, Aging: time.Hour})
	for i := range 5000 {
		submit(b, tree, arbiter.Job{ID: arbiter.JobID(fmt.Sprintf("j%04d", i)), Queue: "q", Class: fmt.Sprint(i), Submitted: int64(i)}, amounts{gpu: 1})
	}
	b.Run("first", func(b *testing.B) {
		for b.Loop() {
			n := 0
			for range tree.Waiting(5000) {
				if n++; n == 256 {
					break
				}
			}
		}
	})
	b.Run("all", func(b *testing.B) {
		for b.Loop() {
			for range tree.Order(5000) {
			}
		}
	})
}
