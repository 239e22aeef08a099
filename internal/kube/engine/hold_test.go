package engine

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/tangram-dev/tangram/api/names"
	"github.com/tangram-dev/tangram/api/record"
	"github.com/tangram-dev/tangram/api/v1alpha1"
	"github.com/tangram-dev/tangram/core/engine"
	"github.com/tangram-dev/tangram/core/score"
)

// noDoubles checks the records of all bound pods: no device is in two of them.
func (s *setup) noDoubles() {
	s.t.Helper()
	held := map[string]string{}
	pods, _ := s.driver.pods.List(labels.Everything()) // the store knows no error
	for _, p := range pods {
		if p.Spec.NodeName == "" {
			continue
		}
		rec, err := record.Decode(p.Annotations[names.AnnotationDevices])
		must(s.t, err)
		for _, d := range rec.Containers[0].Devices {
			key := fmt.Sprint(rec.Node, " ", d.Index)
			if other := held[key]; other != "" {
				s.t.Errorf("device %s was given to %s and %s", key, other, p.Name)
			}
			held[key] = p.Name
		}
	}
}

// TestAssumeRace: many goroutines assume, bind, fail and finish pods outside of gangs
// while nodes come and go. Nothing is promised twice, and in the end the ledger equals
// the API.
func TestAssumeRace(t *testing.T) {
	const nodes, workers, rounds = 8, 6, 40
	s := newSetup(t, nodes)
	var wg sync.WaitGroup
	for w := range workers {
		wg.Go(func() {
			random := rand.New(rand.NewPCG(uint64(w), 7))
			for i := range rounds {
				p := testPod(fmt.Sprintf("p%d-%d", w, i), int64(1+random.IntN(3)))
				s.addPod(p)
				r := request(t, p)
				found := s.Search(r, score.DefaultWeights(), 1)
				if len(found) == 0 {
					continue
				}
				given, refusal := s.Assume(p, r, found[0])
				if refusal != nil {
					continue // another was faster
				}
				if random.IntN(4) == 0 {
					s.Unassume(p)
					continue
				}
				s.bind(p, given)
				if random.IntN(3) > 0 {
					s.deletePod(p.Name)
				}
			}
		})
	}
	wg.Go(func() {
		for range 10 {
			s.look(testPod("p0-0", 1), "n0")
			_, _ = s.Check()
		}
	})
	wg.Wait()
	if _, err := s.Check(); err != nil {
		t.Error(err)
	}
	s.noDoubles()
}

// TestReleaseRace: the same for pods that the engine releases: many cycles at once that
// succeed, fail at every point and end, gangs among them, while the engine steps.
func TestReleaseRace(t *testing.T) {
	const nodes, workers, rounds = 6, 4, 60
	s := newSetup(t, nodes)
	released := make(chan *v1.Pod, 10_000)
	stop := make(chan struct{})
	created := make(chan struct{}) // closed when the owners are done
	var stepping, wg sync.WaitGroup
	stepping.Go(func() {
		for {
			select {
			case <-stop:
				return
			default:
			}
			turn := s.Step()
			for _, p := range append(turn.Activate, turn.Requeue...) {
				released <- p
			}
			time.Sleep(time.Millisecond)
		}
	})
	for w := range workers { // cycles
		wg.Go(func() {
			random := rand.New(rand.NewPCG(uint64(w), 9))
			for idle := 0; idle < 50; {
				select {
				case p := <-released:
					s.cycle(p, random)
					idle = 0
				case <-time.After(2 * time.Millisecond):
					select {
					case <-created:
						idle++
					default:
					}
				}
			}
		})
	}
	wg.Go(func() { // owners
		defer close(created)
		random := rand.New(rand.NewPCG(5, 5))
		for i := range rounds {
			if size := random.IntN(3); size == 0 {
				s.addPod(s.member(fmt.Sprintf("p%d", i), "", 0, int64(1+random.IntN(8))))
			} else {
				s.gang(fmt.Sprintf("g%d-", i), size+1, int64(1+random.IntN(4)))
			}
			time.Sleep(time.Duration(random.IntN(3)) * time.Millisecond)
		}
	})
	wg.Wait()
	close(stop)
	stepping.Wait()
	if _, err := s.Check(); err != nil {
		t.Error(err)
	}
	s.noDoubles()
	if bound := s.held(); bound == 0 {
		t.Error("nothing ran")
	}
}

// cycle plays a scheduling cycle with its binding cycle.
func (s *setup) cycle(p *v1.Pod, random *rand.Rand) {
	c, ok := s.Begin(p)
	if !ok {
		return
	}
	switch random.IntN(6) {
	case 0:
		s.Refused(p, c.Ticket, []Verdict{{Node: c.Node.ID, Said: "no", Late: random.IntN(2) == 0}})
		return
	case 1:
		s.Failed(p, c.Ticket, "at Reserve")
		return
	}
	given, refusal := s.Take(p, c.Ticket, c.Node.ID)
	if refusal != nil {
		return
	}
	ready, others, ok := s.Reserved(p, c.Ticket)
	if !ok || !ready {
		return
	}
	bind := func(p *v1.Pod, r engine.Release) {
		if !s.Confirm(p, r.Ticket) {
			return
		}
		if random.IntN(8) == 0 {
			s.Failed(p, r.Ticket, "at Bind")
			return
		}
		s.bind(p, r)
		if random.IntN(2) == 0 {
			s.deletePod(p.Name)
		}
	}
	bind(p, given)
	for _, h := range others {
		list, _ := s.driver.pods.List(labels.Everything()) // the store knows no error
		for _, o := range list {
			if string(o.UID) == string(h) {
				if c, ok := s.Begin(o); ok {
					bind(o, c.Release)
				}
			}
		}
	}
}

// TestUpdatesOfAnAssumedPod: news about a pod that is being bound do not take its
// promise away; its deletion does.
func TestUpdatesOfAnAssumedPod(t *testing.T) {
	s := newSetup(t, 0)
	s.addNode(testNode("n", 1))
	p := testPod("p", 1)
	s.add(p)
	r := request(t, p)
	if _, refusal := s.Assume(p, r, "n"); refusal != nil {
		t.Fatal(refusal)
	}
	s.edit("p", func(p *v1.Pod) { p.Labels["x"] = "y" })
	if s.look(p, "n"); s.room(r) != 0 {
		t.Error("the promise was lost")
	}
	s.deletePod("p")
	if s.room(r) != 1 {
		t.Error("the promise does not end with the pod")
	}
}

// TestEventsRepeated: an event may come twice, late or in another order: what counts is
// what the stores say when a question is asked, and no question is answered before the
// events that have come are applied.
func TestEventsRepeated(t *testing.T) {
	s := newSetup(t, 0)
	s.addNode(testNode("n", 1))
	r := request(t, testPod("x", 1))
	if s.room(r) != 1 {
		t.Fatal("the node's event was not applied before the question")
	}
	gone := testPod("gone", 1)
	if _, refusal := s.Assume(gone, r, "n"); refusal != nil {
		t.Fatal(refusal)
	}
	s.look(gone, "") // the store does not know it: it is gone
	if s.room(r) != 1 {
		t.Error("a pod that is gone still holds its device")
	}
	bound := testPod("p", 1)
	bound.Spec.NodeName = "n"
	s.add(bound)
	s.deletePod("p")
	s.feed.podHandler().OnUpdate(testPod("p", 1), bound) // late
	if s.room(r) != 1 {
		t.Error("a late event brought a pod back")
	}
	before := testNode("n", 4)
	s.addNode(testNode("n", 2))
	s.feed.nodeHandler().OnUpdate(before, testNode("n", 1)) // late
	if s.room(request(t, testPod("x", 2))) != 1 {
		t.Error("a late event brought an old node back")
	}
}

// TestSameNameNewPod: a pod deleted and created anew under its name is another pod, also
// when the informer missed that.
func TestSameNameNewPod(t *testing.T) {
	s := newSetup(t, 0)
	s.addNode(testNode("n", 1))
	old := testPod("p", 1)
	old.UID = "old"
	s.add(old)
	r := request(t, old)
	if _, refusal := s.Assume(old, r, "n"); refusal != nil {
		t.Fatal(refusal)
	}
	s.add(testPod("p", 1)) // one update
	if s.room(r) != 1 {
		t.Error("the old pod is gone, whatever its name is used for")
	}
}

// TestComplaintsAreMadeOnce: an invalid record or GPUNode is reported once, again when
// it changes.
func TestComplaintsAreMadeOnce(t *testing.T) {
	s := newSetup(t, 0)
	s.addNode(testNode("n", 2))
	p := testPod("p", 1)
	p.Spec.NodeName, p.Annotations = "n", map[string]string{names.AnnotationDevices: "{"}
	s.add(p)
	s.gpuNodes.Add(&v1alpha1.GPUNode{ObjectMeta: metav1.ObjectMeta{Name: "n"}, Spec: v1alpha1.GPUNodeSpec{Devices: []v1alpha1.Device{
		{Index: 0, UUID: "a", Vendor: "nvidia", Model: "T4", MemoryMiB: 1}, {Index: 1, UUID: "a", Vendor: "nvidia", Model: "T4", MemoryMiB: 1},
	}}})
	said := func() int { return len(strings.Split(s.said(), "\n")) }
	s.eventually("two complaints", func() bool { s.Sync(); return said() == 2 })
	if got := s.said(); !strings.Contains(got, "Pod p: InvalidRecord: ") || !strings.Contains(got, "GPUNode n: InvalidInventory: ") {
		t.Errorf("got %s", got)
	}
	for range 5 {
		s.look(p, "n")
	}
	if said() != 2 {
		t.Errorf("got %s", s.said())
	}
	s.edit("p", func(p *v1.Pod) { p.Annotations[names.AnnotationDevices] = "[" })
	if s.Sync(); said() != 3 {
		t.Errorf("another problem is not reported: %s", s.said())
	}
}

// TestFieldsIgnored: a pod whose words have no effect is told so once, also one that was bound
// before it was seen, but not one that has run for long.
func TestFieldsIgnored(t *testing.T) {
	s := newSetup(t, 1)
	wrong := func(name, node string, age time.Duration) {
		p := testPod(name, 0)
		p.Spec.SchedulerName, p.Spec.NodeName = names.SchedulerName, node
		p.CreationTimestamp = metav1.NewTime(s.now.Add(-age))
		p.Annotations = map[string]string{"volcano.sh/gpu-memory": "4096"}
		s.add(p)
	}
	wrong("waits", "", time.Hour)
	wrong("bound", "n", time.Second)
	wrong("runs", "n", time.Hour)
	s.eventually("two complaints", func() bool { s.Sync(); return strings.Count(s.said(), "FieldIgnored") == 2 })
	for range 3 {
		s.edit("bound", func(p *v1.Pod) { p.Labels = map[string]string{"x": "y"} })
		s.Sync()
	}
	said := s.said()
	for _, name := range []string{"waits", "bound"} {
		if want := "Pod " + name + ": FieldIgnored: metadata.annotations[volcano.sh/gpu-memory]: has no effect here: it is a resource"; strings.Count(said, want) != 1 {
			t.Errorf("not once %q: %s", want, said)
		}
	}
}

// onDevice2 is a pod that is bound to device 2 of node n.
func onDevice2(name string) *v1.Pod {
	p := testPod(name, 1)
	p.Spec.SchedulerName, p.Spec.NodeName = names.SchedulerName, "n"
	p.Annotations = map[string]string{names.AnnotationDevices: `{"version":1,"node":"n","containers":[{"name":"main","resource":"nvidia.com/gpu","devices":[{"index":2}]}]}`}
	return p
}

// TestContestedByOthers: the event on a pod does not name the holder when that is a pod of
// another namespace: a record that claims a device must not be a way to ask who has it.
func TestContestedByOthers(t *testing.T) {
	s := newSetup(t, 0)
	s.addNode(testNode("n", 4))
	s.runs("z", 3, 1) // devices 0 to 2
	p := onDevice2("a")
	p.Namespace = "rivals"
	s.add(p)
	for range 3 {
		s.look(s.latest("z2"), "n")
	}
	if got := s.said(); !strings.Contains(got, "a pod of another namespace holds it") || strings.Contains(got, "z2") {
		t.Errorf("got %s", got)
	}
}

// TestContestedRecord: a record that names a device which this process gave to another is
// reported on its pod, once, and the pod is told to go (hole H14), whatever times and
// names say; if that fails, again.
func TestContestedRecord(t *testing.T) {
	for _, second := range []time.Duration{-time.Hour, 0, time.Hour} {
		t.Run(second.String(), func(t *testing.T) {
			s := newSetup(t, 0)
			s.addNode(testNode("n", 4))
			s.runs("z", 3, 1) // devices 0 to 2
			p := onDevice2("a")
			p.Status.Conditions = []v1.PodCondition{{Type: v1.PodScheduled, Status: v1.ConditionTrue, LastTransitionTime: metav1.NewTime(s.now.Add(second))}}
			s.add(p)
			if _, m := s.heldBy(p); m != 0b1000 {
				t.Fatalf("holds %b", m)
			}
			for range 3 {
				s.look(s.latest("z2"), "n")
				s.look(s.latest("a"), "")
			}
			message := "tangram.dev/devices: device 2 is held by pods that had it first and leave no room; this pod is counted with unknown devices; pod default/z2 holds it"
			if got, want := s.said(), "Pod a: ContestedRecord: "+message; got != want {
				t.Errorf("got  %s\nwant %s", got, want)
			}
			turn := s.Step()
			if len(turn.Heal) != 1 || turn.Heal[0].Pod.Name != "a" || turn.Heal[0].Why != message {
				t.Fatalf("to be healed: %+v", turn.Heal)
			}
			if again := s.Step(); len(again.Heal) > 0 {
				t.Error("told to go twice")
			}
			s.HealFailed(turn.Heal[0])
			if again := s.Step(); len(again.Heal) != 1 {
				t.Error("not tried again")
			}
			if _, err := s.Check(); err != nil {
				t.Error(err)
			}
			if _, _, err := s.Checker().Some(1); err != nil {
				t.Error(err)
			}
			s.deletePod("a")
			if s.Sync(); s.driver.contests.Size() != 0 {
				t.Error("not forgotten with its pod")
			}
		})
	}
}

// TestContestedSystemPod: a protected pod is reported, and not told to go.
func TestContestedSystemPod(t *testing.T) {
	s := newSetup(t, 0)
	s.addNode(testNode("n", 4))
	s.runs("z", 3, 1)
	p := onDevice2("p")
	p.Namespace = "kube-system"
	s.add(p)
	if turn := s.Step(); len(turn.Heal) > 0 || !strings.Contains(s.said(), "ContestedRecord") {
		t.Errorf("%+v, reported %q", turn.Heal, s.said())
	}
}

// TestOverbooked: pods that were bound by hand beyond what a node has are reported
// (hole H8).
func TestOverbooked(t *testing.T) {
	s := newSetup(t, 0)
	s.addNode(testNode("n", 4))
	for _, name := range []string{"a", "b"} {
		p := testPod(name, 3)
		p.Spec.NodeName = "n"
		s.add(p)
		s.Sync()
	}
	if got, want := s.said(), "Pod b: OverbookedNode: node n is overbooked: the pods bound to it ask for 2 more GPUs than it has"; got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

// TestAnnotationEditOfBoundPod: an invalid annotation edited into a running pod neither
// loses its record nor counts it twice.
func TestAnnotationEditOfBoundPod(t *testing.T) {
	s := newSetup(t, 0)
	s.addNode(testNode("n", 4))
	p := onDevice2("p")
	s.add(p)
	if _, m := s.heldBy(p); m != 0b100 {
		t.Fatalf("holds %b", m)
	}
	s.edit("p", func(p *v1.Pod) { p.Annotations[names.AnnotationUseModel] = "" })
	s.look(p, "")
	if _, m := s.heldBy(p); m != 0b100 || s.room(request(t, testPod("x", 3))) != 1 {
		t.Errorf("the edit changed what is held: %b, %d nodes have 3 free", m, s.room(request(t, testPod("x", 3))))
	}
}

// TestCheckFindsDifference: the self-check names the first difference.
func TestCheckFindsDifference(t *testing.T) {
	s := newSetup(t, 0)
	s.addNode(testNode("n", 4))
	s.add(onDevice2("p"))
	if n, err := s.Check(); n != 1 || err != nil {
		t.Errorf("%d, %v", n, err)
	}
	must(t, s.podStore.Delete(s.latest("p"))) // and no event
	if _, err := s.Check(); err == nil || !strings.Contains(err.Error(), "the ledger says") {
		t.Errorf("got %v", err)
	}
}
