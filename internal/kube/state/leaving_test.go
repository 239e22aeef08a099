package state

import (
	"context"
	"fmt"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tangram-dev/tangram/api/names"
	"github.com/tangram-dev/tangram/core/model"
)

// runs creates a gang of n and lets it be bound.
func (s *gangSetup) runs(gang string, n int, gpus int64, change ...func(*v1.Pod)) (pods []*v1.Pod) {
	s.t.Helper()
	s.Cluster.mu.Lock()
	before := len(s.gangs.member)
	s.Cluster.mu.Unlock()
	for i := range n {
		p := member(fmt.Sprintf("%s%d", gang, i), gang, n, gpus)
		for _, c := range change {
			c(p)
		}
		s.addPod(p)
		pods = append(pods, p)
	}
	s.tracked(before + n)
	s.eventually(gang+" starts", func() bool { s.Dispatch(time.Now()); return s.ReleaseOf(pods[n-1]) != nil })
	var releases []*Release
	for _, p := range pods { // all are at Permit before the first is bound
		releases = append(releases, s.ReleaseOf(p))
		s.Reserved(p, s.ReleaseOf(p))
	}
	for i, p := range pods {
		s.bindTo(p, releases[i])
	}
	s.eventually(gang+" is bound", func() bool { return s.ReleaseOf(pods[n-1]) == nil && s.ReleaseOf(pods[0]) == nil })
	s.Dispatch(time.Now()) // the engine hears of it
	return pods
}

// edit changes a pod as the API server has it.
func (s *gangSetup) edit(name string, change func(*v1.Pod)) {
	s.t.Helper()
	p, err := s.client.CoreV1().Pods("default").Get(context.Background(), name, metav1.GetOptions{})
	if err != nil {
		s.t.Fatal(err)
	}
	p = p.DeepCopy()
	change(p)
	if _, err := s.client.CoreV1().Pods("default").Update(context.Background(), p, metav1.UpdateOptions{}); err != nil {
		s.t.Fatal(err)
	}
}

// terminate begins a pod's grace period.
func (s *gangSetup) terminate(name string) {
	s.t.Helper()
	s.edit(name, func(p *v1.Pod) { at := metav1.NewTime(time.Now().Add(30 * time.Second)); p.DeletionTimestamp = &at })
}

// alone waits until pods are no members of a gang any more.
func (s *gangSetup) alone(pods ...*v1.Pod) {
	s.t.Helper()
	s.eventually("they left their gang", func() bool {
		s.Cluster.mu.Lock()
		defer s.Cluster.mu.Unlock()
		for _, p := range pods {
			if id := s.gangs.member[model.HolderID(p.UID)]; s.gangs.groups[id] == nil || s.gangs.groups[id].real {
				return false
			}
		}
		return true
	})
}

// TestNextRun: the members of a gang are going away, and their successors are there.
// These are a gang of their own: none starts before all can.
func TestNextRun(t *testing.T) {
	s := newGangSetup(t, 3)
	old := s.runs("g", 2, 8)
	s.terminate("g0")
	s.terminate("g1")
	s.alone(old...)
	for i := range 2 {
		s.addPod(member(fmt.Sprintf("next%d", i), "g", 2, 8))
	}
	s.tracked(4)
	if turn := s.Dispatch(time.Now()); s.held() != 2 || len(turn.Evict) > 0 {
		t.Fatalf("%d held, %d evicted: a part of the next run started", s.held(), len(turn.Evict))
	}
	s.deletePod("g0")
	s.tracked(3)
	if s.Dispatch(time.Now()); s.held() != 3 {
		t.Errorf("%d held: the next run does not start where the first was", s.held())
	}
}

// TestReplacedEarly: a member that is going away and has a successor: the gang is
// repaired before others start.
func TestReplacedEarly(t *testing.T) {
	s := newGangSetup(t, 3)
	old := s.runs("g", 2, 8)
	s.terminate("g1")
	s.alone(old[1])
	s.addPod(member("first", "", 0, 8))
	s.tracked(3)
	next := member("next", "g", 2, 8)
	s.addPod(next)
	s.tracked(4)
	if s.Dispatch(time.Now()); s.ReleaseOf(next) == nil {
		t.Error("another was served before a gang that lacks a member")
	}
}

// TestEvictedBefore: what was evicted before a restart makes room for whom it was
// evicted for, and nobody is evicted besides, or asked to go twice.
func TestEvictedBefore(t *testing.T) {
	s := newGangSetup(t, 2)
	low, high := int32(1), int32(1000)
	priority := func(value *int32) func(*v1.Pod) { return func(p *v1.Pod) { p.Spec.Priority = value } }
	for i := range 4 {
		s.runs(fmt.Sprintf("low%d-", i), 1, 4, priority(&low))
	}
	s.terminate("low0-0")
	urgent := member("urgent", "u", 1, 4)
	urgent.Spec.Priority = &high
	s.addPod(urgent)
	small := member("small", "", 0, 1)
	small.Spec.Priority = &low
	s.addPod(small)
	s.tracked(6)
	for range 3 {
		if turn := s.Dispatch(time.Now()); len(turn.Evict) > 0 {
			t.Fatalf("%s was evicted", turn.Evict[0].Pod.Name)
		}
	}
	s.deletePod("low0-0")
	s.eventually("the urgent one starts", func() bool { s.Dispatch(time.Now()); return s.ReleaseOf(urgent) != nil })
	if s.ReleaseOf(small) != nil {
		t.Error("another took what was freed")
	}
}

// TestEditedWhileRunning: nonsense written on a pod that runs costs it its gang, not
// its devices.
func TestEditedWhileRunning(t *testing.T) {
	s := newGangSetup(t, 2)
	s.runs("g", 2, 8)
	s.edit("g1", func(p *v1.Pod) { p.Labels[names.LabelGangSize] = "many" })
	s.tracked(1)
	s.Dispatch(time.Now())
	if n, err := s.Check(); err != nil || n != 2 {
		t.Errorf("%d held: %v", n, err)
	}
}

// TestTolerationAdded: a pod may be edited to tolerate what keeps it waiting.
func TestTolerationAdded(t *testing.T) {
	s := newGangSetup(t, 1)
	node, _ := s.client.CoreV1().Nodes().Get(context.Background(), "n0", metav1.GetOptions{})
	node = node.DeepCopy()
	node.Spec.Taints = []v1.Taint{{Key: "x", Effect: v1.TaintEffectNoSchedule}}
	if _, err := s.client.CoreV1().Nodes().Update(context.Background(), node, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	s.eventually("tainted", func() bool { n, _ := s.nodes.Get("n0"); return len(n.Spec.Taints) == 1 })
	p := member("a", "g", 1, 1)
	s.addPod(p)
	s.tracked(1)
	if s.Dispatch(time.Now()); s.held() != 0 {
		t.Fatal("started on a tainted node")
	}
	s.edit("a", func(p *v1.Pod) { p.Spec.Tolerations = []v1.Toleration{{Key: "x", Operator: v1.TolerationOpExists}} })
	s.eventually("it starts", func() bool { s.Dispatch(time.Now()); return s.ReleaseOf(p) != nil })
}
