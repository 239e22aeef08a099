package arbiter_test

import (
	"strings"
	"testing"

	"github.com/tangram-dev/tangram/core/arbiter"
	"github.com/tangram-dev/tangram/core/explain"
)

func TestBadQueuesAreRejectedByName(t *testing.T) {
	tests := []struct {
		name   string
		queues []arbiter.Queue
		want   string
	}{
		{"two of a name", []arbiter.Queue{{Name: "a"}, {Name: "a"}}, `queue "a": metadata.name: there are two`},
		{"no name", []arbiter.Queue{{}}, `queue "": metadata.name: is empty`},
		{"unknown parent", []arbiter.Queue{{Name: "a", Parent: "b"}}, `queue "a": spec.parent: there is no queue "b"`},
		{"own parent", []arbiter.Queue{{Name: "a", Parent: "a"}}, `queue "a": spec.parent: the parents form a circle: a -> a`},
		{"circle", []arbiter.Queue{{Name: "a", Parent: "b"}, {Name: "b", Parent: "c"}, {Name: "c", Parent: "a"}},
			`queue "a": spec.parent: the parents form a circle: a -> b -> c -> a`},
		{"parent of the root", []arbiter.Queue{{Name: "a"}, {Name: "root", Parent: "a"}}, `queue "root": spec.parent: the root queue has none, got "a"`},
		{"below default", []arbiter.Queue{{Name: "a", Parent: "default"}}, `queue "a": spec.parent: "default" takes the jobs that name no queue, so it cannot have queues below it`},
		{"negative weight", []arbiter.Queue{{Name: "a", Weight: -1}}, `queue "a": spec.weight: -1 is negative`},
		{"absurd weight", []arbiter.Queue{{Name: "a", Weight: 1 << 21}}, `queue "a": spec.weight: 2097152 is above 1048576`},
		{"no such policy", []arbiter.Queue{{Name: "a", Order: 9}}, `queue "a": order: 9 is no policy`},
		{"negative amount", []arbiter.Queue{{Name: "a", Deserved: amounts{cpu: -2}}}, `queue "a": spec.deserved[cpu]: -2 is negative`},
		{"absurd amount", []arbiter.Queue{{Name: "a", Guarantee: amounts{cpu: 1 << 53}}}, `queue "a": spec.guarantee[cpu]: 9007199254740992 is above 4503599627370496`},
		{"capability below guarantee", []arbiter.Queue{{Name: "a", Capability: amounts{gpu: 4}, Guarantee: amounts{gpu: 8}}},
			`queue "a": spec.capability[nvidia.com/gpu]: 4 is below spec.guarantee 8`},
		{"capability below deserved", []arbiter.Queue{{Name: "a", Capability: amounts{gpu: 4}, Deserved: amounts{gpu: 8}}},
			`queue "a": spec.capability[nvidia.com/gpu]: 4 is below spec.deserved 8`},
		{"deserved below guarantee", []arbiter.Queue{{Name: "a", Deserved: amounts{gpu: 4}, Guarantee: amounts{gpu: 8}}},
			`queue "a": spec.deserved[nvidia.com/gpu]: 4 is below spec.guarantee 8`},
		{"children above the parent's capability", []arbiter.Queue{
			{Name: "p", Capability: amounts{gpu: 7}}, {Name: "a", Parent: "p", Guarantee: amounts{gpu: 4}}, {Name: "b", Parent: "p", Guarantee: amounts{gpu: 4}}},
			`queue "p": spec.capability[nvidia.com/gpu]: 7 is below the guarantees of its children, 8`},
		{"children above the parent's guarantee", []arbiter.Queue{
			{Name: "p", Guarantee: amounts{gpu: 4}}, {Name: "a", Parent: "p", Guarantee: amounts{gpu: 5}}},
			`queue "p": spec.guarantee[nvidia.com/gpu]: 4 is below the guarantees of its children, 5`},
		{"guarantee of the root", []arbiter.Queue{{Name: "root", Guarantee: amounts{gpu: 4}}}, `queue "root": spec: the root queue has the whole cluster; guarantee and deserved mean nothing there`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, err := arbiter.NewTree(tt.queues, amounts{gpu: 8})
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got error %v\nwant %s", err, tt.want)
			}
		})
	}
}

func TestBadQueuesChangeNothing(t *testing.T) {
	tree := newTree(t, amounts{gpu: 8}, arbiter.Queue{Name: "a", Capability: amounts{gpu: 4}})
	submit(t, tree, arbiter.Job{ID: "j", Queue: "a"}, amounts{gpu: 5})
	if err := tree.SetQueues([]arbiter.Queue{{Name: "a"}, {Name: "b", Weight: -1}}); err == nil {
		t.Fatal("no error")
	}
	if w := tree.Why("j"); w.Code != explain.OverCapability || w.Limit != 4 {
		t.Errorf("the rejected queues took effect: %v", w)
	}
}

func TestBadJobsAndQuotas(t *testing.T) {
	tree := newTree(t, amounts{gpu: 8})
	for want, err := range map[string]error{
		`submit job "": id: is empty`:                                                        tree.Submit(arbiter.Job{}),
		`submit job "j": demand[nvidia.com/gpu]: -1 is negative`:                             tree.Submit(arbiter.Job{ID: "j", Demand: arbiter.Amounts{{gpu, -1}}}),
		`submit job "j": demand[nvidia.com/gpu]: 4503599627370497 is above 4503599627370496`: tree.Submit(arbiter.Job{ID: "j", Demand: arbiter.Amounts{{gpu, arbiter.MaxAmount + 1}}}),
		`submit job "j": extra: a resource has no name`:                                      tree.Submit(arbiter.Job{ID: "j", Extra: arbiter.Amounts{{"", 1}}}),
		`submit job "j": extra[cpu]: not in order of names`:                                  tree.Submit(arbiter.Job{ID: "j", Extra: arbiter.Amounts{{gpu, 1}, {cpu, 1}}}),
		`charge job "j": amounts[nvidia.com/gpu]: -1 is negative`:                            tree.Charge(arbiter.Job{ID: "j"}, arbiter.Amounts{{gpu, -1}}),
		`shrink job "j": it is not charged`:                                                  tree.Shrink("j", nil),
		`quota of namespace "n": there are two`:                                              tree.SetQuotas([]arbiter.Quota{{Namespace: "n"}, {Namespace: "n"}}),
		`quota of namespace "n": hard[nvidia.com/gpu]: -1 is negative`:                       tree.SetQuotas([]arbiter.Quota{{Namespace: "n", Hard: amounts{gpu: -1}}}),
		`total[nvidia.com/gpu]: -1 is negative`:                                              tree.SetTotal(amounts{gpu: -1}),
	} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got error %v, want %s", err, want)
		}
	}
	if w, r := tree.Size(); w+r != 0 {
		t.Errorf("%d waiting, %d running", w, r)
	}
}

// TestUsable: a queue with a mistake is left out and told so; the others count.
func TestUsable(t *testing.T) {
	queues := []arbiter.Queue{
		{Name: "good"}, {Name: "team", Parent: "good", Guarantee: amounts{gpu: 1}},
		{Name: "orphan", Parent: "nobody"}, {Name: "child", Parent: "orphan"},
		{Name: "hen", Parent: "egg"}, {Name: "egg", Parent: "chick"}, {Name: "chick", Parent: "hen"}, {Name: "fox", Parent: "hen"},
		{Name: "poor", Capability: amounts{gpu: 4}}, {Name: "heir", Parent: "poor", Guarantee: amounts{gpu: 5}}, {Name: "kin", Parent: "heir", Guarantee: amounts{gpu: 5}},
		{Name: "light", Weight: -1},
	}
	usable, mistakes := arbiter.Usable(queues)
	var kept []string
	for _, q := range usable {
		kept = append(kept, q.Name)
		if promised := len(q.Guarantee) > 0; promised != (q.Name == "team" || q.Name == "kin") {
			t.Errorf("%s is guaranteed %v", q.Name, q.Guarantee)
		}
	}
	if got := strings.Join(kept, " "); got != "good heir kin poor team" {
		t.Errorf("kept %s", got)
	}
	for name, want := range map[string]string{
		"orphan": `spec.parent: there is no queue "nobody"`, "child": `spec.parent: queue "orphan" is invalid itself`,
		"hen": "spec.parent: the parents form a circle: hen -> egg -> chick -> hen", "egg": "circle", "chick": "circle",
		"fox": `spec.parent: queue "hen" is invalid itself`, "poor": "the guarantees of its children, 5", "light": "spec.weight",
	} {
		if err := mistakes[name]; err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", name, err, want)
		}
	}
	if len(mistakes) != 8 {
		t.Errorf("mistakes %v", mistakes)
	}
	if err := arbiter.ValidateQueues(usable); err != nil {
		t.Error(err)
	}
	if len(queues[9].Guarantee) == 0 {
		t.Error("what was given was changed")
	}
}
