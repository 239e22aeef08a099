package arbiter_test

import (
	"container/heap"
	"fmt"
	"testing"
	"time"

	"github.com/tangram-dev/tangram/core/arbiter"
)

// ending is a heap of running jobs by when they end.
type ending []struct {
	at int64
	id arbiter.JobID
}

func (h ending) Len() int           { return len(h) }
func (h ending) Less(i, j int) bool { return h[i].at < h[j].at }
func (h ending) Swap(i, j int)      { h[i], h[j] = h[j], h[i] }
func (h *ending) Push(x any) {
	*h = append(*h, x.(struct {
		at int64
		id arbiter.JobID
	}))
}
func (h *ending) Pop() any {
	last := (*h)[len(*h)-1]
	*h = (*h)[:len(*h)-1]
	return last
}

// benchTree is 20 queues in 4 departments.
func benchTree(b *testing.B, order arbiter.Policy, gpus int64) *arbiter.Tree {
	var queues []arbiter.Queue
	for d := range 4 {
		dept := fmt.Sprint("dept", d)
		queues = append(queues, arbiter.Queue{Name: dept, Weight: int64(d + 1)})
		for q := range 5 {
			queues = append(queues, arbiter.Queue{Name: fmt.Sprint(dept, "-", q), Parent: dept, Weight: int64(q + 1), Order: order, Aging: time.Hour})
		}
	}
	return newTree(b, amounts{gpu: gpus, cpu: 8 * gpus, mem: 64 * gpus}, queues...)
}

// benchJob is one of 50,000: 7 sizes, 50 users, runtimes of up to 100 minutes.
func benchJob(tree *arbiter.Tree, i int) (arbiter.Job, int64) {
	size := int64(1) << (i * 7919 % 7)
	runs := int64(1+i*104729%100) * int64(time.Minute)
	return arbiter.Job{
		ID: arbiter.JobID(fmt.Sprint("job", i)), Queue: fmt.Sprintf("dept%d-%d", i%4, i/4%5),
		Namespace: fmt.Sprint("ns", i%10), User: fmt.Sprint("user", i%50),
		Submitted: int64(i) * int64(time.Second), ExpectedRuntime: time.Duration(runs), Priority: int32(i % 3),
		Demand: arbiter.NewAmounts(amounts{gpu: size, cpu: 8 * size, mem: 64 * size}),
	}, runs
}

// BenchmarkLife is 50,000 jobs from submission to end: one pass whenever a job
// comes or ends. "flood" submits all at once; "stream" over time, at a load the
// cluster can just carry.
func BenchmarkLife(b *testing.B) {
	const jobs, gpus = 50_000, 4096
	for _, order := range arbiter.Policies() {
		for _, load := range []string{"flood", "stream"} {
			b.Run(fmt.Sprint(load, "/", order), func(b *testing.B) {
				passes := 0
				for b.Loop() {
					passes = live(b, benchTree(b, order, gpus), jobs, load == "flood")
				}
				perPass := float64(b.Elapsed().Nanoseconds()) / float64(b.N)
				b.ReportMetric(perPass/jobs, "ns/job")
				b.ReportMetric(perPass/float64(passes), "ns/pass")
				b.ReportMetric(float64(passes), "passes")
			})
		}
	}
}

// live runs all jobs and returns the number of passes.
func live(b *testing.B, tree *arbiter.Tree, jobs int, flood bool) (passes int) {
	var running ending
	runs := map[arbiter.JobID]int64{}
	come := func(i int) int64 {
		j, r := benchJob(tree, i)
		runs[j.ID] = r
		if err := tree.Submit(j); err != nil {
			b.Fatal(err)
		}
		return j.Submitted
	}
	next := 0
	for ; flood && next < jobs; next++ {
		come(next)
	}
	now, ended := int64(0), 0
	for ended < jobs {
		passes++
		for o := range tree.Candidates(now) {
			o.Place(nil)
			heap.Push(&running, struct {
				at int64
				id arbiter.JobID
			}{now + runs[o.Job.ID], o.Job.ID})
		}
		if next < jobs && (len(running) == 0 || int64(next)*int64(time.Second) <= running[0].at) {
			now = come(next)
			next++
			continue
		}
		now = running[0].at
		tree.Remove(running[0].id)
		heap.Pop(&running)
		ended++
	}
	return passes
}

// BenchmarkOffers is one pass over 50,000 waiting jobs of which all are placed.
func BenchmarkOffers(b *testing.B) {
	const jobs = 50_000
	for b.Loop() {
		b.StopTimer()
		tree := benchTree(b, arbiter.Priority, 1<<30)
		for i := range jobs {
			j, _ := benchJob(tree, i)
			if err := tree.Submit(j); err != nil {
				b.Fatal(err)
			}
		}
		b.StartTimer()
		if got := len(placeAll(tree, 0)); got != jobs {
			b.Fatal(got)
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/jobs, "ns/offer")
}
