package arbiter_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/tangram-dev/tangram/core/arbiter"
	"github.com/tangram-dev/tangram/core/explain"
)

// TestDRFPaper is the running example of "Dominant Resource Fairness" (Ghodsi et
// al., NSDI 2011), section 4.1 and table 1: 9 CPUs and 18 GB; A's tasks need 1 CPU
// and 4 GB, B's 3 CPUs and 1 GB. A gets 3 tasks, B 2, in this order.
func TestDRFPaper(t *testing.T) {
	tree := newTree(t, amounts{cpu: 9, mem: 18}, arbiter.Queue{Name: "a"}, arbiter.Queue{Name: "b"})
	submitMany(t, tree, "a", 10, amounts{cpu: 1, mem: 4})
	submitMany(t, tree, "b", 10, amounts{cpu: 3, mem: 1})
	var order strings.Builder
	for _, id := range placeAll(tree, 0) {
		order.WriteString(string(id[:1]))
	}
	// The paper breaks the first tie for B; we break ties by name.
	if got := order.String(); got != "ababa" {
		t.Errorf("order %s", got)
	}
	if used(tree, "a", cpu) != 3 || used(tree, "a", mem) != 12 || used(tree, "b", cpu) != 6 || used(tree, "b", mem) != 2 {
		t.Errorf("a has %v, b has %v", tree.Used("a").Map(), tree.Used("b").Map())
	}
}

// TestDRFPaperWeights is section 4.3: with weights, shares are equal per weight.
// Both need the same here, so tasks are as weights.
func TestDRFPaperWeights(t *testing.T) {
	tree := newTree(t, amounts{cpu: 300, mem: 900}, arbiter.Queue{Name: "a", Weight: 2}, arbiter.Queue{Name: "b", Weight: 1})
	submitMany(t, tree, "a", 400, amounts{cpu: 1, mem: 1})
	submitMany(t, tree, "b", 400, amounts{cpu: 1, mem: 1})
	placeAll(tree, 0)
	if used(tree, "a", cpu) != 200 || used(tree, "b", cpu) != 100 {
		t.Errorf("a has %d, b has %d", used(tree, "a", cpu), used(tree, "b", cpu))
	}
}

// weighted is four queues with weights 1 to 4 and far more jobs than fit.
func weighted(t testing.TB, gpus int64) *arbiter.Tree {
	var queues []arbiter.Queue
	for w := range int64(4) {
		queues = append(queues, arbiter.Queue{Name: fmt.Sprint("w", w+1), Weight: w + 1, Reclaimable: true})
	}
	return newTree(t, amounts{gpu: gpus, cpu: 100 * gpus}, queues...)
}

// withinWeights checks that shares are within 2 % of the cluster of the weights.
func withinWeights(t *testing.T, tree *arbiter.Tree, gpus int64) {
	t.Helper()
	for w := range int64(4) {
		got := used(tree, fmt.Sprint("w", w+1), gpu)
		if want := gpus * (w + 1) / 10; got < want-gpus/50 || got > want+gpus/50 {
			t.Errorf("weight %d has %d GPUs, want %d", w+1, got, want)
		}
	}
}

// TestWeightedShares: four queues with weights 1:2:3:4, saturated, jobs of 1 to 8
// GPUs that end in a shuffled order; one queue is idle for a while and returns.
func TestWeightedShares(t *testing.T) {
	const gpus = 1000
	tree := weighted(t, gpus)
	var running []arbiter.JobID
	seq := 0
	feed := func(queue string, n int) {
		for range n {
			seq++
			submit(t, tree, arbiter.Job{ID: arbiter.JobID(fmt.Sprintf("%s/%06d", queue, seq)), Queue: queue, Submitted: int64(seq)},
				amounts{gpu: int64(1 + seq*7%8), cpu: 4})
		}
	}
	// cycle ends some jobs, the same ones every time, and fills up again.
	cycle := func() {
		for range len(running) / 20 {
			i := seq * 31 % len(running)
			seq++
			tree.Remove(running[i])
			running = slices.Delete(running, i, i+1)
		}
		running = append(running, placeAll(tree, int64(seq))...)
	}
	busy := []string{"w1", "w2", "w4"}
	for _, q := range busy {
		feed(q, 4000)
	}
	for range 50 {
		cycle()
	}
	if used(tree, "w1", gpu)+used(tree, "w2", gpu)+used(tree, "w4", gpu) < gpus-10 || used(tree, "w4", gpu) < 550 {
		t.Errorf("the idle queue's part was not lent: %v", tree.Status())
	}
	feed("w3", 4000)
	cycles := 0
	for ; used(tree, "w3", gpu) < gpus*3/10-gpus/50 && cycles < 100; cycles++ {
		cycle()
	}
	// 5 % of jobs end per cycle and all goes to the queue that returned, until it
	// has its 30 %: 6 cycles, and one for the jobs of different sizes.
	if cycles > 7 {
		t.Errorf("it took %d cycles to regain the share", cycles)
	}
	for range 50 {
		cycle()
		withinWeights(t, tree, gpus)
	}
}

// TestHierarchy: departments divide by weight, whatever number of queues each has.
func TestHierarchy(t *testing.T) {
	tree := newTree(t, amounts{gpu: 120},
		arbiter.Queue{Name: "research"}, arbiter.Queue{Name: "product", Weight: 2},
		arbiter.Queue{Name: "r1", Parent: "research"}, arbiter.Queue{Name: "r2", Parent: "research", Weight: 3},
		arbiter.Queue{Name: "p1", Parent: "product"},
	)
	for _, q := range []string{"r1", "r2", "p1"} {
		submitMany(t, tree, q, 120, amounts{gpu: 1})
	}
	placeAll(tree, 0)
	for q, want := range map[string]int64{"r1": 10, "r2": 30, "p1": 80, "research": 40, "product": 80, "root": 120} {
		if got := used(tree, q, gpu); got != want || share(tree, q, gpu) != want {
			t.Errorf("%s has %d and a share of %d, want %d", q, got, share(tree, q, gpu), want)
		}
	}
}

// TestNoStarvationByASibling is the case that "Hierarchical Scheduling for Diverse
// Datacenter Workloads" (Bhattacharya et al., SoCC 2013) gives against plain
// hierarchical DRF: n1's one child takes all CPUs, which no other queue wants; as n1
// has a dominant share of 100 % then, its other child never gets a GPU again once
// GPUs and CPUs are freed together.
func TestNoStarvationByASibling(t *testing.T) {
	tree := newTree(t, amounts{cpu: 100, gpu: 100},
		arbiter.Queue{Name: "n1"}, arbiter.Queue{Name: "n2"},
		arbiter.Queue{Name: "n1-cpu", Parent: "n1"}, arbiter.Queue{Name: "n1-gpu", Parent: "n1"},
	)
	submitMany(t, tree, "n1-cpu", 500, amounts{cpu: 1})
	submitMany(t, tree, "n2", 500, amounts{gpu: 1})
	running := placeAll(tree, 0)
	if used(tree, "n1", cpu) != 100 || used(tree, "n2", gpu) != 100 {
		t.Fatal("not full")
	}
	submitMany(t, tree, "n1-gpu", 500, amounts{gpu: 1})
	for range 150 { // one job of each kind ends
		for _, kind := range []string{"n1-cpu", "n2"} {
			i := slices.IndexFunc(running, func(id arbiter.JobID) bool { return strings.HasPrefix(string(id), kind+"-") })
			if i >= 0 {
				tree.Remove(running[i])
				running = slices.Delete(running, i, i+1)
			}
		}
		running = append(running, placeAll(tree, 0)...)
	}
	if used(tree, "n1-gpu", gpu) != 50 || used(tree, "n2", gpu) != 50 || used(tree, "n1-cpu", cpu) != 100 {
		t.Errorf("n1-gpu has %d, n2 %d GPUs, n1-cpu %d CPUs", used(tree, "n1-gpu", gpu), used(tree, "n2", gpu), used(tree, "n1-cpu", cpu))
	}
}

// TestBlockedQueueDoesNotHoldOthers: a queue at its capability, or without
// capacity, leaves the turn to the others.
func TestBlockedQueueDoesNotHoldOthers(t *testing.T) {
	tree := newTree(t, amounts{gpu: 10},
		arbiter.Queue{Name: "p", Weight: 100}, arbiter.Queue{Name: "a", Parent: "p", Capability: amounts{gpu: 2}}, arbiter.Queue{Name: "b"})
	submitMany(t, tree, "a", 5, amounts{gpu: 1})
	submitMany(t, tree, "b", 5, amounts{gpu: 1})
	placeAll(tree, 0)
	if used(tree, "a", gpu) != 2 || used(tree, "b", gpu) != 5 {
		t.Errorf("a has %d, b has %d", used(tree, "a", gpu), used(tree, "b", gpu))
	}
}

func TestQueuePriorityGoesFirst(t *testing.T) {
	tree := newTree(t, amounts{gpu: 4}, arbiter.Queue{Name: "urgent", Priority: 1}, arbiter.Queue{Name: "kept", Guarantee: amounts{gpu: 1}}, arbiter.Queue{Name: "plain"})
	for _, q := range []string{"urgent", "kept", "plain"} {
		submitMany(t, tree, q, 9, amounts{gpu: 1})
	}
	if got, want := fmt.Sprint(placeAll(tree, 0)), "[kept-0000 urgent-0000 urgent-0001 urgent-0002]"; got != want {
		t.Errorf("got %s", got)
	}
}

// TestExplicitDeserved: deserved comes before weight, and is lent while unwanted.
func TestExplicitDeserved(t *testing.T) {
	tree := newTree(t, amounts{gpu: 100}, arbiter.Queue{Name: "a", Deserved: amounts{gpu: 60}}, arbiter.Queue{Name: "b"}, arbiter.Queue{Name: "c", Weight: 3})
	shares := func(a, b, c int64) {
		t.Helper()
		if share(tree, "a", gpu) != a || share(tree, "b", gpu) != b || share(tree, "c", gpu) != c {
			t.Errorf("shares %d %d %d, want %d %d %d", share(tree, "a", gpu), share(tree, "b", gpu), share(tree, "c", gpu), a, b, c)
		}
	}
	submitMany(t, tree, "b", 100, amounts{gpu: 1})
	submitMany(t, tree, "c", 100, amounts{gpu: 1})
	shares(0, 25, 75)
	submitMany(t, tree, "a", 20, amounts{gpu: 1})
	shares(20, 20, 60)
	submitMany(t, tree, "a", 100, amounts{gpu: 1})
	shares(60, 10, 30)
	if err := tree.SetTotal(amounts{gpu: 40}); err != nil {
		t.Fatal(err)
	}
	shares(40, 0, 0)
}

// TestGuaranteeIsKept: others leave it free together, not just each of them.
func TestGuaranteeIsKept(t *testing.T) {
	tree := newTree(t, amounts{gpu: 10}, arbiter.Queue{Name: "a"}, arbiter.Queue{Name: "b"}, arbiter.Queue{Name: "c", Guarantee: amounts{gpu: 3}})
	submitMany(t, tree, "a", 9, amounts{gpu: 1})
	submitMany(t, tree, "b", 9, amounts{gpu: 1})
	placeAll(tree, 0)
	if got := used(tree, "root", gpu); got != 7 {
		t.Errorf("%d of 7 in use", got)
	}
	w := tree.Why("a-0008")
	if said := sentence(w); w.Code != explain.Guaranteed || w.ForQuota() || said != "waits for capacity: of 10 nvidia.com/gpu in queue root, 10 nvidia.com/gpu are in use or kept for guarantees, needs 1 nvidia.com/gpu" {
		t.Errorf("%v", w)
	}
	submitMany(t, tree, "c", 9, amounts{gpu: 1})
	placeAll(tree, 0)
	if used(tree, "c", gpu) != 3 {
		t.Errorf("c has %d", used(tree, "c", gpu))
	}
	if w := tree.Why("c-0008"); w.Code != explain.OverTotal || w.Limit != w.Used {
		t.Errorf("%v", w)
	}
}

// TestClosedQueueHasNoShare: what waits in a closed queue cannot start, so nothing is
// divided for it; what runs there counts.
func TestClosedQueueHasNoShare(t *testing.T) {
	queues := []arbiter.Queue{{Name: "a"}, {Name: "b"}, {Name: "p"}, {Name: "c", Parent: "p"}}
	tree := newTree(t, amounts{gpu: 12}, queues...)
	submit(t, tree, arbiter.Job{ID: "runs", Queue: "c"}, amounts{gpu: 2})
	placeAll(tree, 0)
	for _, q := range []string{"a", "b", "c"} {
		submitMany(t, tree, q, 12, amounts{gpu: 1})
	}
	if share(tree, "a", gpu) != 4 || share(tree, "c", gpu) != 4 {
		t.Fatalf("%+v", tree.Status())
	}
	queues[2].Closed = true // above it
	if err := tree.SetQueues(queues); err != nil {
		t.Fatal(err)
	}
	if share(tree, "a", gpu) != 5 || share(tree, "b", gpu) != 5 || share(tree, "c", gpu) != 2 {
		t.Errorf("%+v", tree.Status())
	}
}
