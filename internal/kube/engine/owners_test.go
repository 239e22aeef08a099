package engine

import (
	"fmt"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/tangram-dev/tangram/api/names"
	"github.com/tangram-dev/tangram/core/engine"
	"github.com/tangram-dev/tangram/internal/dialect"
	"github.com/tangram-dev/tangram/internal/kube/workload"
)

// owned makes a pod one of the Job "train".
func owned(p *v1.Pod) *v1.Pod {
	yes := true
	p.OwnerReferences = []metav1.OwnerReference{{APIVersion: "batch/v1", Kind: "Job", Name: "train", UID: "job", Controller: &yes}}
	return p
}

// job is the Job "train" with so many pods.
func job(parallelism int64) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{"apiVersion": "batch/v1", "kind": "Job",
		"metadata": map[string]any{"name": "train", "namespace": "default", "uid": "job"},
		"spec":     map[string]any{"completionMode": "Indexed", "parallelism": parallelism, "completions": parallelism}}}
}

// TestOwnerSeenLate: pods of a Job that is seen after them wait for it; a bound one
// keeps its devices when it turns out to be in a gang.
func TestOwnerSeenLate(t *testing.T) {
	s := newSetup(t, 4, dialect.Jobs)
	old := owned(s.member("w0", "", 0, 8)) // from before this process
	old.CreationTimestamp = metav1.NewTime(s.now.Add(-time.Hour))
	old.Spec.NodeName = "n1"
	young := owned(s.member("w1", "", 0, 8))
	s.add(old, young)
	if turn := s.Step(); !s.gate.Waits(young) || len(turn.Activate) > 0 {
		t.Error("not kept waiting before the Job is seen")
	}
	s.groups[dialect.Jobs].Add(job(2))
	s.eventually("the other is planned", func() bool { s.Step(); return s.gate.Released(young) })
	r := s.release(young)
	if r.Node.ID == "n1" || s.held() != 2 {
		t.Errorf("planned on %s, %d held", r.Node.ID, s.held())
	}
	if a, b := s.gangOf(old), s.gangOf(young); a != b {
		t.Errorf("in gangs %q and %q", a, b)
	}
	s.bind(young, r)
	if n, err := s.Check(); err != nil || n != 2 {
		t.Errorf("%d held: %v", n, err)
	}
}

// TestChangedGangs: pods may be edited into other gangs, also in exchange.
func TestChangedGangs(t *testing.T) {
	s := newSetup(t, 1)
	s.add(s.member("a0", "a", 2, 8), s.member("a1", "a", 2, 8), s.member("b0", "b", 2, 8), s.member("b1", "b", 2, 8))
	s.Step()
	move := func(pod, gang string) { s.edit(pod, func(p *v1.Pod) { p.Labels[names.LabelGang] = gang }) }
	for _, moves := range [][2]string{{"a1", "b"}, {"a1", "a"}} {
		move(moves[0], moves[1])
		if s.Step(); s.gangOf(s.latest("a1")) != engine.ID("label/default/"+moves[1]) {
			t.Errorf("in gang %q, want %s", s.gangOf(s.latest("a1")), moves[1])
		}
	}
	move("a1", "b")
	move("b1", "a")
	if s.Step(); s.gangOf(s.latest("a1")) != "label/default/b" || s.gangOf(s.latest("b1")) != "label/default/a" {
		t.Errorf("in gangs %q and %q", s.gangOf(s.latest("a1")), s.gangOf(s.latest("b1")))
	}
}

// TestOwnerGone: a pod whose owner is gone is placed alone after a while, and one that
// asks for no GPU is left to kube-scheduler.
func TestOwnerGone(t *testing.T) {
	s := newSetup(t, 1, dialect.Jobs)
	p, cpu := owned(s.member("w0", "", 0, 1)), owned(s.member("cpu", "", 0, 0))
	cpu.Spec.Containers[0].Resources = v1.ResourceRequirements{}
	s.add(p, cpu)
	turn := s.Step()
	if len(turn.Activate) > 0 || !s.gate.Waits(p) || !s.gate.Waits(cpu) {
		t.Fatal("not kept waiting while the owner may come")
	}
	if turn.Next > workload.OwnerPatience+time.Millisecond {
		t.Errorf("looked at again after %s", turn.Next)
	}
	turn = s.after(workload.OwnerPatience + time.Millisecond)
	if len(turn.Activate) != 2 {
		t.Errorf("%d activated", len(turn.Activate))
	}
	s.release(p)
	if s.gate.Manages(cpu) || s.gate.Waits(cpu) {
		t.Error("a pod without GPUs whose owner is gone is not left to kube-scheduler")
	}
}

// TestFreeNoMore: a pod that was kube-scheduler's and becomes one of a gang is the engine's
// again: else nobody would take it to the place that is planned for it.
func TestFreeNoMore(t *testing.T) {
	s := newSetup(t, 1, dialect.Jobs)
	cpu := owned(s.member("cpu", "", 0, 0))
	cpu.Spec.Containers[0].Resources = v1.ResourceRequirements{}
	s.add(cpu)
	s.groups[dialect.Jobs].Add(job(1))
	s.eventually("the Job's only pod is kube-scheduler's", func() bool { s.Step(); return !s.gate.Manages(cpu) })
	s.edit("cpu", func(p *v1.Pod) { p.Labels[names.LabelGang], p.Labels[names.LabelGangSize] = "g", "1" })
	if s.Step(); !s.gate.Manages(s.latest("cpu")) || !s.gate.Released(cpu) {
		t.Errorf("managed %v, released %v", s.gate.Manages(s.latest("cpu")), s.gate.Released(cpu))
	}
}

// TestStandbyRests: a process that does not lead says which pods are kube-scheduler's, once,
// and then waits for the next event: with nothing to do it would look again and again.
func TestStandbyRests(t *testing.T) {
	s := newSetup(t, 1, dialect.Jobs)
	cpu := owned(s.member("cpu", "", 0, 0))
	cpu.Spec.Containers[0].Resources = v1.ResourceRequirements{}
	s.add(cpu)
	s.Sync()
	s.groups[dialect.Jobs].Add(job(1))
	var free []*v1.Pod
	s.eventually("the Job's only pod is kube-scheduler's", func() bool {
		free = append(free, s.Sync()...)
		return !s.gate.Manages(cpu)
	})
	select {
	case <-s.Kicked(): // by the events until here
	default:
	}
	if len(free) != 1 || free[0].UID != cpu.UID || len(s.Sync()) > 0 {
		t.Errorf("%d pods are kube-scheduler's, or one twice", len(free))
	}
	select {
	case <-s.Kicked():
		t.Error("a standby looks again though nothing happened")
	default:
	}
}

// TestSucceeded: members that succeeded are not missing. They are looked up once when
// a gang waits for members, and again when it lost some; where as many live as are
// needed, those of an earlier run count for nothing.
func TestSucceeded(t *testing.T) {
	s := newSetup(t, 2)
	lookups := func() []workload.Lookup {
		t.Helper()
		for range 100 {
			if turn := s.after(time.Second); len(turn.Lookups) > 0 {
				return turn.Lookups
			}
		}
		t.Fatal("nothing is looked up")
		return nil
	}
	s.add(s.member("c", "g", 3, 8))
	l := lookups()
	if len(l) != 1 || l[0].Gang != "label/default/g" || l[0].Namespace != "default" || l[0].Labels[names.LabelGang] != "g" {
		t.Fatalf("looks for %+v", l)
	}
	var ended []v1.Pod
	for _, name := range []string{"a", "b", "other"} {
		p := s.member(name, "g", 3, 8)
		p.Status.Phase = v1.PodSucceeded
		if name == "other" {
			p.Labels[names.LabelGang] = "h"
		}
		ended = append(ended, *p)
	}
	s.Succeeded(l[0], nil, false) // it could not be found out: asked again
	s.Succeeded(lookups()[0], ended[:1], true)
	if s.Step(); s.held() != 0 {
		t.Fatal("one of three succeeded, one is missing")
	}
	s.deletePod("c")
	s.add(s.member("c2", "g", 3, 8))
	s.Succeeded(lookups()[0], ended, true)
	// As they may be the first of a next run, they wait for a while.
	if s.after(workload.NextRunFor + time.Second); s.held() != 1 {
		t.Error("the third of three waits for two that succeeded")
	}
	// More members than are missing: they are the next run.
	s.deletePod("c2")
	for _, name := range []string{"x", "y", "z"} {
		s.add(s.member(name, "g", 3, 8))
	}
	s.Succeeded(l[0], ended, true)
	if s.Step(); s.held() != 0 {
		t.Error("two of three of the next run started")
	}
}

// TestNextRunUnderOneName: pods of an earlier run that succeeded lie around under the
// gang's name. The first members of the next run wait for the others; but not for
// ever, since they may be the last of a run that lost them.
func TestNextRunUnderOneName(t *testing.T) {
	s := newSetup(t, 3)
	var ended []v1.Pod
	for i := range 3 {
		p := s.member(fmt.Sprint("old", i), "g", 3, 8)
		p.Status.Phase = v1.PodSucceeded
		ended = append(ended, *p)
	}
	look := workload.Lookup{Gang: "label/default/g", Namespace: "default"}
	s.add(s.member("a", "g", 3, 8), s.member("b", "g", 3, 8))
	s.Sync()
	s.Succeeded(look, ended, true)
	if s.Step(); s.held() != 0 {
		t.Fatal("two of three started")
	}
	s.add(s.member("c", "g", 3, 8))
	if s.Step(); s.held() != 3 {
		t.Error("the next run does not start")
	}

	s = newSetup(t, 3)
	s.add(s.member("a", "g", 3, 8))
	s.Sync()
	s.Succeeded(look, ended, true)
	began := s.now
	for turn := s.Step(); s.held() == 0; turn = s.after(turn.Next) {
		if s.now.Sub(began) > time.Hour {
			t.Fatal("one that may be the last of its run does not start")
		}
	}
	if d := s.now.Sub(began); d < workload.NextRunFor || d > workload.NextRunFor+time.Second {
		t.Errorf("started after %s", d)
	}
}

// TestTaskMinimums: minimums of tasks hold whatever their pods look like.
func TestTaskMinimums(t *testing.T) {
	s := newSetup(t, 4, dialect.PodGroups)
	s.groups[dialect.PodGroups].Add(&unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "PodGroup", "metadata": map[string]any{"name": "pg", "namespace": "default"},
		"spec": map[string]any{"minMember": int64(3), "minTaskMember": map[string]any{"ps": int64(1), "worker": int64(2)}},
	}})
	add := func(name, task string, gpus int64) {
		p := s.member(name, "", 0, gpus)
		p.Annotations = map[string]string{names.AnnotationKubeGroup: "pg", names.AnnotationVolcanoTask: task}
		s.add(p)
	}
	s.eventually("the group is known", func() bool { return s.objects[dialect.PodGroups].Get("default/pg") != nil })
	add("w0", "worker", 1)
	add("w1", "worker", 1)
	add("w2", "worker", 2)
	if turn := s.Step(); len(turn.Activate) != 0 {
		t.Error("started without its ps")
	}
	add("ps", "ps", 1)
	if turn := s.Step(); len(turn.Activate) != 4 {
		t.Errorf("%d started, want all 4", len(turn.Activate))
	}
}

// TestManyMembers: the engine hears of a gang once per step, however many of its pods
// came.
func TestManyMembers(t *testing.T) {
	s := newSetup(t, 4)
	const n = 400
	s.gang("big", n, 1)
	began := time.Now()
	s.Step()
	if s.held() != 0 {
		t.Error("some started, and not all can")
	}
	if d := time.Since(began); d > 5*time.Second {
		t.Errorf("a gang of %d was described and decided in %s", n, d)
	}
}

// TestOwnerOfAnotherNamespace: a pod that names the UID of a Job of another namespace, and
// has a Job of that name in its own, is in no gang with that Job's pods: it neither uses
// their queue nor contradicts them.
func TestOwnerOfAnotherNamespace(t *testing.T) {
	s := newSetup(t, 4, dialect.Jobs, dialect.Queues)
	s.groups[dialect.Queues].Add(queue("theirs", map[string]any{}))
	s.groups[dialect.Jobs].Add(job(2))
	forged := job(2)
	forged.SetNamespace("other")
	s.groups[dialect.Jobs].Add(forged)
	var theirs []*v1.Pod
	for i := range 2 {
		p := owned(s.member(fmt.Sprintf("w%d", i), "", 0, 8))
		p.Labels[names.LabelQueue] = "theirs"
		theirs = append(theirs, p)
	}
	intruder := owned(s.member("intruder", "", 0, 8))
	intruder.Namespace = "other"
	intruder.Labels[names.LabelQueue] = "no-such-queue" // in one gang, that would keep all of them waiting
	s.add(append(theirs, intruder)...)
	s.eventually("the gang starts without the intruder", func() bool {
		s.Step()
		return s.gate.Released(theirs[0]) && s.gate.Released(theirs[1])
	})
	if a, b := s.gangOf(theirs[0]), s.gangOf(intruder); a == b || s.gate.Released(intruder) {
		t.Errorf("in gangs %q and %q, the intruder is released: %v", a, b, s.gate.Released(intruder))
	}
}
