package observe

import (
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/component-base/metrics/legacyregistry"

	coreanswer "github.com/tangram-dev/tangram/core/answer"
	"github.com/tangram-dev/tangram/core/explain"
	"github.com/tangram-dev/tangram/core/model"
	"github.com/tangram-dev/tangram/internal/kube/metrics"
)

// TestWaitsSince: a pod's wait begins with its creation, as exactly as is known, or with
// the end of its gates.
func TestWaitsSince(t *testing.T) {
	o := New()
	now := time.Unix(1_700_000_000, 500_000_000)
	pod := func(uid string, created time.Time, gates ...v1.PodSchedulingGate) *v1.Pod {
		return &v1.Pod{ObjectMeta: metav1.ObjectMeta{Name: uid, UID: types.UID(uid), CreationTimestamp: metav1.NewTime(created)}, Spec: v1.PodSpec{SchedulingGates: gates}}
	}
	h := func(p *v1.Pod) model.HolderID { return model.HolderID(p.UID) }
	fresh, old := pod("fresh", now.Truncate(time.Second)), pod("old", now.Add(-time.Hour))
	gated := pod("gated", now.Add(-time.Hour), v1.PodSchedulingGate{Name: "wait"})
	for _, p := range []*v1.Pod{fresh, old, gated} {
		o.Waits(p, now)
		o.Waits(p, now.Add(time.Second)) // seen again
	}
	gated.Spec.SchedulingGates = nil
	later := now.Add(time.Minute)
	o.Waits(gated, later)
	for _, c := range []struct {
		pod  *v1.Pod
		want time.Time
	}{{fresh, now}, {old, now.Add(-time.Hour)}, {gated, later}} {
		if got := o.since[h(c.pod)]; !got.Equal(c.want) {
			t.Errorf("%s waits since %s, want %s", c.pod.Name, got, c.want)
		}
	}
	o.noLongerWaits(h(old))
	if _, there := o.since[h(old)]; there {
		t.Error("not forgotten")
	}
}

// A reason is counted once while it lasts, and again when another one came between.
func TestReasonsOnce(t *testing.T) {
	metrics.Register()
	counted := func() (n float64) {
		families, err := legacyregistry.DefaultGatherer.Gather()
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range families {
			if f.GetName() != metrics.SchedulingAttempts.Name {
				continue
			}
			for _, m := range f.GetMetric() {
				if m.GetLabel()[0].GetValue() == explain.NoDomain.String() {
					n += m.GetCounter().GetValue()
				}
			}
		}
		return n
	}
	o := New()
	before := counted()
	for _, c := range []struct {
		reason explain.Code
		want   float64
	}{{explain.NoDomain, 3}, {explain.NoDomain, 3}, {explain.Turn, 3}, {explain.NoDomain, 6}} {
		o.WaitsFor("g", c.reason, 3)
		if got := counted() - before; got != c.want {
			t.Errorf("%s: %g pods counted, want %g", c.reason, got, c.want)
		}
	}
}

// TestNil: a replica has no observer, and every call does nothing.
func TestNil(t *testing.T) {
	var o *Observer
	now, p := time.Now(), &v1.Pod{}
	o.Read(coreanswer.Answers{}, nil)
	o.Lead(now)
	o.StepBegins()
	o.Waits(p, now)
	o.Released("h")
	o.Bound("h", now)
	o.Failed("h", "", now)
	o.Ended(p, now)
	o.WaitsFor("g", explain.Turn, 1)
	o.Settled("g")
	o.Withdrawn("g", now)
	o.Contested(1)
	if o.Begun("h") != (metrics.Timeline{}) || o.GPUHours("h", now) != 0 || o.Meter() != nil || o.Idle() == nil || o.Size() != 0 || len(o.Timeline().After(0).Items) != 0 {
		t.Error("something was observed")
	}
}
