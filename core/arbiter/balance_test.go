package arbiter_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/tangram-dev/tangram/core/arbiter"
)

// overTime keeps queues saturated with jobs that run for a minute to ten, and returns
// what each used on average, in the second half of the time. Sizes of
// jobs are drawn from sizes, by queue.
func overTime(t *testing.T, tree *arbiter.Tree, during time.Duration, sizes map[string][]int64, queues ...string) map[string]float64 {
	t.Helper()
	r := rand.New(rand.NewPCG(uint64(len(queues)), 1))
	ends := map[arbiter.JobID]int64{}
	sum := map[string]float64{}
	next, steps := 0, 0
	const step = int64(10 * time.Second)
	for now := int64(0); now < int64(during); now += step {
		for id, end := range ends {
			if end <= now {
				tree.Remove(id)
				delete(ends, id)
			}
		}
		waiting := map[string]int{}
		for _, s := range tree.Status() {
			waiting[s.Queue] = s.Waiting
		}
		for _, q := range queues {
			for ; waiting[q] < 40; waiting[q]++ {
				next++
				submit(t, tree, arbiter.Job{ID: arbiter.JobID(fmt.Sprintf("%06d", next)), Queue: q, Submitted: int64(next)},
					amounts{gpu: sizes[q][r.IntN(len(sizes[q]))]})
			}
		}
		tree.Elapse(now)
		for _, id := range placeInTurn(tree, now) {
			ends[id] = now + step*(6+r.Int64N(54))
		}
		tree.Elapse(now)
		if now >= int64(during)/2 {
			steps++
			for _, q := range queues {
				sum[q] += float64(used(tree, q, gpu))
			}
		}
	}
	for q := range sum {
		sum[q] /= float64(steps)
	}
	return sum
}

// placeInTurn lets no job pass the one whose turn it is, as if nodes were kept for every
// job.
func placeInTurn(tree *arbiter.Tree, now int64) (out []arbiter.JobID) {
	for {
		var first arbiter.JobID
		for j := range tree.Waiting(now) {
			if tree.Ever(j.ID) {
				first = j.ID
				break
			}
		}
		if first == "" || tree.Why(first).Code != 0 {
			return out
		}
		j, _ := tree.Job(first)
		if err := tree.Charge(j, j.Demand); err != nil {
			panic(err)
		}
		out = append(out, first)
	}
}

// TestBalanceOverTime: over time queues have their shares, at every level of the tree,
// whatever the sizes of their jobs: of many times a share, too.
func TestBalanceOverTime(t *testing.T) {
	tree := newTree(t, amounts{gpu: 60},
		arbiter.Queue{Name: "research"}, arbiter.Queue{Name: "product", Weight: 2},
		arbiter.Queue{Name: "r1", Parent: "research"}, arbiter.Queue{Name: "r2", Parent: "research", Weight: 3},
		arbiter.Queue{Name: "p1", Parent: "product"}, arbiter.Queue{Name: "p2", Parent: "product", Deserved: amounts{gpu: 10}},
	)
	got := overTime(t, tree, 6*24*time.Hour, map[string][]int64{"r1": {16}, "r2": {1, 2, 4, 8}, "p1": {1, 7}, "p2": {3, 8}}, "r1", "r2", "p1", "p2")

	sum := got["r1"] + got["r2"] + got["p1"] + got["p2"]
	for q, share := range map[string]float64{"r1": 5, "r2": 15, "p1": 30, "p2": 10} {
		if want := share * sum / 60; math.Abs(got[q]-want) > 0.02*want {
			t.Errorf("%s used %.2f on average, want %.2f", q, got[q], want)
		}
	}
}

// TestBalanceBesideStuckQueue: a queue whose jobs can never start is owed more and
// more; the others still share what there is by their weights.
func TestBalanceBesideStuckQueue(t *testing.T) {
	tree := newTree(t, amounts{gpu: 60}, arbiter.Queue{Name: "a"}, arbiter.Queue{Name: "b", Weight: 2}, arbiter.Queue{Name: "stuck", Weight: 3})
	got := overTime(t, tree, 6*24*time.Hour, map[string][]int64{"a": {30}, "b": {1, 4}, "stuck": {61}}, "a", "b", "stuck")
	if sum := got["a"] + got["b"]; math.Abs(got["a"]-sum/3) > 0.02*sum/3 {
		t.Errorf("a used %.2f on average, b %.2f", got["a"], got["b"])
	}
}

// TestBalanceEndsWithIdleness: a queue that owes and goes idle begins anew.
func TestBalanceEndsWithIdleness(t *testing.T) {
	tree := newTree(t, amounts{gpu: 8}, arbiter.Queue{Name: "a"}, arbiter.Queue{Name: "b"})
	submit(t, tree, arbiter.Job{ID: "large", Queue: "a"}, amounts{gpu: 8})
	placeAll(tree, 0)
	submitMany(t, tree, "a", 9, amounts{gpu: 4})
	submitMany(t, tree, "b", 9, amounts{gpu: 4})
	tree.Elapse(0)
	tree.Elapse(int64(time.Hour))
	if tree.Due("a-0000", false) || !tree.Due("b-0000", false) {
		t.Error("b is owed four GPUs for an hour")
	}
	if !tree.Overdue("b-0000", 30*time.Minute) || tree.Overdue("b-0000", 2*time.Hour) || tree.Overdue("a-0000", 0) {
		t.Error("for an hour, not more")
	}
	tree.Remove("large")
	if got := fmt.Sprint(placeAll(tree, 0)); got != "[b-0000 b-0001]" {
		t.Errorf("%s start first", got)
	}
	for _, s := range tree.Status() {
		if s.Queue == "a" && s.Waiting == 0 {
			t.Fatal("a has nothing left to wait")
		}
	}
	for i := range 9 {
		tree.Remove(arbiter.JobID(fmt.Sprintf("a-%04d", i)))
		tree.Remove(arbiter.JobID(fmt.Sprintf("b-%04d", i)))
	}
	tree.Elapse(int64(time.Hour))
	submitMany(t, tree, "a", 9, amounts{gpu: 4})
	submitMany(t, tree, "b", 9, amounts{gpu: 4})
	if got := fmt.Sprint(placeAll(tree, 0)); got != "[a-0000 b-0000]" {
		t.Errorf("after idleness %s start first", got)
	}
}
