package arbiter_test

import (
	"testing"

	"github.com/tangram-dev/tangram/core/arbiter"
)

// Accounts are the figures of Holdings, resource by resource, with limits and wants.
func TestAccounts(t *testing.T) {
	tree := newTree(t, amounts{"gpu": 8000, "cpu": 100},
		arbiter.Queue{Name: "research", Weight: 3, Guarantee: amounts{"gpu": 1000}, Capability: amounts{"gpu": 6000}},
		arbiter.Queue{Name: "a", Parent: "research"},
		arbiter.Queue{Name: "shut", Closed: true})
	submitMany(t, tree, "a", 9, amounts{"gpu": 1000})
	placeAll(tree, 0)
	submitMany(t, tree, "shut", 1, amounts{"cpu": 1})
	byName := map[string]arbiter.Account{}
	seen := map[string]bool{"": true}
	for _, a := range tree.Accounts() {
		if !seen[a.Parent] {
			t.Errorf("%s comes before its parent %s", a.Queue, a.Parent)
		}
		byName[a.Queue], seen[a.Queue] = a, true
	}
	line := func(queue string, r arbiter.Resource) arbiter.AccountLine {
		for _, l := range byName[queue].Lines {
			if l.Resource == r {
				return l
			}
		}
		return arbiter.AccountLine{Resource: "none"}
	}
	if a := byName["a"]; a.Parent != "research" || a.Closed || a.Weight != 1 {
		t.Errorf("a: %+v", a)
	}
	if !byName["shut"].Closed {
		t.Error("shut is open")
	}
	if got, want := line("research", "gpu"), (arbiter.AccountLine{Resource: "gpu", Guarantee: 1000, Capability: 6000, Share: 6000, Used: 6000, Wanted: 6000}); got.Used != want.Used || got.Guarantee != want.Guarantee || got.Capability != want.Capability || got.Wanted != want.Wanted {
		t.Errorf("research: %+v, want %+v", got, want)
	}
	if got := line("a", "gpu"); got.Guarantee != -1 || got.Capability != -1 || got.Used != 6000 || got.Wanted != 9000 {
		t.Errorf("a: %+v", got)
	}
	if got := line("a", "cpu"); got.Resource != "none" {
		t.Errorf("a has nothing of cpu, and shows %+v", got)
	}
	holdings := tree.Holdings(func(r arbiter.Resource) bool { return r == "gpu" })
	for _, h := range holdings {
		if l := line(h.Queue, "gpu"); l.Resource != "none" && (l.Used != h.Used || l.Share != h.Share) {
			t.Errorf("%s: %+v, holdings %+v", h.Queue, l, h)
		}
	}
}

// A queue takes jobs of the namespaces that it and those above it name.
func TestTakes(t *testing.T) {
	tree := newTree(t, amounts{"gpu": 1}, arbiter.Queue{Name: "up", Namespaces: []string{"a", "b"}}, arbiter.Queue{Name: "low", Parent: "up", Namespaces: []string{"b", "c"}}, arbiter.Queue{Name: "open"})
	for _, c := range []struct {
		queue, namespace string
		want             bool
	}{{"low", "a", false}, {"low", "b", true}, {"low", "c", false}, {"open", "x", true}, {"up", "a", false}, {"none", "a", false}} {
		if got := tree.Takes(c.queue, c.namespace); got != c.want {
			t.Errorf("%+v: %v", c, got)
		}
	}
}

// Order has every job that waits for room or its turn, once, and no other.
func TestOrder(t *testing.T) {
	tree := newTree(t, amounts{"gpu": 2000}, arbiter.Queue{Name: "a"}, arbiter.Queue{Name: "b", Capability: amounts{"gpu": 500}}, arbiter.Queue{Name: "shut", Closed: true})
	submitMany(t, tree, "a", 3, amounts{"gpu": 1000})
	submitMany(t, tree, "b", 2, amounts{"gpu": 1000}) // never
	submitMany(t, tree, "shut", 1, amounts{"gpu": 1})
	placeAll(tree, 0)
	seen := map[arbiter.JobID]int{}
	for job := range tree.Order(0) {
		seen[job.ID]++
		if job.Queue == "shut" {
			t.Errorf("%s waits for an administrator", job.ID)
		}
	}
	for id, n := range seen {
		if n != 1 {
			t.Errorf("%s is there %d times", id, n)
		}
	}
	if len(seen) != 3 { // one of a's, both of b's
		t.Errorf("%v, want 3", seen)
	}
}
