package state

import (
	"context"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tangram-dev/tangram/api/names"
	"github.com/tangram-dev/tangram/api/v1alpha1"
	"github.com/tangram-dev/tangram/core/model"
	"github.com/tangram-dev/tangram/core/score"
)

// TestPlacementSources: the first that speaks wins, from the pod to the profile.
func TestPlacementSources(t *testing.T) {
	s := newSetup(t, nil)
	for name, value := range map[string]string{"packed": "binpack", "broken": "tight"} {
		ns := &v1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: map[string]string{names.AnnotationPlacement: value}}}
		if _, err := s.client.CoreV1().Namespaces().Create(context.Background(), ns, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		s.eventually("namespace known", func() bool { _, err := s.namespaces.Get(name); return err == nil })
	}
	some := Placements{
		Queues:     map[string]model.Placement{"batch": model.Binpack},
		Namespaces: map[string]model.Placement{"packed": model.Spread, "plain": model.Spread},
	}
	otherwise := Placements{Otherwise: model.Spread}
	tests := []struct {
		name       string
		placements Placements
		namespace  string
		queue      string
		annotation string
		want       model.Placement
	}{
		{"nobody", Placements{}, "default", "", "", model.Auto},
		{"the pod before all", some, "packed", "batch", "spread", model.Spread},
		{"the queue before the namespace", some, "plain", "batch", "", model.Binpack},
		{"an unknown queue", some, "plain", "other", "", model.Spread},
		{"the Namespace before the configuration", some, "packed", "", "", model.Binpack},
		{"the namespace in the configuration", some, "plain", "", "", model.Spread},
		{"the Namespace before the profile", otherwise, "packed", "", "", model.Binpack},
		{"the profile", otherwise, "default", "", "", model.Spread},
		{"nonsense on a Namespace says nothing", otherwise, "broken", "", "", model.Spread},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			p := testPod("p", 1)
			p.Namespace, p.Labels, p.Annotations = tt.namespace, map[string]string{names.LabelQueue: tt.queue}, map[string]string{names.AnnotationPlacement: tt.annotation}
			r, err := s.Request(p, Profile{Placements: tt.placements})
			if err != nil || r.Placement != tt.want || r.NodePlacement != tt.want {
				t.Errorf("got %v, %v, %v, want %s", r.Placement, r.NodePlacement, err, tt.want)
			}
		})
	}
	p := testPod("p", 1)
	p.Namespace = "broken"
	_, _ = s.Request(p, Profile{Placements: otherwise})
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.reports) != 1 || !strings.Contains(s.reports[0], `Namespace broken: InvalidPlacement: metadata.annotations[tangram.dev/placement]: "tight"`) {
		t.Errorf("the nonsense is reported once: %v", s.reports)
	}
	// What HAMi says of devices leaves the nodes open.
	p = testPod("p", 1)
	p.Annotations = map[string]string{"hami.io/gpu-scheduler-policy": "binpack"}
	if r, _ := s.Request(p, Profile{Placements: otherwise}); r.Placement != model.Binpack || r.NodePlacement != model.Spread {
		t.Errorf("got %s on devices, %s on nodes", r.Placement, r.NodePlacement)
	}
}

// TestCompanyWakes: who waits for somebody is woken when it has come, once; and when a
// pod's labels are edited so that it fits.
func TestCompanyWakes(t *testing.T) {
	s := newSetup(t, nil)
	s.addNode(testNode("n", 4))
	seeker := testPod("seeker", 1)
	seeker.Annotations = map[string]string{names.AnnotationAffinity: "same-node=app:db"}
	s.addPod(seeker)
	s.WaitForSync(context.Background())
	r := request(t, seeker)
	s.eventually("pod and node known", func() bool {
		_, err := s.pods.Pods("default").Get("seeker")
		return err == nil && s.room(request(t, testPod("x", 1))) == 1
	})
	if s.Wait(seeker, r) {
		t.Fatal("nobody is there yet")
	}
	woken := func() int { s.mu.Lock(); defer s.mu.Unlock(); return s.woken }
	other := testPod("other", 1)
	other.Spec.NodeName = "n"
	other.Labels = map[string]string{"app": "web"}
	s.addPod(other)
	s.eventually("the other counts", func() bool { _, holders := s.ledgerSize(); return holders == 1 })
	if woken() != 0 || s.Fits(r) {
		t.Errorf("woken %d times by somebody else", woken())
	}
	edited := other.DeepCopy()
	edited.Labels["app"] = "db"
	if _, err := s.client.CoreV1().Pods("default").Update(context.Background(), edited, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	s.eventually("the edited label wakes", func() bool { return woken() == 1 })
	db := testPod("db", 1)
	db.Labels = map[string]string{"app": "db"}
	db.Spec.NodeName = "n"
	s.addPod(db)
	s.eventually("one more wakes, too", func() bool { return woken() == 2 })
	if !s.Fits(r) {
		t.Error("it fits now")
	}
	if _, refusal := s.Reserve(seeker, r, "n"); refusal != nil {
		t.Fatal(refusal)
	}
	s.Cluster.mu.Lock()
	defer s.Cluster.mu.Unlock()
	if len(s.seekers) != 0 {
		t.Errorf("who was placed seeks no more: %v", s.seekers)
	}
}

func (s *setup) ledgerSize() (int, int) {
	s.Cluster.mu.RLock()
	defer s.Cluster.mu.RUnlock()
	return s.ledger.Size()
}

// TestTelemetryReachesScores: what the agent measures counts at once, and stops to
// count when it stops to say it.
func TestTelemetryReachesScores(t *testing.T) {
	s := newSetup(t, nil)
	s.addNode(testNode("n", 1))
	gn := &v1alpha1.GPUNode{ObjectMeta: metav1.ObjectMeta{Name: "n"}, Spec: v1alpha1.GPUNodeSpec{Devices: []v1alpha1.Device{{Vendor: "nvidia", Model: "T4", MemoryMiB: 15360}}}}
	s.gpuNodes.Add(gn)
	s.WaitForSync(context.Background())
	r := request(t, testPod("p", 1))
	live := func() int {
		return s.Rate(r, score.DefaultWeights(), "n").Card[score.LiveUtilization]
	}
	s.eventually("unmeasured", func() bool { return live() == 50 })
	busy := int32(90)
	gn = gn.DeepCopy()
	gn.Status.Devices = []v1alpha1.DeviceStatus{{Health: v1alpha1.Healthy, UtilizationPercent: &busy}}
	s.gpuNodes.Modify(gn)
	s.eventually("measured", func() bool { return live() == 10 })
	gn = gn.DeepCopy()
	gn.Status.Devices = nil
	s.gpuNodes.Modify(gn)
	s.eventually("unmeasured again", func() bool { return live() == 50 })
}
