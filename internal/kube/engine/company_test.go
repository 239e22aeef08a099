package engine

import (
	"fmt"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tangram-dev/tangram/api/names"
	"github.com/tangram-dev/tangram/api/v1alpha1"
	"github.com/tangram-dev/tangram/core/model"
	"github.com/tangram-dev/tangram/core/score"
	"github.com/tangram-dev/tangram/internal/kube/workload"
)

// TestPlacementSources: the first that speaks wins, from the pod to the profile.
func TestPlacementSources(t *testing.T) {
	s := newSetup(t, 0)
	for name, value := range map[string]string{"packed": "binpack", "broken": "tight"} {
		s.addSpace(&v1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: map[string]string{names.AnnotationPlacement: value}}})
	}
	some := workload.Placements{
		Queues:     map[string]model.Placement{"batch": model.Binpack},
		Namespaces: map[string]model.Placement{"packed": model.Spread, "plain": model.Spread},
	}
	otherwise := workload.Placements{Otherwise: model.Spread}
	tests := []struct {
		name       string
		placements workload.Placements
		namespace  string
		queue      string
		annotation string
		want       model.Placement
	}{
		{"none", workload.Placements{}, "default", "", "", model.Auto},
		{"the pod before all", some, "packed", "batch", "spread", model.Spread},
		{"the queue before the namespace", some, "plain", "batch", "", model.Binpack},
		{"an unknown queue", some, "plain", "other", "", model.Spread},
		{"the Namespace before the configuration", some, "packed", "", "", model.Binpack},
		{"the namespace in the configuration", some, "plain", "", "", model.Spread},
		{"the Namespace before the profile", otherwise, "packed", "", "", model.Binpack},
		{"the profile", otherwise, "default", "", "", model.Spread},
		{"an invalid word on a Namespace says nothing", otherwise, "broken", "", "", model.Spread},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			p := testPod("p", 1)
			p.Namespace, p.Labels, p.Annotations = tt.namespace, map[string]string{names.LabelQueue: tt.queue}, map[string]string{names.AnnotationPlacement: tt.annotation}
			r, err := s.RequestIn(p, workload.Profile{Placements: tt.placements})
			if err != nil || r.Placement != tt.want || r.NodePlacement != tt.want {
				t.Errorf("got %v, %v, %v, want %s", r.Placement, r.NodePlacement, err, tt.want)
			}
		})
	}
	p := testPod("p", 1)
	p.Namespace = "broken"
	_, _ = s.RequestIn(p, workload.Profile{Placements: otherwise})
	if got := s.said(); strings.Count(got, "\n") > 0 || !strings.Contains(got, `Namespace broken: InvalidPlacement: metadata.annotations[tangram.dev/placement]: "tight"`) {
		t.Errorf("the invalid word is reported once: %v", got)
	}
	// What HAMi says of devices leaves the nodes open.
	p = testPod("p", 1)
	p.Annotations = map[string]string{"hami.io/gpu-scheduler-policy": "binpack"}
	if r, _ := s.RequestIn(p, workload.Profile{Placements: otherwise}); r.Placement != model.Binpack || r.NodePlacement != model.Spread {
		t.Errorf("got %s on devices, %s on nodes", r.Placement, r.NodePlacement)
	}
	// A pod's own profile counts where none is given.
	s.Own("packs", workload.Profile{Placements: workload.Placements{Otherwise: model.Binpack}})
	p = testPod("p", 1)
	p.Spec.SchedulerName = "packs"
	if r, err := s.Request(p); err != nil || r.Placement != model.Binpack {
		t.Errorf("got %v, %v", r, err)
	}
}

// TestCompanyStarts: a pod that must be beside another one starts when that has come,
// and when another pod's labels are edited so that it fits; not before.
func TestCompanyStarts(t *testing.T) {
	s := newSetup(t, 1)
	seeker := func(name string) *v1.Pod {
		p := s.member(name, "", 0, 1)
		p.Annotations = map[string]string{names.AnnotationAffinity: "same-node=app:" + name}
		return p
	}
	byEdit, byStart := seeker("db"), seeker("cache")
	s.add(byEdit, byStart)
	if turn := s.Step(); len(turn.Activate) > 0 {
		t.Fatal("none is there yet")
	}
	other := testPod("other", 1)
	other.Spec.NodeName = "n0"
	other.Labels = map[string]string{"app": "web"}
	s.add(other)
	if turn := s.Step(); len(turn.Activate) > 0 {
		t.Error("started beside another pod")
	}
	s.edit("other", func(p *v1.Pod) { p.Labels = map[string]string{"app": "db"} })
	if s.Step(); !s.gate.Released(byEdit) || s.gate.Released(byStart) {
		t.Errorf("after the edit: released %v and %v", s.gate.Released(byEdit), s.gate.Released(byStart))
	}
	cache := testPod("cache-pod", 1)
	cache.Labels = map[string]string{"app": "cache"}
	cache.Spec.NodeName = "n0"
	s.add(cache)
	if s.Step(); !s.gate.Released(byStart) {
		t.Error("not started when the pod it needs has come")
	}
}

// TestTelemetryReachesScores: what the agent measures counts at once, and stops to
// count when it stops to say it.
func TestTelemetryReachesScores(t *testing.T) {
	s := newSetup(t, 0)
	s.addNode(testNode("n", 1))
	gn := &v1alpha1.GPUNode{ObjectMeta: metav1.ObjectMeta{Name: "n"}, Spec: v1alpha1.GPUNodeSpec{Devices: []v1alpha1.Device{{Vendor: "nvidia", Model: "T4", MemoryMiB: 15360}}}}
	s.gpuNodes.Add(gn)
	r := request(t, testPod("p", 1))
	live := func() int {
		return s.Rate(r, score.DefaultWeights(), "n", "").Card[score.LiveUtilization]
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

// TestRateWithout: a node is rated as if a pod did not hold what is planned for it there.
func TestRateWithout(t *testing.T) {
	s := newSetup(t, 1)
	p := s.member("p", "", 0, 8)
	s.add(p)
	s.Step()
	r := s.release(p)
	request := request(t, p)
	if full := s.Rate(request, score.DefaultWeights(), r.Node.ID, ""); full.Total != 0 {
		t.Errorf("a full node rates %d", full.Total)
	}
	if own := s.Rate(request, score.DefaultWeights(), r.Node.ID, r.Holder); own.Total == 0 {
		t.Error("its planned node cannot take it")
	}
	if !s.Confirm(p, r.Ticket) {
		t.Error("asking changed what it holds")
	}
}

// TestWaitingPod: a pod waits until something lets it fit; what changes nothing about
// nodes' devices starts nothing and is not planned anew.
func TestWaitingPod(t *testing.T) {
	s := newSetup(t, 0)
	p := s.member("p", "", 0, 2)
	s.add(p)
	if turn := s.Step(); len(turn.Activate) > 0 {
		t.Fatal("there is no node to fit")
	}
	s.addNode(testNode("n", 2))
	gn := &v1alpha1.GPUNode{ObjectMeta: metav1.ObjectMeta{Name: "n"}, Spec: v1alpha1.GPUNodeSpec{Devices: []v1alpha1.Device{
		{Index: 0, Vendor: "nvidia", Model: "T4", MemoryMiB: 1}, {Index: 1, Vendor: "nvidia", Model: "T4", MemoryMiB: 1},
	}}}
	status := func(h v1alpha1.Health, busy int32) {
		gn = gn.DeepCopy()
		gn.Status.Devices = []v1alpha1.DeviceStatus{{Index: 0, Health: h, UtilizationPercent: &busy}}
		s.gpuNodes.Modify(gn)
	}
	s.gpuNodes.Add(gn)
	status(v1alpha1.Failed, 0)
	one, two := request(t, testPod("x", 1)), request(t, testPod("x", 2))
	s.eventually("the failed device counts", func() bool { return s.room(two) == 0 && s.room(one) == 1 })
	if turn := s.Step(); len(turn.Activate) > 0 {
		t.Fatal("started on a failed device")
	}
	for i := range int32(20) { // telemetry
		status(v1alpha1.Failed, i+1)
	}
	live := func() int { return s.Rate(one, score.DefaultWeights(), "n", "").Card[score.LiveUtilization] }
	s.eventually("telemetry is seen", func() bool { return live() > 0 })
	if turn := s.Step(); len(turn.Activate) > 0 {
		t.Error("started by what changes nothing")
	}
	status(v1alpha1.Healthy, 0)
	s.eventually("recovery starts the pod", func() bool { s.Step(); return s.gate.Released(p) })
	if turn := s.Step(); len(turn.Activate) > 0 {
		t.Error("started twice")
	}
	for i := range 3 {
		s.add(s.member(fmt.Sprint("more", i), "", 0, 2))
	}
	if s.Step(); s.held() != 1 {
		t.Errorf("%d hold the same devices", s.held())
	}
}
