package state

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/tangram-dev/tangram/api/names"
	"github.com/tangram-dev/tangram/core/model"
	"github.com/tangram-dev/tangram/internal/dialect"
)

// TestBatchFails: until the last member is at Permit, one that fails takes back the
// places of all, at once; nobody may go on with a place that was taken back.
func TestBatchFails(t *testing.T) {
	s := newGangSetup(t, 4)
	pods, releases := s.gangOf4(8)
	for i := range 2 {
		if _, ok := s.Take(pods[i], releases[i]); !ok {
			t.Fatal("the place is gone")
		}
		if ready, _, ok := s.Reserved(pods[i], releases[i]); ready || !ok {
			t.Fatalf("%d of 4 reserved: ready %v, ok %v", i+1, ready, ok)
		}
	}
	waiting := s.Fail(pods[2], releases[2], false)
	if want := []model.HolderID{"uid-m0", "uid-m1", "uid-m3"}; !slices.Equal(waiting, want) {
		t.Errorf("told to stop: %v, want %v", waiting, want)
	}
	if n := s.held(); n != 0 {
		t.Errorf("%d still held", n)
	}
	// m3 was in the middle of its cycle, m0's Unreserve comes late.
	if _, ok := s.Take(pods[3], releases[3]); ok {
		t.Error("a place that was taken back was taken")
	}
	turn := s.Dispatch(time.Now())
	if len(turn.Wake) != 4 || s.held() != 4 {
		t.Fatalf("planned anew: %d woken, %d held", len(turn.Wake), s.held())
	}
	if _, _, ok := s.Reserved(pods[3], releases[3]); ok {
		t.Error("a member passed Permit on an old plan")
	}
	if waiting := s.Fail(pods[0], releases[0], true); waiting != nil || s.held() != 4 {
		t.Errorf("an old failure undid the new plan: %v, %d held", waiting, s.held())
	}
}

// TestBindingFails: once all are at Permit each stands for itself, since others'
// Bindings are under way. The one that failed keeps its place, so that nobody else
// leaves the gang in part, and tries again there; not for ever.
func TestBindingFails(t *testing.T) {
	s := newGangSetup(t, 4)
	pods, releases := s.gangOf4(8)
	for i, p := range pods {
		ready, others, ok := s.Reserved(p, releases[i])
		if ready != (i == 3) || len(others) != map[bool]int{true: 3}[ready] || !ok {
			t.Fatalf("member %d: ready %v, others %v, ok %v", i, ready, others, ok)
		}
	}
	for _, i := range []int{0, 2, 3} {
		s.bindTo(pods[i], releases[i])
	}
	s.eventually("three are bound", func() bool {
		return s.ReleaseOf(pods[0]) == nil && s.ReleaseOf(pods[2]) == nil && s.ReleaseOf(pods[3]) == nil
	})
	other := member("other", "", 0, 8)
	s.addPod(other)
	s.tracked(5)
	last := releases[1]
	for range bindTries {
		if waiting := s.Fail(pods[1], last, true); waiting != nil {
			t.Errorf("%v were told to stop, and they are bound", waiting)
		}
		s.Dispatch(time.Now())
		next := s.ReleaseOf(pods[1])
		if next == nil || next == last || next.Node.ID != last.Node.ID || s.held() != 4 {
			t.Fatalf("got %+v, %d held: it lost its place", next, s.held())
		}
		if _, ok := s.Take(pods[1], last); ok {
			t.Fatal("an old cycle goes on")
		}
		if _, ok := s.Take(pods[1], next); !ok {
			t.Fatal("it may not try again")
		}
		if ready, _, ok := s.Reserved(pods[1], next); !ready || !ok {
			t.Fatal("it waits for those who are bound")
		}
		last = next
	}
	if s.Fail(pods[1], last, true); s.ReleaseOf(pods[1]) != nil || s.held() != 3 {
		t.Errorf("%d held: a place is kept for ever", s.held())
	}
}

// TestMemberDeleted: a member that is deleted while others wait for it ends their
// wait, and nothing is held.
func TestMemberDeleted(t *testing.T) {
	s := newGangSetup(t, 4)
	pods, releases := s.gangOf4(8)
	for i := range 3 {
		s.Reserved(pods[i], releases[i])
	}
	s.deletePod("m3")
	s.tracked(3)
	turn := s.Dispatch(time.Now())
	slices.Sort(turn.Reject)
	if want := []model.HolderID{"uid-m0", "uid-m1", "uid-m2"}; !slices.Equal(turn.Reject, want) {
		t.Errorf("told to stop: %v, want %v", turn.Reject, want)
	}
	if n := s.held(); n != 0 || len(turn.Wake) != 0 {
		t.Errorf("%d held, %d woken", n, len(turn.Wake))
	}
	var news []Wait
	s.eventually("the owner is told", func() bool {
		turn := s.Dispatch(time.Now())
		for _, l := range turn.Look {
			s.Succeeded(l, nil, true)
		}
		news = append(news, turn.News...)
		return len(news) == 3
	})
	if news[0].Reason != "WaitingForMembers" || news[0].Text != "waits for members: 3 of 4 exist" {
		t.Errorf("told %+v", news[0])
	}
}

// TestBatchKeptOut: a batch that somebody else keeps out of kube-scheduler's queue
// does not hold devices for ever.
func TestBatchKeptOut(t *testing.T) {
	s := newGangSetup(t, 4)
	s.gangOf4(8)
	late := time.Now().Add(batchFor + time.Second)
	if turn := s.Dispatch(late); len(turn.Reject) != 4 || s.held() != 0 {
		t.Errorf("%d told to stop, %d held", len(turn.Reject), s.held())
	}
}

// TestBoundByOthers: a member that somebody else binds meanwhile keeps what it has;
// the others are planned beside it.
func TestBoundByOthers(t *testing.T) {
	s := newGangSetup(t, 4)
	pods, releases := s.gangOf4(8)
	s.Reserved(pods[0], releases[0])
	s.bindTo(pods[2], releases[2])
	s.eventually("the others are planned again", func() bool {
		turn := s.Dispatch(time.Now())
		return len(turn.Wake) == 3
	})
	if n := s.held(); n != 4 {
		t.Errorf("%d held", n)
	}
}

// TestOwnerSeenLate: pods of a Job that is seen after them wait for it; a bound one
// keeps its devices when it turns out to be in a gang.
func TestOwnerSeenLate(t *testing.T) {
	s := newGangSetup(t, 4, dialect.Jobs)
	yes := true
	owned := func(name string) *v1.Pod {
		p := member(name, "", 0, 8)
		p.OwnerReferences = []metav1.OwnerReference{{APIVersion: "batch/v1", Kind: "Job", Name: "train", UID: "job", Controller: &yes}}
		return p
	}
	old := owned("w0") // from before this process
	old.CreationTimestamp = metav1.NewTime(time.Now().Add(-time.Hour))
	old.Spec.NodeName = "n1"
	s.addPod(old)
	s.tracked(1)
	young := owned("w1")
	s.addPod(young)
	s.eventually("seen", func() bool { _, err := s.pods.Pods("default").Get("w1"); return err == nil })
	if standing, _ := s.StandingOf(young); standing != Gated {
		t.Errorf("standing %d before the Job is seen", standing)
	}
	job := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "batch/v1", "kind": "Job",
		"metadata": map[string]any{"name": "train", "namespace": "default", "uid": "job"},
		"spec":     map[string]any{"completionMode": "Indexed", "parallelism": int64(2), "completions": int64(2)}}}
	s.groups[dialect.Jobs].Add(job)
	s.tracked(2)
	var woken []string
	s.eventually("the other is planned", func() bool {
		for _, p := range s.Dispatch(time.Now()).Wake {
			woken = append(woken, p.Name)
		}
		return slices.Contains(woken, "w1") && s.ReleaseOf(young) != nil
	})
	if s.ReleaseOf(young).Node.ID == "n1" || s.held() != 2 {
		t.Errorf("planned on %s, %d held", s.ReleaseOf(young).Node.ID, s.held())
	}
	s.bindTo(young, s.ReleaseOf(young))
	s.eventually("the ledger equals the API", func() bool { n, err := s.Check(); return err == nil && n == 2 })
}

// TestOwnerGone: a pod whose owner is gone is scheduled alone after a while.
func TestOwnerGone(t *testing.T) {
	s := newGangSetup(t, 1, dialect.Jobs)
	yes := true
	p := member("w0", "", 0, 1)
	p.CreationTimestamp = metav1.NewTime(time.Now().Add(time.Second - ownerPatience))
	p.OwnerReferences = []metav1.OwnerReference{{APIVersion: "batch/v1", Kind: "Job", Name: "train", UID: "job", Controller: &yes}}
	s.addPod(p)
	s.eventually("woken", func() bool { return len(s.Dispatch(time.Now()).Wake) == 1 })
	if standing, _ := s.StandingOf(p); standing != Free {
		t.Errorf("standing %d", standing)
	}
}

// TestTaintGone: a gang that taints keep out starts when they are gone, though no
// device changed.
func TestTaintGone(t *testing.T) {
	s := newGangSetup(t, 1)
	node, _ := s.client.CoreV1().Nodes().Get(context.Background(), "n0", metav1.GetOptions{})
	node.Spec.Taints = []v1.Taint{{Key: "x", Effect: v1.TaintEffectNoSchedule}}
	update := func() {
		if _, err := s.client.CoreV1().Nodes().Update(context.Background(), node, metav1.UpdateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	update()
	s.eventually("tainted", func() bool { n, _ := s.nodes.Get("n0"); return len(n.Spec.Taints) == 1 })
	s.addPod(member("a", "g", 2, 1))
	s.addPod(member("b", "g", 2, 1))
	s.tracked(2)
	if turn := s.Dispatch(time.Now()); len(turn.Wake) != 0 {
		t.Fatal("planned on a tainted node")
	}
	node = node.DeepCopy()
	node.Spec.Taints = nil
	update()
	s.eventually("planned", func() bool { return len(s.Dispatch(time.Now()).Wake) == 2 })
}

// TestVetoes: a refusal because kube-scheduler is late is short each time; others last
// twice as long each time, until the node takes such a pod.
func TestVetoes(t *testing.T) {
	s := newGangSetup(t, 1)
	p := member("a", "g", 1, 1)
	s.addPod(p)
	s.tracked(1)
	fails := func(late bool) time.Duration {
		t.Helper()
		s.eventually("planned", func() bool { s.Dispatch(time.Now()); return s.ReleaseOf(p) != nil })
		s.Veto(p, "n0", "no", late)
		s.Fail(p, s.ReleaseOf(p), false)
		start := time.Now()
		s.eventually("planned again", func() bool { s.Dispatch(time.Now()); return s.ReleaseOf(p) != nil })
		return time.Since(start)
	}
	for range 5 {
		if d := fails(true); d > 8*vetoFirst {
			t.Errorf("late: %s", d)
		}
	}
	var last time.Duration
	for range 5 {
		last = fails(false)
	}
	if last < 16*vetoFirst {
		t.Errorf("the fifth veto lasted %s only", last)
	}
	s.Took(p, "n0")
	if d := fails(false); d > 8*vetoFirst {
		t.Errorf("after the node took it: %s", d)
	}
}

// TestSucceeded: members that succeeded are not missed. They are looked for once when
// a gang waits for members, and again when it lost some; where as many live as are
// needed, those of an earlier run count for nothing.
func TestSucceeded(t *testing.T) {
	s := newGangSetup(t, 2)
	looks := func() (l []Look) {
		s.eventually("looked", func() bool { l = append(l, s.Dispatch(time.Now()).Look...); return len(l) > 0 })
		return l
	}
	s.addPod(member("c", "g", 3, 8))
	s.tracked(1)
	l := looks()
	if len(l) != 1 || l[0].Gang != "label/default/g" || l[0].Namespace != "default" || l[0].Labels[names.LabelGang] != "g" {
		t.Fatalf("looks for %+v", l)
	}
	var ended []v1.Pod
	for _, name := range []string{"a", "b", "other"} {
		p := member(name, "g", 3, 8)
		p.Status.Phase = v1.PodSucceeded
		if name == "other" {
			p.Labels[names.LabelGang] = "h"
		}
		ended = append(ended, *p)
	}
	s.Succeeded(l[0], nil, false) // nobody could tell: asked again
	s.Succeeded(looks()[0], ended[:1], true)
	if s.Dispatch(time.Now()); s.held() != 0 {
		t.Fatal("one of three succeeded, one is missing")
	}
	s.deletePod("c")
	s.tracked(0)
	s.addPod(member("c2", "g", 3, 8))
	s.tracked(1)
	s.Succeeded(looks()[0], ended, true)
	if s.Dispatch(time.Now()); s.held() != 1 {
		t.Error("the third of three waits for two that succeeded")
	}
	// More members than are missing: they are the next run.
	s.deletePod("c2")
	s.tracked(0)
	for _, name := range []string{"x", "y", "z"} {
		s.addPod(member(name, "g", 3, 8))
	}
	s.tracked(3)
	s.Succeeded(l[0], ended, true)
	if s.Dispatch(time.Now()); s.held() != 0 {
		t.Error("two of three of the next run started")
	}
}

// TestStandingsWaitForNobody: what kube-scheduler asks under the lock of its queue is
// answered while a decision is being made.
func TestStandingsWaitForNobody(t *testing.T) {
	s := newGangSetup(t, 4)
	pods, _ := s.gangOf4(1)
	single, bad, cpu := member("s", "", 0, 1), member("bad", "x", 0, 1), member("cpu", "", 0, 0)
	cpu.Spec.Containers[0].Resources = v1.ResourceRequirements{}
	s.Cluster.mu.Lock()
	defer s.Cluster.mu.Unlock()
	answered := make(chan string)
	go func() {
		var b strings.Builder
		for _, p := range append(slices.Clone(pods[:1]), single, bad, cpu) {
			standing, _ := s.StandingOf(p)
			_, ranked := s.RankOf(p)
			fmt.Fprint(&b, standing, ranked, s.Owns(p.Spec.SchedulerName), s.ReleaseOf(p) != nil, ";")
		}
		answered <- b.String()
	}()
	select {
	case got := <-answered:
		want := fmt.Sprint(Released, true, true, true, ";", Gated, false, true, false, ";", Told, false, true, false, ";", Free, false, true, false, ";")
		if strings.ReplaceAll(got, " ", "") != strings.ReplaceAll(want, " ", "") {
			t.Errorf("got  %s\nwant %s", got, want)
		}
	case <-time.After(5 * time.Second):
		t.Fatal("waits for the cluster's lock")
	}
}

// TestTaskMinimums: minimums of tasks hold whatever their pods look like.
func TestTaskMinimums(t *testing.T) {
	s := newGangSetup(t, 4, dialect.PodGroups)
	s.groups[dialect.PodGroups].Add(&unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "PodGroup", "metadata": map[string]any{"name": "pg", "namespace": "default"},
		"spec": map[string]any{"minMember": int64(3), "minTaskMember": map[string]any{"ps": int64(1), "worker": int64(2)}},
	}})
	add := func(name, task string, gpus int64, node string) {
		p := member(name, "", 0, gpus)
		p.Annotations = map[string]string{names.AnnotationKubeGroup: "pg", names.AnnotationVolcanoTask: task}
		if node != "" {
			p.Spec.NodeSelector = map[string]string{"pool": node}
		}
		s.addPod(p)
	}
	s.eventually("the group is known", func() bool { return s.objects[dialect.PodGroups].get("default/pg") != nil })
	add("w0", "worker", 1, "")
	add("w1", "worker", 1, "")
	add("w2", "worker", 2, "")
	s.tracked(3)
	if turn := s.Dispatch(time.Now()); len(turn.Wake) != 0 {
		t.Error("started without its ps")
	}
	add("ps", "ps", 1, "")
	s.tracked(4)
	if turn := s.Dispatch(time.Now()); len(turn.Wake) != 4 {
		t.Errorf("%d started, want all 4", len(turn.Wake))
	}
}

// TestManyMembers: the engine hears of a gang once per turn, however many of its pods
// came.
func TestManyMembers(t *testing.T) {
	s := newGangSetup(t, 4)
	const n = 400
	for i := range n {
		s.addPod(member(fmt.Sprintf("m%d", i), "big", n, 1))
	}
	s.tracked(n)
	start := time.Now()
	s.Dispatch(time.Now())
	if s.held() != 0 {
		t.Error("some started, and not all can")
	}
	t.Logf("a gang of %d was told and decided in %s", n, time.Since(start))
}

// TestNothingKept: pods that come and go leave nothing behind, with gangs and without.
func TestNothingKept(t *testing.T) {
	s := newGangSetup(t, 1)
	for _, gang := range []string{"", "g"} {
		for _, name := range []string{"a", "b"} {
			s.addPod(member(name, gang, 2, 1))
		}
		s.tracked(2)
		s.Dispatch(time.Now())
		s.deletePod("a")
		s.deletePod("b")
		s.tracked(0)
		s.Dispatch(time.Now())
		s.Cluster.mu.Lock()
		if g := s.gangs; len(g.groups)+len(g.dirty)+len(g.asking.at)+len(g.asking.due)+len(g.told)+len(g.awake)+len(g.batches)+len(s.podOf) > 0 {
			t.Errorf("gang %q: left %+v", gang, g)
		}
		s.Cluster.mu.Unlock()
	}
}

// TestOnly: members whose volumes are on different nodes. Each is sent there as soon as
// that is known, and stays known while others fail.
func TestOnly(t *testing.T) {
	s := newGangSetup(t, 8)
	var pods []*v1.Pod
	for i := range 4 {
		p := member(fmt.Sprintf("m%d", i), "g", 4, 1)
		p.Spec.Volumes = []v1.Volume{{VolumeSource: v1.VolumeSource{PersistentVolumeClaim: &v1.PersistentVolumeClaimVolumeSource{ClaimName: p.Name}}}}
		s.addPod(p)
		pods = append(pods, p)
	}
	s.tracked(4)
	for round := 0; ; round++ {
		s.eventually("planned", func() bool { s.Dispatch(time.Now()); return s.ReleaseOf(pods[3]) != nil })
		failed := false
		for i, p := range pods { // as kube-scheduler's cycles go
			home := fmt.Sprintf("n%d", 2*i)
			if r := s.ReleaseOf(p); string(r.Node.ID) != home {
				s.Only(p, sets.New(home), "elsewhere")
				s.Fail(p, r, false)
				failed = true
				break
			}
			s.Took(p, model.NodeID(home))
		}
		if !failed {
			return
		}
		if round > 8 {
			t.Fatal("they go round and round")
		}
	}
}
