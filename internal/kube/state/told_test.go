package state

import (
	"fmt"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tangram-dev/tangram/api/names"
	"github.com/tangram-dev/tangram/core/engine"
)

// TestNextRunUnderOneName: pods of an earlier run that succeeded lie around under the
// gang's name. The first members of the next run wait for the others; but not for
// ever, since they may be the last of a run that lost them.
func TestNextRunUnderOneName(t *testing.T) {
	var ended []v1.Pod
	for i := range 3 {
		p := member(fmt.Sprint("old", i), "g", 3, 8)
		p.Status.Phase = v1.PodSucceeded
		ended = append(ended, *p)
	}
	look := Look{Gang: "label/default/g", Namespace: "default"}
	s := newGangSetup(t, 3)
	s.addPod(member("a", "g", 3, 8))
	s.addPod(member("b", "g", 3, 8))
	s.tracked(2)
	s.Succeeded(look, ended, true)
	if s.Dispatch(time.Now()); s.held() != 0 {
		t.Fatal("two of three started")
	}
	s.addPod(member("c", "g", 3, 8))
	s.tracked(3)
	if s.Dispatch(time.Now()); s.held() != 3 {
		t.Error("the next run does not start")
	}

	s = newGangSetup(t, 3)
	lone := member("a", "g", 3, 8)
	lone.CreationTimestamp = metav1.NewTime(time.Now().Add(2*time.Second - nextRunFor)) // whole seconds
	s.addPod(lone)
	s.tracked(1)
	s.Succeeded(look, ended, true)
	if s.Dispatch(time.Now()); s.held() != 0 {
		t.Fatal("one of three started at once")
	}
	s.eventually("nobody comes any more", func() bool {
		select {
		case <-s.Kicked(): // not by chance: somebody says that it is time
			s.Dispatch(time.Now())
		default:
		}
		return s.held() == 1
	})
}

// TestBudgetOfSeveral: victims of whom each may go, but not all, stay: to evict the
// first would help nobody.
func TestBudgetOfSeveral(t *testing.T) {
	s := newGangSetup(t, 2)
	low, high := int32(1), int32(1000)
	s.runs("low", 2, 8, func(p *v1.Pod) { p.Labels["app"] = "a"; p.Spec.Priority = &low })
	budget := &policyv1.PodDisruptionBudget{
		ObjectMeta: metav1.ObjectMeta{Name: "one", Namespace: "default"},
		Spec:       policyv1.PodDisruptionBudgetSpec{Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "a"}}},
		Status:     policyv1.PodDisruptionBudgetStatus{DisruptionsAllowed: 1},
	}
	create := func(b *policyv1.PodDisruptionBudget) {
		if _, err := s.client.PolicyV1().PodDisruptionBudgets("default").Create(t.Context(), b, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		s.eventually("the budget is known", func() bool {
			b, err := s.budgets.PodDisruptionBudgets("default").Get("one")
			return err == nil && b != nil
		})
	}
	create(budget)
	urgent := member("urgent", "", 0, 8)
	urgent.Spec.Priority = &high
	s.addPod(urgent)
	s.tracked(3)
	for range 5 {
		if turn := s.Dispatch(time.Now()); len(turn.Evict) > 0 {
			t.Fatalf("%d evicted, and the gang's other member may not go", len(turn.Evict))
		}
	}
}

// TestBadMember: a member whose request makes no sense is told so; its gang waits for
// it.
func TestBadMember(t *testing.T) {
	s := newGangSetup(t, 1)
	p := member("a", "g", 2, 1)
	p.Annotations = map[string]string{names.AnnotationTopology: "nonsense"}
	if standing, why := s.StandingOf(p); standing != Told || !strings.Contains(why, names.AnnotationTopology) {
		t.Errorf("standing %d: %q", standing, why)
	}
}

// TestShown: a gang that waits for capacity is shown to autoscalers, and no longer when
// it waits for members.
func TestShown(t *testing.T) {
	s := newGangSetup(t, 1)
	for _, name := range []string{"a", "b"} {
		p := member(name, "g", 2, 8)
		p.Status.Conditions = []v1.PodCondition{{Type: v1.PodScheduled, Status: v1.ConditionFalse, Reason: v1.PodReasonUnschedulable}}
		s.addPod(p)
	}
	s.tracked(2)
	at := time.Now()
	turn := func() Turn {
		at = at.Add(tellAgain)
		return s.Dispatch(at)
	}
	if got := turn(); len(got.Conditions) != 2 || got.Conditions[0].Reason != v1.PodReasonUnschedulable || len(got.Wake) > 0 {
		t.Fatalf("%+v, %d woken; it waits for capacity", got.Conditions, len(got.Wake))
	}
	if got := turn(); len(got.Conditions) > 0 {
		t.Errorf("told twice: %+v", got.Conditions)
	}
	s.deletePod("b")
	s.tracked(1)
	s.Succeeded(Look{Gang: "label/default/g"}, nil, true)
	got := turn()
	if len(got.Conditions) != 1 || got.Conditions[0].Reason != "WaitingForMembers" || len(got.News) != 1 {
		t.Errorf("conditions %+v, events %+v", got.Conditions, got.News)
	}
}

// TestToldLess: numbers in a reason change all the time; what is written about it grows
// with the logarithm of the wait, and then is one write in minutes.
func TestToldLess(t *testing.T) {
	at, times, kinds := time.Now(), 0, 0
	var last *told
	for i := range 360 { // an hour
		next := last.next(fmt.Sprint(i), "WaitingForCapacity", at)
		if next != last {
			times++
		}
		last, at = next, at.Add(tellAgain)
	}
	if times < 12 || times > 18 {
		t.Errorf("told %d times in an hour", times)
	}
	for i := range 360 {
		next := last.next("same", []string{"WaitingForTurn", "WaitingForCapacity"}[i%2], at)
		if next != last {
			kinds++
		}
		last, at = next, at.Add(tellAgain)
	}
	if kinds < 60 || kinds > 130 {
		t.Errorf("told %d times of another kind in an hour", kinds)
	}
	if next := last.next("same", last.kind, at.Add(time.Hour)); next != last {
		t.Error("told what was told before")
	}
}

// TestNobodyLeads: a replica that does not lead keeps nothing of gangs that are gone.
func TestNobodyLeads(t *testing.T) {
	a := asking{at: map[engine.ID]time.Time{}}
	for i := range 100_000 {
		id := engine.ID(fmt.Sprint(i))
		a.ask(id, time.Now())
		if i%10 > 0 {
			delete(a.at, id)
		}
		if i%100 == 0 {
			a.ask(id, time.Now().Add(-time.Hour)) // sooner
		}
	}
	if len(a.due) > 2*len(a.at)+1000 || len(a.at) != 10_000 {
		t.Errorf("%d questions about %d gangs", len(a.due), len(a.at))
	}
	for n := 0; ; n++ {
		if _, ok := a.next(time.Now()); !ok {
			if n != 10_000 {
				t.Errorf("%d are asked", n)
			}
			return
		}
	}
}

// TestLastGangGone: while somebody waits, decisions go on as they are after the last
// gang has gone: all who wait would be told anew otherwise, at a write each.
func TestLastGangGone(t *testing.T) {
	s := newGangSetup(t, 1)
	s.runs("g", 1, 8)
	single := member("single", "", 0, 8)
	s.addPod(single)
	s.tracked(2)
	s.Dispatch(time.Now())
	s.addPod(member("big", "", 0, 8))
	s.tracked(3)
	s.deletePod("g0")
	s.tracked(2)
	s.eventually("the first starts", func() bool { s.Dispatch(time.Now()); return s.held() == 1 })
	if standing, _ := s.StandingOf(member("next", "", 0, 8)); standing != Gated {
		t.Errorf("standing %d while somebody waits", standing)
	}
	s.deletePod("big")
	s.deletePod("single")
	s.tracked(0)
	s.Dispatch(time.Now())
	if standing, _ := s.StandingOf(member("next", "", 0, 8)); standing != Free {
		t.Errorf("standing %d when nobody waits", standing)
	}
}
