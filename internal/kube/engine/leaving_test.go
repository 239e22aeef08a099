package engine

import (
	"fmt"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tangram-dev/tangram/api/names"
	"github.com/tangram-dev/tangram/core/engine"
	"github.com/tangram-dev/tangram/core/model"
)

func priority(value int32) func(*v1.Pod) { return func(p *v1.Pod) { p.Spec.Priority = &value } }

// gangOf is the gang of a pod as core knows it.
func (s *setup) gangOf(p *v1.Pod) (id engine.ID) {
	s.do("test", func(*driver, time.Time) { id, _ = s.driver.core.Gangs.Of(model.HolderID(p.UID)) })
	return id
}

// TestNextRun: the members of a gang are going away, and their successors are there.
// These are a gang of their own: none starts before all can.
func TestNextRun(t *testing.T) {
	s := newSetup(t, 3)
	old := s.runs("g", 2, 8)
	s.terminate("g0")
	s.terminate("g1")
	s.add(s.member("next0", "g", 2, 8), s.member("next1", "g", 2, 8))
	if turn := s.Step(); s.held() != 2 || len(turn.Evict) > 0 {
		t.Fatalf("%d held, %d evicted: a part of the next run started", s.held(), len(turn.Evict))
	}
	if id := s.gangOf(old[0]); id != "pod/uid-g0" {
		t.Errorf("a pod that goes away is in gang %q", id)
	}
	s.deletePod("g0")
	if s.Step(); s.held() != 3 {
		t.Errorf("%d held: the next run does not start where the first was", s.held())
	}
}

// TestReplacedEarly: a member that is going away and has a successor: the gang is
// repaired before others start.
func TestReplacedEarly(t *testing.T) {
	s := newSetup(t, 3)
	s.runs("g", 2, 8)
	s.terminate("g1")
	s.add(s.member("first", "", 0, 8))
	next := s.member("next", "g", 2, 8)
	s.add(next)
	if s.Step(); !s.gate.Released(next) {
		t.Error("another was served before a gang that lacks a member")
	}
}

// TestEvictedBefore: what was evicted before a restart makes room for the gang it was
// evicted for; no other pod is evicted, and none twice.
func TestEvictedBefore(t *testing.T) {
	s := newSetup(t, 2)
	for i := range 4 {
		s.runs(fmt.Sprintf("low%d-", i), 1, 4, priority(1))
	}
	s.terminate("low0-0")
	urgent := s.member("urgent", "u", 1, 4)
	priority(1000)(urgent)
	small := s.member("small", "", 0, 1)
	priority(1)(small)
	s.add(urgent, small)
	for range 3 {
		if turn := s.after(time.Second); len(turn.Evict) > 0 {
			t.Fatalf("%s was evicted", turn.Evict[0].Pod.Name)
		}
	}
	s.deletePod("low0-0")
	if s.Step(); !s.gate.Released(urgent) {
		t.Error("the urgent one does not start")
	}
	if s.gate.Released(small) {
		t.Error("another took what was freed")
	}
}

// TestEvictFor: victims are told for which gang they go, by name; a refusal by the API
// server lets other victims be chosen.
func TestEvictFor(t *testing.T) {
	s := newSetup(t, 2)
	s.runs("low0-", 1, 8, priority(1))
	s.runs("low1-", 1, 8, priority(1))
	urgent := s.member("urgent", "", 0, 8)
	priority(1000)(urgent)
	s.add(urgent)
	turn := s.after(time.Second)
	if len(turn.Evict) != 1 || turn.Evict[0].Why != "evicted for default/urgent" {
		t.Fatalf("%+v", turn.Evict)
	}
	first := turn.Evict[0]
	s.EvictionRefused(first)
	if turn = s.after(time.Second); len(turn.Evict) != 1 || turn.Evict[0].Pod.Name == first.Pod.Name {
		t.Errorf("%+v", turn.Evict)
	}
}

// TestEvictForOthers: the owner of a victim does not learn the name of a gang of another
// namespace; the audit log does.
func TestEvictForOthers(t *testing.T) {
	s := newSetup(t, 1)
	s.runs("low-", 1, 8, priority(1))
	urgent := s.member("urgent", "", 0, 8)
	urgent.Namespace = "rivals"
	priority(1000)(urgent)
	s.add(urgent)
	turn := s.after(time.Second)
	if len(turn.Evict) != 1 || turn.Evict[0].Why != "evicted for work of another namespace" || turn.Evict[0].For != "rivals/urgent" {
		t.Fatalf("%+v", turn.Evict)
	}
}

// TestSystemPodsStay: system-critical pods and those of kube-system are no victims,
// whatever the priority of others (hole H2).
func TestSystemPodsStay(t *testing.T) {
	for name, change := range map[string]func(*v1.Pod){
		"kube-system":            func(p *v1.Pod) { p.Namespace = "kube-system" },
		"system-critical":        priority(2_000_000_000),
		"a protected namespace ": func(p *v1.Pod) { p.Namespace = "infra" },
	} {
		t.Run(name, func(t *testing.T) {
			s := newSetup(t, 1)
			s.Configure(func(set *Settings) { set.Protected = []string{"kube-system", "infra"} })
			p := s.member("p", "", 0, 8)
			change(p)
			p.Spec.NodeName = "n0"
			s.add(p)
			urgent := s.member("urgent", "", 0, 8)
			priority(2_100_000_000)(urgent)
			s.add(urgent)
			for range 20 {
				if turn := s.after(time.Minute); len(turn.Evict) > 0 {
					t.Fatalf("%+v", turn.Evict)
				}
			}
		})
	}
}

// TestEditedWhileRunning: an invalid label on a pod that runs does not cost it its
// devices, neither at once nor after a restart, which reads it anew.
func TestEditedWhileRunning(t *testing.T) {
	s := newSetup(t, 2)
	pods := s.runs("g", 2, 8)
	s.edit("g1", func(p *v1.Pod) { p.Labels[names.LabelGangSize] = "many" })
	s.Step()
	if n, err := s.Check(); err != nil || n != 2 {
		t.Errorf("%d held: %v", n, err)
	}
	s.look(pods[1], "")
	s.Step()
	if n, err := s.Check(); err != nil || n != 2 {
		t.Errorf("read anew: %d held: %v", n, err)
	}
}

// TestRelabelledWhileRunning: a pod that runs cannot leave the queue that is charged for
// it by an edit (hole H4).
func TestRelabelledWhileRunning(t *testing.T) {
	s := newSetup(t, 1)
	p := s.runs("g", 1, 8, func(p *v1.Pod) { p.Labels[names.LabelQueue] = "" })[0]
	charged := func() (q string) {
		s.do("test", func(*driver, time.Time) { q = s.driver.core.Gangs.QueueOf(model.HolderID(p.UID)) })
		return q
	}
	before := charged()
	s.edit("g0", func(p *v1.Pod) { p.Labels[names.LabelQueue] = "elsewhere" })
	s.look(s.latest("g0"), "")
	if s.Step(); charged() != before {
		t.Errorf("charged to %q, was %q", charged(), before)
	}
}

// TestBudgetOfSeveral: victims of which each may go, but not all, stay: to evict the
// first would not help.
func TestBudgetOfSeveral(t *testing.T) {
	s := newSetup(t, 2)
	s.runs("low", 2, 8, func(p *v1.Pod) { p.Labels["app"] = "a" }, priority(1))
	budget := &policyv1.PodDisruptionBudget{
		ObjectMeta: metav1.ObjectMeta{Name: "one", Namespace: "default"},
		Spec:       policyv1.PodDisruptionBudgetSpec{Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "a"}}},
		Status:     policyv1.PodDisruptionBudgetStatus{DisruptionsAllowed: 1},
	}
	s.addBudget(budget)
	urgent := s.member("urgent", "", 0, 8)
	priority(1000)(urgent)
	s.add(urgent)
	for range 5 {
		if turn := s.after(time.Second); len(turn.Evict) > 0 {
			t.Fatalf("%d evicted, and the gang's other member may not go", len(turn.Evict))
		}
	}
	budget = budget.DeepCopy()
	budget.Status.DisruptionsAllowed = 2
	s.addBudget(budget)
	for range 100 {
		if turn := s.after(time.Second); len(turn.Evict) == 2 {
			return
		}
	}
	t.Error("both may go, and do not")
}
