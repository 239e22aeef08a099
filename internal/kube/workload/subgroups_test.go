package workload

import (
	"fmt"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"

	"github.com/tangram-dev/tangram/api/names"
	"github.com/tangram-dev/tangram/core/engine"
	"github.com/tangram-dev/tangram/internal/dialect"
)

// member is a pod in a subgroup of gang g.
func (w *world) member(name, subgroup, groups string) *v1.Pod {
	p := w.pod(name, "g", 1, 1)
	delete(p.Labels, names.LabelGangSize)
	p.Labels[names.LabelGangGroup], p.Annotations[names.AnnotationGangGroups] = subgroup, groups
	return p
}

func rolesInWords(g engine.Gang) string {
	var out []string
	for _, r := range g.Roles {
		out = append(out, fmt.Sprintf("%s:%d", r.Subgroup, len(r.Members)))
	}
	return strings.Join(out, " ")
}

// Pods that are alike are in a role for each subgroup; the gang has the subgroups that its
// pods name, and members that succeeded are not missed.
func TestSubgroups(t *testing.T) {
	const groups = "a b: min=2 required=rack; *: groups=1"
	w := newWorld(t)
	w.set(w.member("a-0", "a", groups), w.member("b-0", "b", groups), w.member("a-1", "a", groups))
	g := w.describe("label/default/g")
	if got := rolesInWords(g); got != "a:2 b:1" || len(g.Subgroups) != 2 || g.MinGroups != 1 || g.Invalid != "" || g.Subgroups[1].Require.Name != "rack" {
		t.Errorf("%s in %+v: %s", got, g.Subgroups, g.Invalid)
	}
	if err := g.Validate(); err != nil {
		t.Error(err)
	}
	done := w.member("b-1", "b", groups)
	done.Status.Phase = v1.PodSucceeded
	l, _ := w.Unsure("label/default/g")
	w.Succeeded(l, []v1.Pod{*done}, true)
	if g = w.describe("label/default/g"); g.Subgroups[0].Min != 2 || g.Subgroups[1].Min != 1 {
		t.Errorf("%+v", g.Subgroups)
	}
}

// What is wrong is told by field and pod, and the gang does not start; what runs of it is
// counted.
func TestSubgroupsInvalid(t *testing.T) {
	const groups = "a b: min=2"
	for want, change := range map[string]func(p *v1.Pod){
		`pod x: metadata.labels[tangram.dev/gang-group]: "c" is not one of a, b`: func(p *v1.Pod) { p.Labels[names.LabelGangGroup] = "c" },
		`members of one gang contradict each other: metadata.annotations[tangram.dev/gang-groups]: "a: min=2" of pod default/x, "a b: min=2" of pod default/a-0`: func(p *v1.Pod) {
			p.Annotations[names.AnnotationGangGroups] = "a: min=2"
		},
	} {
		w := newWorld(t)
		x := w.member("x", "a", groups)
		change(x)
		w.set(w.member("a-0", "a", groups), x)
		g := w.describe("label/default/g")
		if g.Invalid != want || g.Validate() != nil {
			t.Errorf("%s (%v), want %s", g.Invalid, g.Validate(), want)
		}
	}
	w := newWorld(t)
	w.set(w.member("a-0", "a", "a: min="))
	if g := w.describe("label/default/g"); !strings.HasPrefix(g.Invalid, "metadata.annotations[tangram.dev/gang-groups]: ") || len(g.Subgroups) != 0 || g.Validate() != nil {
		t.Errorf("%+v", g)
	}
	// A pod without its label is alone, and told so; the others wait for it.
	x := w.member("x", "", groups)
	delete(x.Labels, names.LabelGangGroup)
	w.set(x)
	if g := w.describe(engine.ID("pod/" + string(x.UID))); !strings.HasPrefix(g.Invalid, "metadata.labels[tangram.dev/gang-group]: missing") {
		t.Errorf("%+v", g)
	}
}

// TestSubgroupOfNone: a pod that names a subgroup, in KAI's words, of a PodGroup without any
// is told so.
func TestSubgroupOfNone(t *testing.T) {
	w := newWorld(t)
	w.serve(dialect.KAIGroups, `{apiVersion: scheduling.run.ai/v2alpha2, kind: PodGroup, metadata: {name: g, namespace: default}, spec: {minMember: 1}}`)
	p := w.pod("p", "", 0, 1)
	p.Annotations["pod-group-name"] = "g"
	labelled(labelled(p, "kai.scheduler/queue", "default"), "kai.scheduler/subgroup-name", "a")
	w.set(p)
	const want = `pod p: metadata.labels[kai.scheduler/subgroup-name]: "a", but PodGroup default/g has no subgroups`
	if g := w.describe("kai/default/g"); g.Invalid != want {
		t.Errorf("got %q", g.Invalid)
	}
}

// TestDelayedAgain: a gang whose delay is over and that has another one is looked at again
// at the end of that.
func TestDelayedAgain(t *testing.T) {
	w := newWorld(t)
	p := labelled(w.pod("p", "", 0, 1), "kai.scheduler/queue", "default")
	p.Annotations["kai.scheduler/preemption-delay"] = "1m"
	for _, delay := range []string{"1m", "5m"} {
		p = p.DeepCopy()
		p.Annotations["kai.scheduler/preemption-delay"] = delay
		w.set(p)
		if g := w.describe("pod/uid-p"); !g.NeverPreempts {
			t.Fatalf("no delay of %s", delay)
		}
		at := w.Next()
		if !at.After(w.now) {
			t.Fatalf("delay of %s: looked at again at %s, now is %s", delay, at, w.now)
		}
		w.now = at
		w.Due(w.now)
		if g := w.describe("pod/uid-p"); g.NeverPreempts {
			t.Fatalf("still delayed after %s", delay)
		}
	}
}
