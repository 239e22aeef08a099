package engine

import (
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/tangram-dev/tangram/api/names"
)

// boundAt says when a pod was bound.
func boundAt(at time.Time) func(*v1.Pod) {
	return func(p *v1.Pod) {
		p.Status.Conditions = []v1.PodCondition{{Type: v1.PodScheduled, Status: v1.ConditionTrue, LastTransitionTime: metav1.NewTime(at)}}
	}
}

// TestForgedRecordEndsNobody: whatever a tenant writes into a record, and whenever, the
// pod that this process placed keeps its device and is not told to go; not even when the
// record comes between the decision and the binding.
func TestForgedRecordEndsNobody(t *testing.T) {
	forge := func(s *setup, change ...func(*v1.Pod)) {
		p := onDevice2("a-forger")
		for _, c := range change {
			c(p)
		}
		s.add(p)
	}
	tests := []struct {
		name string
		// before is done before the honest pod is decided on, between before it is bound,
		// after when it is.
		before, between, after func(*setup)
	}{
		{name: "created within the same second", after: func(s *setup) { forge(s, boundAt(s.now)) }},
		{name: "bound before the honest pod, seen after the decision", between: func(s *setup) { forge(s, boundAt(s.now.Add(-time.Hour))) }},
		{name: "no time at all", between: func(s *setup) { forge(s) }},
		{name: "an older pod's record is edited", before: func(s *setup) {
			forge(s, boundAt(s.now.Add(-time.Hour)), func(p *v1.Pod) { delete(p.Annotations, names.AnnotationDevices) })
		}, after: func(s *setup) {
			s.edit("a-forger", func(p *v1.Pod) {
				p.Annotations[names.AnnotationDevices] = strings.Replace(onDevice2("x").Annotations[names.AnnotationDevices], `"index":2`, `"index":3`, 1)
			})
		}},
	}
	for _, tt := range tests {
		for _, scheduler := range []string{names.SchedulerName, "by-hand"} {
			t.Run(tt.name+" "+scheduler, func(t *testing.T) {
				s := newSetup(t, 0)
				s.addNode(testNode("n", 4))
				do := func(f func(*setup)) {
					if f != nil {
						f(s)
						s.Sync()
					}
				}
				do(tt.before)
				pods, releases := s.planned("honest", 3, 1)
				for i, p := range pods {
					if _, _, ok := s.Reserved(p, releases[i].Ticket); !ok {
						t.Fatalf("%s has lost its place", p.Name)
					}
				}
				do(tt.between)
				for i, p := range pods {
					s.bind(p, releases[i])
				}
				s.Step()
				do(tt.after)
				if p := s.latest("a-forger").DeepCopy(); p.Spec.SchedulerName != scheduler {
					p.Spec.SchedulerName = scheduler
					s.addPod(p)
				}
				for range 3 {
					for _, v := range s.after(time.Minute).Heal {
						if v.Pod.Name != "a-forger" {
							t.Errorf("%s has to go: %s", v.Pod.Name, v.Why)
						}
					}
				}
				for i, p := range pods {
					if _, set := s.heldBy(p); set != releases[i].Grant.Set {
						t.Errorf("%s holds %b, was given %b", p.Name, set, releases[i].Grant.Set)
					}
				}
				if said := s.said(); !strings.Contains(said, "Pod a-forger: ContestedRecord") || strings.Contains(said, "Pod honest") {
					t.Errorf("said %q", said)
				}
				if _, err := s.Check(); err != nil {
					t.Error(err)
				}
			})
		}
	}
}

// TestReadAtOnce: at a start two records name one device. Who was bound first has it, then
// who is this scheduler's, then who was created first, then who has the smaller UID; the
// name does not count. Nobody is told to go, since a record can be edited while nobody
// looks; and when the agent corrects one of them, both are right.
func TestReadAtOnce(t *testing.T) {
	foreign := func(p *v1.Pod) { p.Spec.SchedulerName = "by-hand" }
	created := func(at time.Time) func(*v1.Pod) {
		return func(p *v1.Pod) { p.CreationTimestamp = metav1.NewTime(at) }
	}
	uid := func(uid string) func(*v1.Pod) { return func(p *v1.Pod) { p.UID = types.UID(uid) } }
	second := start.Add(time.Second)
	type changes []func(*v1.Pod)
	tests := []struct {
		name string
		// a comes before b by name.
		a, b changes
		want string
	}{
		{"bound first", changes{boundAt(second), created(start)}, changes{boundAt(start), foreign, created(second)}, "b"},
		{"without a time of binding", changes{created(start)}, changes{boundAt(start), foreign, created(second)}, "b"},
		{"this scheduler's", changes{boundAt(start), foreign, created(start)}, changes{boundAt(start), created(second)}, "b"},
		{"created first", changes{boundAt(start), created(second)}, changes{boundAt(start), created(start)}, "b"},
		{"equal", changes{boundAt(start), uid("2")}, changes{boundAt(start), uid("1")}, "b"},
	}
	for _, tt := range tests {
		for _, agent := range []bool{false, true} {
			t.Run(tt.name, func(t *testing.T) {
				s := newSetup(t, 0)
				if agent {
					s = withAgent(t)
				} else {
					s.addNode(testNode("n", 4))
				}
				s.driver.started = false // what is added now was there before this process
				for name, list := range map[string]changes{"a": tt.a, "b": tt.b} {
					p := onDevice2(name)
					for _, c := range list {
						c(p)
					}
					s.add(p)
				}
				for range 3 {
					if turn := s.after(time.Minute); len(turn.Heal) > 0 {
						t.Errorf("%s has to go", turn.Heal[0].Pod.Name)
					}
				}
				other := map[string]string{"a": "b", "b": "a"}[tt.want]
				if _, set := s.heldBy(s.latest(tt.want)); set != 0b100 {
					t.Errorf("%s holds %b", tt.want, set)
				}
				if _, set := s.heldBy(s.latest(other)); set != 0b1 {
					t.Errorf("%s holds %b", other, set)
				}
				if said := s.said(); !strings.Contains(said, "Pod "+other+": ContestedRecord") || strings.Contains(said, "Pod "+tt.want) {
					t.Errorf("said %q", said)
				}
				s.corrects(tt.want, 3) // it was forged
				s.Step()
				if _, set := s.heldBy(s.latest(other)); set != 0b100 {
					t.Errorf("after the correction %s holds %b", other, set)
				}
				if _, err := s.Check(); err != nil {
					t.Error(err)
				}
			})
		}
	}
}
