package engine

import (
	"fmt"
	"math/bits"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tangram-dev/tangram/api/names"
	"github.com/tangram-dev/tangram/api/v1alpha1"
	"github.com/tangram-dev/tangram/core/model"
	"github.com/tangram-dev/tangram/core/score"
	"github.com/tangram-dev/tangram/internal/kube/contest"
	"github.com/tangram-dev/tangram/internal/kube/inventory"
)

// withAgent is a node n of four GPUs with an agent.
func withAgent(t *testing.T) *setup {
	s := newSetup(t, 0)
	s.addNode(testNode("n", 4))
	gn := &v1alpha1.GPUNode{ObjectMeta: metav1.ObjectMeta{Name: "n"}, Spec: v1alpha1.GPUNodeSpec{Agent: &v1alpha1.Agent{Mode: v1alpha1.Observing}}}
	for i := range 4 {
		gn.Spec.Devices = append(gn.Spec.Devices, v1alpha1.Device{Index: int32(i), Vendor: "nvidia", Model: "T4", MemoryMiB: 15360})
	}
	s.gpuNodes.Add(gn)
	s.eventually("the agent is known", func() (there bool) {
		s.do("test", func(*driver, time.Time) { d, _ := s.inventory.Describe("n"); there = d.Agent })
		return there
	})
	return s
}

func recordOf(device int) string {
	return fmt.Sprintf(`{"version":1,"node":"n","containers":[{"name":"main","resource":"nvidia.com/gpu","devices":[{"index":%d}]}]}`, device)
}

// holds binds a pod to a device of node n, a given time after the start.
func (s *setup) holds(name string, device int, after time.Duration) *v1.Pod {
	p := s.member(name, "", 0, 1)
	p.Spec.NodeName, p.Annotations[names.AnnotationDevices] = "n", recordOf(device)
	p.Status.Conditions = []v1.PodCondition{{Type: v1.PodScheduled, Status: v1.ConditionTrue, LastTransitionTime: metav1.NewTime(start.Add(after))}}
	s.add(p)
	return p
}

// corrects is what an agent does when kubelet chose another device.
func (s *setup) corrects(name string, device int) {
	s.edit(name, func(p *v1.Pod) { p.Annotations[names.AnnotationDevices] = recordOf(device) })
}

// TestExchangedDevices: kubelet gave two or three pods each other's devices, and the
// agent corrects their records one after the other, in any order, whatever happens in
// between. Each correction counts at once; nobody is told to go, nothing is reported, and
// no device seems free meanwhile.
func TestExchangedDevices(t *testing.T) {
	for _, order := range [][]int{{0, 1, 2}, {2, 1, 0}, {1, 0, 2}, {1, 2, 0}} {
		t.Run(fmt.Sprint(order), func(t *testing.T) {
			s := withAgent(t)
			pods := []*v1.Pod{s.holds("a", 0, 0), s.holds("b", 1, time.Second), s.holds("c", 2, 2*time.Second)}
			s.Step()
			for i, which := range order {
				s.corrects(pods[which].Name, (which+1)%3)
				if turn := s.after(contest.Grace / 4); len(turn.Heal) > 0 || turn.Next > contest.Grace {
					t.Fatalf("after %d corrections: %+v must go, next look in %s", i+1, turn.Heal, turn.Next)
				}
				if s.held() != 3 || s.room(request(t, testPod("x", 1))) != 1 || s.room(request(t, testPod("x", 2))) != 0 {
					t.Errorf("after %d corrections %d pods hold something, and one device must be free", i+1, s.held())
				}
			}
			for i, p := range pods {
				if _, set := s.heldBy(p); set != model.Mask(1)<<((i+1)%3) {
					t.Errorf("%s holds %b", p.Name, set)
				}
			}
			if turn := s.after(time.Hour); len(turn.Heal) > 0 || s.said() != "" || s.driver.contests.Size() > 0 {
				t.Errorf("heals %v, said %q, remembers %v", turn.Heal, s.said(), s.driver.contests.Size())
			}
			if _, err := s.Check(); err != nil {
				t.Error(err)
			}
		})
	}
}

// TestContestThatLasts: what the agent does not correct within the grace time is
// reported, and the pod on a device that this process gave to another has to go.
func TestContestThatLasts(t *testing.T) {
	s := withAgent(t)
	s.runs("older", 1, 1)
	s.holds("younger", 0, time.Second)
	if turn := s.Step(); len(turn.Heal) > 0 || s.said() != "" || turn.Next > contest.Grace {
		t.Fatalf("at once: %+v, said %q, next look in %s", turn.Heal, s.said(), turn.Next)
	}
	s.now = s.now.Add(contest.Grace - time.Second)
	s.look(nil, "n") // an event does not restart the time
	s.corrects("younger", 0)
	if turn := s.Step(); len(turn.Heal) > 0 {
		t.Fatalf("before its time: %+v", turn.Heal)
	}
	turn := s.after(2 * time.Second)
	if len(turn.Heal) != 1 || turn.Heal[0].Pod.Name != "younger" || s.said() == "" {
		t.Fatalf("%+v, said %q", turn.Heal, s.said())
	}
	if again := s.after(time.Minute); len(again.Heal) > 0 {
		t.Error("told to go twice")
	}
	// A record that is corrected to another device which is taken is another contest.
	_, third := s.heldBy(s.runs("third", 1, 1)[0])
	s.holds("fourth", bits.TrailingZeros64(uint64(third)), 3*time.Second)
	s.Step()
	s.now = s.now.Add(contest.Grace - time.Second)
	s.corrects("fourth", 0)
	if turn := s.after(2 * time.Second); len(turn.Heal) > 0 {
		t.Errorf("a record that was just corrected: %+v", turn.Heal)
	}
	if turn := s.after(contest.Grace); len(turn.Heal) != 1 || turn.Heal[0].Pod.Name != "fourth" {
		t.Errorf("%+v", turn.Heal)
	}
}

// TestContestThatEnded: a pod that was reported, and whose record is true again before it
// was told to go, stays.
func TestContestThatEnded(t *testing.T) {
	s := withAgent(t)
	s.holds("older", 0, 0)
	s.holds("younger", 0, time.Second)
	s.Sync()
	s.now = s.now.Add(2 * contest.Grace)
	s.look(nil, "n") // a replica that does not lead reports, too
	if s.said() == "" {
		t.Fatal("not reported")
	}
	s.corrects("younger", 3)
	if turn := s.Step(); len(turn.Heal) > 0 {
		t.Errorf("%+v", turn.Heal)
	}
}

// TestStaleTelemetry: telemetry that its agent does not renew stops to count, and counts
// again when it comes back; one without a time counts; one from the future does not.
func TestStaleTelemetry(t *testing.T) {
	s := newSetup(t, 0)
	s.addNode(testNode("n", 1))
	busy := int32(90)
	at := func(when time.Time) *v1alpha1.GPUNode {
		gn := &v1alpha1.GPUNode{ObjectMeta: metav1.ObjectMeta{Name: "n"}, Spec: v1alpha1.GPUNodeSpec{Devices: []v1alpha1.Device{{Vendor: "nvidia", Model: "T4", MemoryMiB: 15360}}}}
		gn.Status.Devices = []v1alpha1.DeviceStatus{{Health: v1alpha1.Healthy, UtilizationPercent: &busy}}
		if !when.IsZero() {
			gn.Status.MeasuredAt = &metav1.Time{Time: when}
		}
		return gn
	}
	r := request(t, testPod("p", 1))
	live := func() int { return s.Rate(r, score.DefaultWeights(), "n", "").Card[score.LiveUtilization] }
	s.gpuNodes.Add(at(s.now))
	s.eventually("measured", func() bool { return live() == 10 })
	s.now = s.now.Add(inventory.TelemetryMaxAge)
	if live() != 10 {
		t.Error("as old as allowed, and does not count")
	}
	s.now = s.now.Add(time.Minute + time.Second)
	if live() != 50 {
		t.Error("too old, and counts")
	}
	s.gpuNodes.Modify(at(s.now))
	s.eventually("measured again", func() bool { return live() == 10 })
	s.Configure(func(set *Settings) { set.TelemetryMaxAge = time.Second })
	s.now = s.now.Add(3 * time.Second)
	if live() != 50 {
		t.Error("the set age is not kept")
	}
	s.gpuNodes.Modify(at(time.Time{}))
	s.eventually("without a time", func() bool { return live() == 10 })
	s.gpuNodes.Modify(at(s.now.Add(time.Hour)))
	s.eventually("from the future", func() bool { return live() == 50 })
}
