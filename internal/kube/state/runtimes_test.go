package state

import (
	"context"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TestLearned: how long gangs run is learned from those that ended by themselves, and
// expected of their like.
func TestLearned(t *testing.T) {
	s := newGangSetup(t, 2)
	expected := func(p *v1.Pod) time.Duration {
		t.Helper()
		s.addPod(p)
		s.tracked(1)
		s.Cluster.mu.Lock()
		defer s.Cluster.mu.Unlock()
		for _, g := range s.gangs.groups {
			return s.describe(g).Runtime.Round(time.Minute)
		}
		return 0
	}
	runs := func(name, image, kind string, ran time.Duration, end func(*v1.Pod)) {
		t.Helper()
		p := alone(name, image, kind)
		p.Spec.NodeName = "n0"
		p.Status.Conditions = []v1.PodCondition{{Type: v1.PodScheduled, Status: v1.ConditionTrue, LastTransitionTime: metav1.NewTime(time.Now().Add(-ran))}}
		s.addPod(p)
		s.tracked(1)
		if end != nil {
			end(p)
			if _, err := s.client.CoreV1().Pods("default").Update(context.Background(), p, metav1.UpdateOptions{}); err != nil {
				t.Fatal(err)
			}
			s.eventually("seen", func() bool {
				s.Cluster.mu.Lock()
				defer s.Cluster.mu.Unlock()
				now, err := s.Cluster.pods.Pods("default").Get(name)
				return err == nil && now.DeletionTimestamp != nil
			})
		}
		s.deletePod(name)
		s.tracked(0)
	}
	ask := func(name, image, kind string) time.Duration {
		t.Helper()
		d := expected(alone(name, image, kind))
		s.deletePod(name)
		s.tracked(0)
		return d
	}
	if d := ask("first", "train", ""); d != 0 {
		t.Errorf("the first of its kind is expected to run for %s", d)
	}
	runs("a", "train", "", 2*time.Hour, nil)
	runs("b", "train", "", 4*time.Hour, nil)
	if d := ask("next", "train", ""); d != 3*time.Hour {
		t.Errorf("expected to run for %s after 2h and 4h", d)
	}
	runs("c", "train", "", time.Minute, func(p *v1.Pod) { now := metav1.Now(); p.DeletionTimestamp = &now; p.Finalizers = []string{"x/y"} })
	if d := ask("then", "train", ""); d != 3*time.Hour {
		t.Errorf("one that was taken away was learned from: %s", d)
	}
	if d := ask("serves", "train", "ReplicaSet"); d != 0 {
		t.Errorf("a service is expected to end after %s", d)
	}
	declared := alone("declared", "train", "")
	declared.Annotations["tangram.dev/runtime"] = "10m"
	if d := expected(declared); d != 10*time.Minute {
		t.Errorf("who declares 10m is expected to run for %s", d)
	}
}

// alone is a pod of one GPU that comes alone.
func alone(name, image, kind string) *v1.Pod {
	p := member(name, "", 0, 1)
	p.Spec.Containers[0].Image = image
	if p.Annotations == nil {
		p.Annotations = map[string]string{}
	}
	if kind != "" {
		yes := true
		p.OwnerReferences = []metav1.OwnerReference{{Kind: kind, Name: "o", UID: "o", Controller: &yes}}
	}
	return p
}
