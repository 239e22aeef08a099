package engine

import (
	"sync"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/component-base/metrics/legacyregistry"

	"github.com/tangram-dev/tangram/core/engine"
	"github.com/tangram-dev/tangram/core/explain"
	"github.com/tangram-dev/tangram/core/measure"
	"github.com/tangram-dev/tangram/core/model"
	"github.com/tangram-dev/tangram/internal/kube/metrics"
)

// TestHours: GPU hours run from Binding to end, for the leader only, and a scrape shows
// the state without draining events.
func TestHours(t *testing.T) {
	s := newSetup(t, 2)
	pods := s.runs("gang", 2, 3)
	if u := s.State().Usage; len(u) != 1 { // Step was called: this process leads
		t.Fatalf("usage %v", u)
	}
	begin := s.State().Usage[0].Amount
	s.now = s.now.Add(time.Hour)
	state := s.State()
	u := state.Usage[0]
	if got := u.Amount - begin; got != 6*1000*time.Hour.Milliseconds() {
		t.Errorf("6 GPUs used %d in an hour", got)
	}
	if u.Namespace != pods[0].Namespace || u.Queue != "default" || u.Model != measure.UnknownModel {
		t.Errorf("charged to %+v", u.Key)
	}
	if state.At != s.now {
		t.Errorf("as of %s", state.At)
	}
	allocated := int64(0)
	for _, f := range state.Census.Fleet {
		allocated += f.Milli[engine.Allocated]
	}
	if allocated != 6000 {
		t.Errorf("%d allocated", allocated)
	}
	for _, p := range pods {
		s.deletePod(p.Name)
	}
	s.Step()
	at := s.now
	s.now = s.now.Add(time.Hour)
	if got := s.State().Usage[0].Amount; got != u.Amount {
		t.Errorf("used %d more after the end at %s", got-u.Amount, at)
	}
	// A second scrape within two seconds costs nothing.
	first := s.State()
	s.now = s.now.Add(time.Second)
	if s.State().At != first.At {
		t.Error("counted again after a second")
	}
	s.now = s.now.Add(time.Second)
	if s.State().At == first.At {
		t.Error("not counted again after two seconds")
	}
}

// A process that follows shows no usage.
func TestFollowerCountsNothing(t *testing.T) {
	s := newSetup(t, 1)
	s.Sync()
	state := s.State()
	if state.Usage != nil {
		t.Errorf("usage %v", state.Usage)
	}
	if q := state.Census.Queues; len(q) == 0 || q[0].Share != 8000 {
		t.Errorf("queues %+v, want all 8 GPUs at the root", q)
	}
}

// TestWaitsSince: a pod's wait begins with its creation, as exactly as is known, or with
// the end of its gates.
func TestWaitsSince(t *testing.T) {
	o := newObserved()
	now := time.Unix(1_700_000_000, 500_000_000)
	pod := func(uid string, created time.Time, gates ...v1.PodSchedulingGate) *v1.Pod {
		p := testPod(uid, 1)
		p.UID, p.CreationTimestamp, p.Spec.SchedulingGates = p.UID+"-"+p.UID, metav1.NewTime(created), gates
		return p
	}
	h := func(p *v1.Pod) model.HolderID { return model.HolderID(p.UID) }
	fresh, old := pod("fresh", now.Truncate(time.Second)), pod("old", now.Add(-time.Hour))
	gated := pod("gated", now.Add(-time.Hour), v1.PodSchedulingGate{Name: "wait"})
	for _, p := range []*v1.Pod{fresh, old, gated} {
		o.waitsSince(p, now)
		o.waitsSince(p, now.Add(time.Second)) // seen again
	}
	gated.Spec.SchedulingGates = nil
	later := now.Add(time.Minute)
	o.waitsSince(gated, later)
	for _, c := range []struct {
		pod  *v1.Pod
		want time.Time
	}{{fresh, now}, {old, now.Add(-time.Hour)}, {gated, later}} {
		if got := o.since[h(c.pod)]; !got.Equal(c.want) {
			t.Errorf("%s waits since %s, want %s", c.pod.Name, got, c.want)
		}
	}
	o.forget(h(old))
	if _, known := o.since[h(old)]; known {
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
	o := newObserved()
	before := counted()
	for _, c := range []struct {
		reason explain.Code
		want   float64
	}{{explain.NoDomain, 3}, {explain.NoDomain, 3}, {explain.Turn, 3}, {explain.NoDomain, 6}} {
		o.waitsFor("g", c.reason, 3)
		if got := counted() - before; got != c.want {
			t.Errorf("%s: %g pods counted, want %g", c.reason, got, c.want)
		}
	}
}

// A scrape may come at any time: for the race detector.
func TestStateConcurrently(t *testing.T) {
	s := newSetup(t, 2)
	s.clock = time.Now
	done := make(chan struct{})
	var scrapes sync.WaitGroup
	for range 2 {
		scrapes.Go(func() {
			for {
				select {
				case <-done:
					return
				default:
					s.shown.mu.Lock()
					s.shown.At = time.Time{} // each counts anew
					s.shown.mu.Unlock()
					s.State()
				}
			}
		})
	}
	for range 20 {
		pods := s.runs("gang", 2, 3)
		s.SetIdle(5, time.Minute)
		s.SetPrices(measure.Prices{})
		for _, p := range pods {
			s.deletePod(p.Name)
		}
		s.Step()
	}
	close(done)
	scrapes.Wait()
}
