package arbiter_test

import (
	"testing"

	"github.com/tangram-dev/tangram/core/arbiter"
	"github.com/tangram-dev/tangram/core/explain"
)

// sentence is a wait in words; empty when nothing keeps the job.
func sentence(w arbiter.Wait) string {
	r := w.Reason()
	return r.String()
}

func TestWhyAJobWaits(t *testing.T) {
	tree := newTree(t, amounts{gpu: 16, cpu: 100},
		arbiter.Queue{Name: "dept", Capability: amounts{gpu: 12}},
		arbiter.Queue{Name: "team-a", Parent: "dept", Capability: amounts{gpu: 8}},
		arbiter.Queue{Name: "team-b", Parent: "dept"},
		arbiter.Queue{Name: "shut", Closed: true},
		arbiter.Queue{Name: "private", Namespaces: []string{"team-a", "team-c"}},
		arbiter.Queue{Name: "inner", Parent: "private"},
	)
	if err := tree.SetQuotas([]arbiter.Quota{{Namespace: "small", Hard: amounts{gpu: 1}}}); err != nil {
		t.Fatal(err)
	}
	for id, j := range map[arbiter.JobID]struct {
		queue string
		gpus  int64
	}{"a": {"team-a", 6}, "b": {"team-b", 4}} {
		if err := tree.Charge(arbiter.Job{ID: id, Queue: j.queue}, arbiter.NewAmounts(amounts{gpu: j.gpus})); err != nil {
			t.Fatal(err)
		}
	}
	tests := []struct {
		name   string
		job    arbiter.Job
		demand amounts
		want   string
		quota  bool
		never  bool
	}{
		{"capability", arbiter.Job{Queue: "team-a"}, amounts{gpu: 4}, "waits for quota: queue team-a may use 8 nvidia.com/gpu, 6 nvidia.com/gpu in use, needs 4 nvidia.com/gpu", true, false},
		{"capability above", arbiter.Job{Queue: "team-b"}, amounts{gpu: 3}, "waits for quota: queue dept may use 12 nvidia.com/gpu, 10 nvidia.com/gpu in use, needs 3 nvidia.com/gpu", true, false},
		{"more than it ever may", arbiter.Job{Queue: "team-a"}, amounts{gpu: 9}, "can never start: queue team-a may use 8 nvidia.com/gpu, 6 nvidia.com/gpu in use, needs 9 nvidia.com/gpu", true, true},
		{"quota", arbiter.Job{Queue: "team-a", Namespace: "small"}, amounts{gpu: 2}, "can never start: namespace small may use 1 nvidia.com/gpu, 0 nvidia.com/gpu in use, needs 2 nvidia.com/gpu", true, true},
		{"closed", arbiter.Job{Queue: "shut"}, amounts{gpu: 1}, `queue "shut" is closed`, true, false},
		{"namespace not in the list", arbiter.Job{Queue: "inner", Namespace: "team-b"}, amounts{gpu: 1}, `namespace "team-b" may not use queue "private"`, true, false},
		{"namespace not in the list of an inner queue", arbiter.Job{Queue: "private", Namespace: "team-b"}, amounts{gpu: 1}, `namespace "team-b" may not use queue "private"`, true, false},
		{"namespace in the list", arbiter.Job{Queue: "inner", Namespace: "team-c"}, amounts{gpu: 1}, "", false, false},
		{"no queue", arbiter.Job{Queue: "typo"}, amounts{gpu: 1}, `there is no queue "typo"`, true, false},
		{"inner queue", arbiter.Job{Queue: "dept"}, amounts{gpu: 1}, `queue "dept" takes no jobs, only the queues below it do`, true, false},
		{"total", arbiter.Job{}, amounts{gpu: 7}, "waits for capacity: the cluster has 16 nvidia.com/gpu, 10 nvidia.com/gpu in use, needs 7 nvidia.com/gpu", false, false},
		{"turn", arbiter.Job{Queue: "team-a"}, amounts{gpu: 2, "never/heard-of": 1}, "", false, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			tt.job.ID = "j"
			submit(t, tree, tt.job, tt.demand)
			w := tree.Why("j")
			if said := sentence(w); said != tt.want || w.ForQuota() != tt.quota || w.Never() != tt.never {
				t.Errorf("%s (for quota %v, never %v), want %s", said, w.ForQuota(), w.Never(), tt.want)
			}
			if offered := len(offers(tree, 0)) > 0; offered != (w == arbiter.Wait{}) {
				t.Errorf("offered %v", offered)
			}
		})
	}
}

// TestMay: a job that would take "any GPU" may not be given those its queue has
// used up; one that runs may grow as far as its queue may.
func TestMay(t *testing.T) {
	const a100 arbiter.Resource = "model/a100"
	tree := newTree(t, amounts{gpu: 16, a100: 8}, arbiter.Queue{Name: "q", Capability: amounts{a100: 2, gpu: 6}})
	submit(t, tree, arbiter.Job{ID: "j", Queue: "q"}, amounts{gpu: 4})
	if w := tree.May("j", arbiter.NewAmounts(amounts{gpu: 4, a100: 4})); w.Code != explain.OverCapability || w.Resource != a100 {
		t.Errorf("%v", w)
	}
	if w := tree.May("j", arbiter.NewAmounts(amounts{gpu: 4, a100: 2})); w != (arbiter.Wait{}) {
		t.Errorf("%v", w)
	}
	for o := range tree.Candidates(0) {
		o.Place(arbiter.NewAmounts(amounts{gpu: 4, a100: 2}))
	}
	if used(tree, "q", a100) != 2 {
		t.Error("charged for what it was not given")
	}
	if w := tree.May("j", arbiter.NewAmounts(amounts{gpu: 3})); w.Limit-w.Used != 2 {
		t.Errorf("%v", w)
	}
}

// TestElastic: a job starts at its minimum, grows by charges and shrinks.
func TestElastic(t *testing.T) {
	tree := newTree(t, amounts{gpu: 16}, arbiter.Queue{Name: "q"}, arbiter.Queue{Name: "r"})
	if err := tree.Submit(arbiter.Job{ID: "j", Queue: "q", Demand: arbiter.NewAmounts(amounts{gpu: 2}), Extra: arbiter.NewAmounts(amounts{gpu: 6})}); err != nil {
		t.Fatal(err)
	}
	want := func(inUse, wanted int64) {
		t.Helper()
		if used(tree, "q", gpu) != inUse || share(tree, "q", gpu) != wanted {
			t.Errorf("uses %d and has a share of %d, want %d and %d", used(tree, "q", gpu), share(tree, "q", gpu), inUse, wanted)
		}
	}
	want(0, 8)
	placeAll(tree, 0)
	want(2, 8)
	if err := tree.Charge(arbiter.Job{ID: "j"}, arbiter.NewAmounts(amounts{gpu: 8})); err != nil {
		t.Fatal(err)
	}
	want(10, 10)
	if err := tree.Shrink("j", arbiter.NewAmounts(amounts{gpu: 7})); err != nil {
		t.Fatal(err)
	}
	want(3, 8)
	if err := tree.Shrink("j", arbiter.NewAmounts(amounts{gpu: 4})); err == nil {
		t.Error("shrunk below nothing")
	}
	if err := tree.Submit(arbiter.Job{ID: "j"}); err == nil {
		t.Error("a running job was submitted again")
	}
	if err := tree.Evict("j"); err != nil {
		t.Fatal(err)
	}
	want(0, 8)
	tree.Remove("j")
	tree.Remove("j")
	want(0, 0)
}

// TestQueueRemoved: its jobs are in no queue until it returns; they do not use up
// the default queue, but what they run counts against the cluster.
func TestQueueRemoved(t *testing.T) {
	queues := []arbiter.Queue{{Name: "a"}, {Name: "b"}}
	tree := newTree(t, amounts{gpu: 8}, queues...)
	submitMany(t, tree, "a", 9, amounts{gpu: 1})
	submitMany(t, tree, "b", 2, amounts{gpu: 1})
	placeAll(tree, 0)
	if err := tree.SetQueues(queues[1:]); err != nil {
		t.Fatal(err)
	}
	if w := tree.Why("a-0008"); w.Code != explain.NoQueue || w.Queue != "a" {
		t.Errorf("%v", w)
	}
	if used(tree, "root", gpu) != 8 || used(tree, "default", gpu) != 0 || used(tree, "b", gpu) != 2 {
		t.Error("use was moved or lost")
	}
	if waiting, running := tree.Size(); waiting != 3 || running != 8 {
		t.Errorf("%d waiting, %d running", waiting, running)
	}
	submitMany(t, tree, "default", 9, amounts{gpu: 1})
	if got := share(tree, "default", gpu) + share(tree, "b", gpu); got != 2 {
		t.Errorf("shares out %d GPUs, though jobs without a queue use 6 of 8", got)
	}
	tree.Remove("a-0000")
	if got := offers(tree, 0); len(got) == 0 || got[0] != "default-0000" {
		t.Errorf("offers %v", got)
	}
	if err := tree.SetQueues(queues); err != nil {
		t.Fatal(err)
	}
	if used(tree, "a", gpu) != 5 || tree.Why("a-0008") != (arbiter.Wait{}) {
		t.Errorf("after the queue returned it has %d", used(tree, "a", gpu))
	}
}

// TestNamespaces: a queue with a list of namespaces counts jobs of those alone. What others
// run counts against the cluster, until the list has their namespace.
func TestNamespaces(t *testing.T) {
	list := func(namespaces ...string) arbiter.Queue { return arbiter.Queue{Name: "q", Namespaces: namespaces} }
	tree := newTree(t, amounts{gpu: 8}, list("a"))
	for _, namespace := range []string{"a", "b"} {
		if err := tree.Charge(arbiter.Job{ID: arbiter.JobID(namespace), Queue: "q", Namespace: namespace}, arbiter.NewAmounts(amounts{gpu: 2})); err != nil {
			t.Fatal(err)
		}
	}
	if q, all := used(tree, "q", gpu), used(tree, arbiter.Root, gpu); q != 2 || all != 4 {
		t.Errorf("%d in the queue, %d in all; want 2 and 4", q, all)
	}
	if err := tree.SetQueues([]arbiter.Queue{list("a", "b")}); err != nil {
		t.Fatal(err)
	}
	if q := used(tree, "q", gpu); q != 4 {
		t.Errorf("%d in the queue, want 4", q)
	}
}
