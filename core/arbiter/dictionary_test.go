package arbiter_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/tangram-dev/tangram/core/arbiter"
	"github.com/tangram-dev/tangram/core/explain"
)

// TestMadeUpResources: resources that no queue, quota or total names widen nothing,
// however many there are, and leave nothing behind.
func TestMadeUpResources(t *testing.T) {
	tree := newTree(t, amounts{gpu: 8}, arbiter.Queue{Name: "q", Capability: amounts{cpu: 4}})
	for i := range 5000 {
		made := arbiter.Resource(fmt.Sprint("model/made-up-", i))
		submit(t, tree, arbiter.Job{ID: arbiter.JobID(fmt.Sprint(i)), Queue: "q", Namespace: fmt.Sprint("n", i)}, amounts{gpu: 9, made: 1})
	}
	if resources, _, _, _ := tree.Sizes(); resources != 2 {
		t.Errorf("%d resources have a number", resources)
	}
	if err := tree.Charge(arbiter.Job{ID: "runs", Queue: "q"}, arbiter.NewAmounts(amounts{"model/x": 3})); err != nil {
		t.Fatal(err)
	}
	if used(tree, "q", "model/x") != 3 || tree.Charged("runs").Of("model/x") != 3 || share(tree, "q", "model/x") != 0 {
		t.Error("it is not charged")
	}
	for i := range 5000 {
		tree.Remove(arbiter.JobID(fmt.Sprint(i)))
	}
	if resources, namespaces, classes, _ := tree.Sizes(); resources != 2 || namespaces != 1 || classes != 1 {
		t.Errorf("left behind: %d resources, %d namespaces, %d classes", resources, namespaces, classes)
	}
}

// TestLaterLimit: a limit that is set while jobs run counts what they use, for every
// kind of limit, and no job has to be submitted again.
func TestLaterLimit(t *testing.T) {
	const model arbiter.Resource = "model/h100"
	queue := arbiter.Queue{Name: "q"}
	limited := arbiter.Queue{Name: "q", Capability: amounts{model: 4}}
	for _, c := range []struct {
		name string
		set  func(tree *arbiter.Tree) error
		want explain.Code
	}{
		{"capability", func(tree *arbiter.Tree) error { return tree.SetQueues([]arbiter.Queue{limited}) }, explain.OverCapability},
		{"above", func(tree *arbiter.Tree) error {
			return tree.SetQueues([]arbiter.Queue{queue, {Name: "root", Capability: amounts{model: 4}}})
		}, explain.OverCapability},
		{"quota", func(tree *arbiter.Tree) error {
			return tree.SetQuotas([]arbiter.Quota{{Namespace: "n", Hard: amounts{model: 4}}})
		}, explain.OverQuota},
		{"total", func(tree *arbiter.Tree) error { return tree.SetTotal(amounts{gpu: 8, model: 4}) }, explain.OverTotal},
		{"guarantee", func(tree *arbiter.Tree) error {
			if err := tree.SetTotal(amounts{gpu: 8, model: 8}); err != nil {
				return err
			}
			return tree.SetQueues([]arbiter.Queue{queue, {Name: "r", Guarantee: amounts{model: 5}}})
		}, explain.Guaranteed},
	} {
		t.Run(c.name, func(t *testing.T) {
			tree := newTree(t, amounts{gpu: 8}, queue)
			submit(t, tree, arbiter.Job{ID: "runs", Queue: "q", Namespace: "n"}, amounts{gpu: 3, model: 3})
			placeAll(tree, 0)
			submit(t, tree, arbiter.Job{ID: "waits", Queue: "q", Namespace: "n"}, amounts{gpu: 2, model: 2})
			if w := tree.Why("waits"); w.Code != 0 {
				t.Fatalf("%v", w)
			}
			if err := c.set(tree); err != nil {
				t.Fatal(err)
			}
			if w := tree.Why("waits"); w.Code != c.want || w.Resource != model || w.Need != 2 {
				t.Errorf("%v", w)
			}
			if got := offers(tree, 0); len(got) != 0 {
				t.Errorf("offered %v", got)
			}
			tree.Remove("runs")
			if w := tree.Why("waits"); w.Code != 0 {
				t.Errorf("after it ended: %v", w)
			}
		})
	}
}

// TestNumbersDoNotMatter: a tree in which every resource that jobs ask for has a number
// decides over random histories as one in which only those with a limit have.
func TestNumbersDoNotMatter(t *testing.T) {
	everything := arbiter.Quota{Namespace: "empty", Hard: amounts{}}
	for i := range 4 {
		everything.Hard[arbiter.Resource(fmt.Sprint("model/made-up-", i))] = 1
	}
	for _, r := range resources {
		everything.Hard[r] = 1
	}
	rapid.Check(t, func(t *rapid.T) {
		m := newMachine(t)
		narrow, wide := m.tree, m.fresh(t)
		both := func(do func(tree *arbiter.Tree) error) {
			for _, tree := range []*arbiter.Tree{narrow, wide} {
				if err := do(tree); err != nil {
					t.Fatal(err)
				}
			}
		}
		quotas := func(n0 amounts) {
			list := []arbiter.Quota{{Namespace: "n0", Hard: n0}}
			if narrow.SetQuotas(list) != nil || wide.SetQuotas(append(list, everything)) != nil {
				t.Fatal("quotas")
			}
		}
		quotas(nil)
		var elapsed int64
		for step := range rapid.IntRange(1, 40).Draw(t, "steps") {
			id := arbiter.JobID(fmt.Sprint("j", rapid.IntRange(0, 19).Draw(t, "job")))
			switch rapid.SampledFrom([]string{"submit", "submit", "submit", "pass", "pass", "remove", "evict", "time", "queues", "total", "quota"}).Draw(t, "operation") {
			case "submit":
				demand := drawAmounts(t, "demand", 5)
				demand[arbiter.Resource(fmt.Sprint("model/made-up-", rapid.IntRange(0, 3).Draw(t, "made up")))] = 1
				if narrow.Charged(id) == nil {
					job := arbiter.Job{
						ID: id, Queue: fmt.Sprint("q", rapid.IntRange(0, 7).Draw(t, "queue")), User: fmt.Sprint("u", step%3),
						Namespace: fmt.Sprint("n", step%2), Submitted: int64(step), Demand: arbiter.NewAmounts(demand),
					}
					both(func(tree *arbiter.Tree) error { return tree.Submit(job) })
				}
			case "pass":
				same(t, narrow, wide, int64(step), rapid.IntRange(0, 2).Draw(t, "outcome"))
			case "remove":
				both(func(tree *arbiter.Tree) error { tree.Remove(id); return nil })
			case "evict":
				both(func(tree *arbiter.Tree) error { return tree.Evict(id) })
			case "time":
				elapsed += rapid.Int64Range(0, 200_000).Draw(t, "milliseconds") * int64(time.Millisecond)
				both(func(tree *arbiter.Tree) error { tree.Elapse(elapsed); return nil })
			case "queues":
				var queues []arbiter.Queue
				for _, q := range drawQueues(t) {
					queues = append(queues, q)
				}
				both(func(tree *arbiter.Tree) error { return tree.SetQueues(queues) })
			case "total":
				total := drawAmounts(t, "total", 40)
				both(func(tree *arbiter.Tree) error { return tree.SetTotal(total) })
			case "quota":
				quotas(drawAmounts(t, "hard", 10))
			}
			if a, b := fmt.Sprint(narrow.Status()), fmt.Sprint(wide.Status()); a != b {
				t.Fatalf("differ:\n%s\n%s", a, b)
			}
			if n, _, _, _ := narrow.Sizes(); n > len(resources) {
				t.Fatalf("%d resources have a number", n)
			}
		}
	})
}

// same runs a pass in both trees and compares offers, waits, and what may be reclaimed.
func same(t *rapid.T, a, b *arbiter.Tree, now int64, outcome int) {
	pass := func(tree *arbiter.Tree) (said []string) {
		for job := range tree.Waiting(now) {
			said = append(said, fmt.Sprint(job.ID))
		}
		for _, id := range said {
			id := arbiter.JobID(id)
			said = append(said, fmt.Sprint(tree.Why(id), tree.Ever(id), tree.Due(id, false), tree.Overdue(id, time.Second)))
			if r, ok := tree.Reclaim(id); ok {
				said = append(said, fmt.Sprint(r.Over()))
			}
		}
		for o := range tree.Candidates(now) {
			said = append(said, string(o.Job.ID))
			switch outcome {
			case 0:
				o.NoCapacity()
			case 1:
				o.Place(nil)
			}
		}
		return said
	}
	if x, y := pass(a), pass(b); !slices.Equal(x, y) {
		t.Fatalf("differ:\n%v\n%v", x, y)
	}
}

// TestLongHistories: what a tree keeps is bounded by its queues, its quotas and the
// jobs in it, however many users, namespaces and resources there have been.
func TestLongHistories(t *testing.T) {
	for _, order := range []arbiter.Policy{arbiter.FIFO, arbiter.RoundRobin} {
		t.Run(order.String(), func(t *testing.T) {
			queues := []arbiter.Queue{{Name: "a", Order: order}, {Name: "b", Order: order}, {Name: "c", Order: order}}
			tree := newTree(t, amounts{gpu: 8}, queues...)
			r := rand.New(rand.NewPCG(1, 2))
			var jobs []arbiter.JobID
			for i := range 30_000 {
				id := arbiter.JobID(fmt.Sprint(i))
				submit(t, tree, arbiter.Job{
					ID: id, Queue: queues[r.IntN(3)].Name, Namespace: fmt.Sprint("n", i), User: fmt.Sprint("u", i), Submitted: int64(i),
				}, amounts{gpu: 1, arbiter.Resource(fmt.Sprint("model/", i)): 1})
				jobs = append(jobs, id)
				placeAll(tree, int64(i))
				for len(jobs) > 20 {
					at := r.IntN(len(jobs))
					tree.Remove(jobs[at])
					jobs = slices.Delete(jobs, at, at+1)
				}
				if i%5000 == 0 {
					if err := tree.SetQueues(queues); err != nil {
						t.Fatal(err)
					}
					if err := tree.SetQuotas([]arbiter.Quota{{Namespace: fmt.Sprint("q", i), Hard: amounts{gpu: 1}}}); err != nil {
						t.Fatal(err)
					}
				}
			}
			resources, namespaces, classes, users := tree.Sizes()
			if resources > 1 || namespaces > len(jobs)+1 || classes > len(jobs) || users > 3*arbiter.IdleUsers+len(jobs) {
				t.Errorf("%d resources, %d namespaces, %d classes, %d users for %d jobs", resources, namespaces, classes, users, len(jobs))
			}
		})
	}
}

// TestForgottenUser: a user that was forgotten, because thousands of others were served
// since, does not go ahead of a user that has waited longer.
func TestForgottenUser(t *testing.T) {
	tree := newTree(t, amounts{gpu: 2}, arbiter.Queue{Name: "q", Order: arbiter.RoundRobin})
	serve := func(user string) {
		id := arbiter.JobID("of " + user)
		submit(t, tree, arbiter.Job{ID: id, Queue: "q", User: user}, amounts{gpu: 1})
		placeAll(tree, 0)
		tree.Remove(id)
	}
	serve("patient")
	submit(t, tree, arbiter.Job{ID: "large", Queue: "q", User: "patient", Submitted: 1}, amounts{gpu: 3}) // has to wait
	serve("back")
	for i := range 3 * arbiter.IdleUsers {
		serve(fmt.Sprint(i))
	}
	submit(t, tree, arbiter.Job{ID: "waits", Queue: "q", User: "patient", Submitted: 2}, amounts{gpu: 1})
	submit(t, tree, arbiter.Job{ID: "again", Queue: "q", User: "back", Submitted: 1}, amounts{gpu: 1})
	submit(t, tree, arbiter.Job{ID: "new", Queue: "q", User: "new", Submitted: 1}, amounts{gpu: 1})
	if got := offers(tree, 0); fmt.Sprint(got) != "[waits again new]" {
		t.Errorf("offered %v", got)
	}
}
