package arbiter_test

import (
	"fmt"
	"slices"

	"github.com/tangram-dev/tangram/core/arbiter"
)

// One cluster of 8 GPUs, two teams, and a planner that finds a place for anything
// but gangs of 4.
func Example() {
	const gpu = arbiter.Resource("nvidia.com/gpu")
	tree, err := arbiter.NewTree([]arbiter.Queue{
		{Name: "team-a", Capability: map[arbiter.Resource]int64{gpu: 3}},
		{Name: "team-b"},
	}, map[arbiter.Resource]int64{gpu: 8})
	if err != nil {
		fmt.Println(err)
		return
	}
	for i, j := range []struct {
		id    arbiter.JobID
		queue string
		gpus  int64
	}{{"a1", "team-a", 2}, {"a2", "team-a", 2}, {"b1", "team-b", 1}, {"b2", "team-b", 4}, {"b3", "team-b", 2}} {
		err := tree.Submit(arbiter.Job{
			ID: j.id, Queue: j.queue, Submitted: int64(i), Demand: arbiter.NewAmounts(map[arbiter.Resource]int64{gpu: j.gpus}),
		})
		if err != nil {
			fmt.Println(err)
		}
	}
	for offer := range tree.Candidates(10) {
		if offer.Job.Demand.Map()[gpu] == 4 {
			fmt.Println(offer.Job.ID, "has no place")
			offer.NoCapacity()
			continue
		}
		offer.Place(nil)
		fmt.Println(offer.Job.ID, "starts")
	}
	fmt.Println("a2", sentence(tree.Why("a2")))
	fmt.Println("b2", sentence(tree.Why("b2")))
	// Output:
	// a1 starts
	// b1 starts
	// b2 has no place
	// b3 starts
	// a2 waits for quota: queue team-a may use 3 nvidia.com/gpu, 2 nvidia.com/gpu in use, needs 2 nvidia.com/gpu
	// b2 waits for capacity: the cluster has 8 nvidia.com/gpu, 5 nvidia.com/gpu in use, needs 4 nvidia.com/gpu
}

// The worked example of docs/concepts/queues.md: how 64 GPUs are divided, and how
// what one lends returns to it.
func Example_shares() {
	const gpu = arbiter.Resource("nvidia.com/gpu")
	gpus := func(n int64) map[arbiter.Resource]int64 { return map[arbiter.Resource]int64{gpu: n} }
	tree, err := arbiter.NewTree([]arbiter.Queue{
		{Name: "research", Weight: 1, Reclaimable: true},
		{Name: "vision", Parent: "research", Weight: 1, Reclaimable: true},
		{Name: "speech", Parent: "research", Weight: 3, Reclaimable: true},
		{Name: "product", Weight: 1, Reclaimable: true},
		{Name: "serving", Parent: "product", Guarantee: gpus(8), Reclaimable: true},
		{Name: "ranking", Parent: "product", Deserved: gpus(16), Reclaimable: true},
		{Name: "ads", Parent: "product", Capability: gpus(12), Reclaimable: true},
	}, gpus(64))
	if err != nil {
		fmt.Println(err)
		return
	}
	seq := 0
	want := func(queue string, jobs int) {
		for range jobs {
			seq++
			if err := tree.Submit(arbiter.Job{
				ID: arbiter.JobID(fmt.Sprintf("%s-%03d", queue, seq)), Queue: queue, Submitted: int64(seq), Demand: arbiter.NewAmounts(gpus(1)),
			}); err != nil {
				fmt.Println(err)
			}
		}
	}
	leaves := []string{"vision", "speech", "serving", "ranking", "ads"}
	show := func(title string) {
		fmt.Printf("%s\n%-10s%6s%6s%6s\n", title, "", "want", "share", "used")
		for _, s := range tree.Status() {
			if slices.Contains(leaves, s.Queue) {
				fmt.Printf("%-10s%6d%6d%6d\n", s.Queue, s.Want[gpu], s.Share[gpu], s.Used[gpu])
			}
		}
	}

	want("ranking", 40)
	want("ads", 40)
	placeAll(tree, 0)
	show("1. only ranking and ads have work:")

	want("vision", 40)
	want("speech", 40)
	show("2. research returns, nothing has ended yet:")

	if r, ok := tree.Reclaim("speech-121"); ok {
		for _, x := range r.Over() {
			fmt.Println(x.Queue, "can give back", x.Over.Map()[gpu])
		}
	}
	for id := 1; id <= 40; id++ { // ranking's jobs end
		tree.Remove(arbiter.JobID(fmt.Sprintf("ranking-%03d", id)))
		placeAll(tree, 0)
	}
	show("3. ranking's work is done:")
	// Output:
	// 1. only ranking and ads have work:
	//             want share  used
	// ads           40    12    12
	// ranking       40    40    40
	// serving        0     8     0
	// speech         0     0     0
	// vision         0     0     0
	// 2. research returns, nothing has ended yet:
	//             want share  used
	// ads           40     8    12
	// ranking       40    16    40
	// serving        0     8     0
	// speech        40    24     0
	// vision        40     8     0
	// ranking can give back 24
	// ads can give back 4
	// 3. ranking's work is done:
	//             want share  used
	// ads           40    12    12
	// ranking        0     0     0
	// serving        0     8     0
	// speech        40    33    33
	// vision        40    11    11
}
