package arbiter_test

import (
	"fmt"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/tangram-dev/tangram/core/arbiter"
)

const hour = int64(time.Hour)

func TestOrderInsideAQueue(t *testing.T) {
	jobs := []arbiter.Job{
		{ID: "a", User: "ann", Submitted: 1, Priority: 0, ExpectedRuntime: 3 * time.Hour},
		{ID: "b", User: "ann", Submitted: 2, Priority: 5, ExpectedRuntime: 2 * time.Hour},
		{ID: "c", User: "ann", Submitted: 3, Priority: 5},
		{ID: "d", User: "bob", Submitted: 4, Priority: 0, ExpectedRuntime: time.Hour},
		{ID: "e", User: "bob", Submitted: 4, Priority: -1, ExpectedRuntime: 2 * time.Hour},
	}
	tests := []struct {
		policy arbiter.Policy
		want   string
		// aged is the order an hour after the third was submitted, when jobs age in
		// an hour.
		aged string
	}{
		{arbiter.FIFO, "[a b c d e]", "[a b c d e]"},
		{arbiter.Priority, "[b c a d e]", "[a b c d e]"},
		{arbiter.ShortestFirst, "[d b e a c]", "[a b c d e]"},
		{arbiter.RoundRobin, "[b d c e a]", "[a b c d e]"},
	}
	if len(tests) != len(arbiter.Policies()) {
		t.Errorf("%d policies are tested, there are %s", len(tests), arbiter.PolicyChoice())
	}
	for _, tt := range tests {
		t.Run(tt.policy.String(), func(t *testing.T) {
			tree := newTree(t, amounts{gpu: 99}, arbiter.Queue{Name: "q", Order: tt.policy, Aging: time.Hour})
			for i := range jobs {
				j := jobs[len(jobs)-1-i]
				j.Queue = "q"
				submit(t, tree, j, amounts{gpu: int64(1 + i%2)}) // two classes, to be merged
			}
			if got := fmt.Sprint(offers(tree, 10)); got != tt.want {
				t.Errorf("offers %s, want %s", got, tt.want)
			}
			if got := fmt.Sprint(offers(tree, hour+3)); got != tt.aged {
				t.Errorf("when three are over age, offers %s, want %s", got, tt.aged)
			}
			if got := fmt.Sprint(placeAll(tree, 10)); got != tt.want {
				t.Errorf("placed %s, want %s", got, tt.want)
			}
		})
	}
}

// TestRoundRobinRemembers: whose turn it is lasts from pass to pass, and a user's
// many jobs do not make turns more frequent.
func TestRoundRobinRemembers(t *testing.T) {
	tree := newTree(t, amounts{gpu: 99}, arbiter.Queue{Name: "q", Order: arbiter.RoundRobin})
	for i := range 6 {
		submit(t, tree, arbiter.Job{ID: arbiter.JobID(fmt.Sprint("ann", i)), User: "ann", Queue: "q"}, amounts{gpu: 1})
	}
	for i := range 3 {
		submit(t, tree, arbiter.Job{ID: arbiter.JobID(fmt.Sprint("bob", i)), User: "bob", Queue: "q", Submitted: 1}, amounts{gpu: 1})
	}
	submit(t, tree, arbiter.Job{ID: "cho0", User: "cho", Queue: "q", Submitted: 2}, amounts{gpu: 1})
	submit(t, tree, arbiter.Job{ID: "cho1", User: "cho", Queue: "q", Submitted: 2}, amounts{gpu: 1})
	var got []arbiter.JobID
	for range 8 { // one placement per pass
		for o := range tree.Candidates(10) {
			got = append(got, o.Job.ID)
			o.Place(nil)
			break
		}
		if len(got) == 4 { // queues are configured anew in between
			if err := tree.SetQueues([]arbiter.Queue{{Name: "q", Order: arbiter.RoundRobin}}); err != nil {
				t.Fatal(err)
			}
		}
	}
	if want := "[ann0 bob0 cho0 ann1 bob1 cho1 ann2 bob2]"; fmt.Sprint(got) != want {
		t.Errorf("got %v, want %s", got, want)
	}
}

// TestOutcomes: what the consumer says decides what is offered next.
func TestOutcomes(t *testing.T) {
	tree := newTree(t, amounts{gpu: 99}, arbiter.Queue{Name: "a"}, arbiter.Queue{Name: "b"})
	submitMany(t, tree, "a", 3, amounts{gpu: 1})
	submitMany(t, tree, "b", 3, amounts{gpu: 1})
	submit(t, tree, arbiter.Job{ID: "rack", Queue: "b", Class: "one rack", Submitted: 9}, amounts{gpu: 1})
	submit(t, tree, arbiter.Job{ID: "wide", Queue: "b", Submitted: 9}, amounts{gpu: 2})
	pass := func(say func(o *arbiter.Offer)) string {
		var got []arbiter.JobID
		for o := range tree.Candidates(0) {
			got = append(got, o.Job.ID)
			say(o)
		}
		return fmt.Sprint(got)
	}
	for _, tt := range []struct {
		name, want string
		say        func(o *arbiter.Offer)
	}{
		{"nothing", "[a-0000 a-0001 a-0002 b-0000 b-0001 b-0002 rack wide]", func(*arbiter.Offer) {}},
		{"no capacity: once per class, whatever the queue", "[a-0000 rack wide]", (*arbiter.Offer).NoCapacity},
		{"close: once per queue", "[a-0000 b-0000]", (*arbiter.Offer).CloseQueue},
		{"a change ends the pass", "[a-0000]", func(*arbiter.Offer) { tree.Remove("b-0002") }},
		{"only the first word counts", "[a-0000 rack wide]", func(o *arbiter.Offer) { o.NoCapacity(); o.Place(nil); o.CloseQueue() }},
	} {
		if got := pass(tt.say); got != tt.want {
			t.Errorf("%s: got %s, want %s", tt.name, got, tt.want)
		}
	}
	if _, running := tree.Size(); running != 0 {
		t.Errorf("%d running", running)
	}
}

// TestNothingStarves: a small low-priority job competes with an endless stream of
// jobs that all go before it by the queue's policy. One place is free per pass. It
// starts in the pass it is over age at the latest, plus one for each older job.
func TestNothingStarves(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		policy := rapid.SampledFrom(arbiter.Policies()).Draw(t, "policy")
		aging := rapid.Int64Range(1, 20).Draw(t, "aging")
		older := rapid.Int64Range(0, 5).Draw(t, "older")
		tree, err := arbiter.NewTree([]arbiter.Queue{{Name: "q", Order: policy, Aging: time.Duration(aging)}, {Name: "other"}}, amounts{gpu: 1 << 20})
		if err != nil {
			t.Fatal(err)
		}
		add := func(id string, user string, priority int32, at int64) {
			if err := tree.Submit(arbiter.Job{
				ID: arbiter.JobID(id), Queue: "q", User: user, Priority: priority, Submitted: at,
				ExpectedRuntime: time.Duration(1000 - priority), Demand: arbiter.NewAmounts(amounts{gpu: 1}),
			}); err != nil {
				t.Fatal(err)
			}
		}
		for i := range older {
			add(fmt.Sprint("older", i), "u", 5, -1)
		}
		add("patient", "u", 0, 0)
		for now := int64(1); ; now++ {
			for i := range 3 {
				add(fmt.Sprint("stream", now, i), fmt.Sprint("user", now, i), 10, now)
			}
			for o := range tree.Candidates(now) {
				o.Place(nil)
				break
			}
			if tree.Charged("patient") != nil {
				return
			}
			if now > aging+older {
				t.Fatalf("not started at %d, aging %d, %d older", now, aging, older)
			}
		}
	})
}

func TestRuntimes(t *testing.T) {
	var r arbiter.Runtimes
	ann := arbiter.RuntimeKey{Owner: "ml/ann", Shape: "8xA100"}
	if _, ok := r.Estimate(ann); ok {
		t.Error("knows what it was not told")
	}
	for _, minutes := range []time.Duration{10, 20, 30} {
		r.Observe(ann, minutes*time.Minute)
	}
	r.Observe(ann, -time.Minute)
	check := func(k arbiter.RuntimeKey, want time.Duration) {
		t.Helper()
		if got, ok := r.Estimate(k); !ok || got != want {
			t.Errorf("%v: %v, want %v", k, got, want)
		}
	}
	check(ann, 20*time.Minute)
	check(arbiter.RuntimeKey{Owner: "ml/ann", Shape: "1xT4"}, 20*time.Minute)
	check(arbiter.RuntimeKey{Owner: "ml/bob", Shape: "8xA100"}, 20*time.Minute)
	for range 20 {
		r.Observe(ann, time.Hour)
	}
	if got, _ := r.Estimate(ann); got < 59*time.Minute {
		t.Errorf("old runs still count: %v", got)
	}
	if _, ok := r.Estimate(arbiter.RuntimeKey{Owner: "x", Shape: "y"}); ok {
		t.Error("guesses for strangers")
	}
}

// TestRuntimesForget: of many keys only the latest are held, and what is still in use
// is not lost.
func TestRuntimesForget(t *testing.T) {
	var r arbiter.Runtimes
	daily := arbiter.RuntimeKey{Owner: "ml/ann"}
	for i := range 200_000 {
		r.Observe(arbiter.RuntimeKey{Owner: fmt.Sprint("ml/", i)}, time.Minute)
		if i%1000 == 0 {
			r.Observe(daily, time.Hour)
		}
	}
	if d, ok := r.Estimate(daily); !ok || d != time.Hour {
		t.Errorf("the daily run takes %v, %v", d, ok)
	}
	if _, ok := r.Estimate(arbiter.RuntimeKey{Owner: "ml/1"}); ok {
		t.Error("a run of long ago is still known")
	}
}
