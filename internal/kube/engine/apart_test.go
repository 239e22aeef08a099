package engine

import (
	"fmt"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tangram-dev/tangram/core/explain"
	"github.com/tangram-dev/tangram/core/model"
)

// TestApart: members that Kubernetes' own rules keep off each other's nodes are planned
// apart, and off the nodes of others that keep them away.
func TestApart(t *testing.T) {
	app := &metav1.LabelSelector{MatchLabels: map[string]string{"app": "a"}}
	port := func(ip string, number int32) func(*v1.Pod) {
		return func(p *v1.Pod) {
			p.Spec.Containers[0].Ports = []v1.ContainerPort{{HostIP: ip, HostPort: number, ContainerPort: 1, Protocol: v1.ProtocolTCP}}
		}
	}
	anti := func(key string) func(*v1.Pod) {
		return func(p *v1.Pod) {
			p.Labels["app"] = "a"
			p.Spec.Affinity = &v1.Affinity{PodAntiAffinity: &v1.PodAntiAffinity{
				RequiredDuringSchedulingIgnoredDuringExecution: []v1.PodAffinityTerm{{TopologyKey: key, LabelSelector: app}},
			}}
		}
	}
	spread := func(skew int32) func(*v1.Pod) {
		return func(p *v1.Pod) {
			p.Labels["app"] = "a"
			p.Spec.TopologySpreadConstraints = []v1.TopologySpreadConstraint{
				{MaxSkew: skew, TopologyKey: v1.LabelHostname, WhenUnsatisfiable: v1.DoNotSchedule, LabelSelector: app}}
		}
	}
	for _, tt := range []struct {
		name   string
		first  func(*v1.Pod) // one that runs already
		change func(*v1.Pod)
		most   int // members on a node
		beside bool
	}{
		{name: "nothing", first: port("", 80), change: port("", 0), most: 3, beside: true},
		{name: "ports", first: port("", 80), change: port("", 80), most: 1},
		{name: "another port", first: port("", 80), change: port("", 81), most: 1, beside: true},
		{name: "another address", first: port("10.0.0.1", 80), change: port("10.0.0.2", 80), most: 1, beside: true},
		{name: "any address", first: port("10.0.0.1", 80), change: port("", 80), most: 1},
		{name: "anti-affinity", first: anti(v1.LabelHostname), change: anti(v1.LabelHostname), most: 1},
		{name: "anti-affinity by zone", first: anti(v1.LabelTopologyZone), change: anti(v1.LabelTopologyZone), most: 3, beside: true},
		{name: "spread by one", first: port("", 80), change: spread(1), most: 1, beside: true},
		{name: "spread by two", first: port("", 80), change: spread(2), most: 2, beside: true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := newSetup(t, 4)
			home, _ := s.heldBy(s.runs("first", 1, 1, tt.first)[0])
			_, releases := s.planned("m", 3, 1, tt.change)
			on := map[model.NodeID]int{}
			most := 0
			for _, r := range releases {
				on[r.Node.ID]++
				most = max(most, on[r.Node.ID])
			}
			if most != tt.most {
				t.Errorf("%d share a node, want %d: %v", most, tt.most, on)
			}
			if beside := on[home] > 0; beside != tt.beside {
				t.Errorf("beside the first one: %v", beside)
			}
		})
	}
}

// TestApartRoles: the same for members that ask for different things.
func TestApartRoles(t *testing.T) {
	s := newSetup(t, 4)
	on := map[model.NodeID]int{}
	var pods []*v1.Pod
	for i := range 4 {
		p := s.member(fmt.Sprintf("m%d", i), "g", 4, int64(1+i/2))
		p.Spec.Containers[0].Ports = []v1.ContainerPort{{HostPort: 80, ContainerPort: 80, Protocol: v1.ProtocolTCP}}
		s.add(p)
		pods = append(pods, p)
	}
	s.Step()
	for _, r := range s.releases(pods) {
		on[r.Node.ID]++
	}
	if len(on) != 4 {
		t.Errorf("on %v", on)
	}
}

// refuse lets filters refuse the planned node of a pod, which is planned again.
func (s *setup) refuse(p *v1.Pod, late bool) time.Duration {
	s.t.Helper()
	r := s.release(p)
	s.Refused(p, r.Ticket, []Verdict{{Node: r.Node.ID, Said: "no", Late: late}})
	began := s.now
	for turn := s.Step(); !s.gate.Released(p); turn = s.after(turn.Next) {
		if s.now.Sub(began) > time.Minute {
			s.t.Fatalf("%s is not planned again", p.Name)
		}
	}
	return s.now.Sub(began)
}

// TestVetoes: a refusal because kube-scheduler is late is short each time; others last
// twice as long each time, until the node takes such a pod. The next step comes when a
// veto ends, without an event.
func TestVetoes(t *testing.T) {
	s := newSetup(t, 1)
	p := s.member("a", "g", 1, 1)
	s.add(p)
	s.Step()
	const first = 10 * time.Millisecond
	for range 5 {
		if d := s.refuse(p, true); d != first {
			t.Errorf("late: %s", d)
		}
	}
	for i := range 5 {
		if d := s.refuse(p, false); d != first<<i {
			t.Errorf("veto %d lasted %s", i, d)
		}
	}
	s.cycleOf(p, 0).Took("n0")
	if d := s.refuse(p, false); d != first {
		t.Errorf("after the node took it: %s", d)
	}
}

// TestVetoIsNotForEver: what kube-scheduler's filters refuse now is no reason to say
// that a gang can never fit; the owner is told what they said.
func TestVetoIsNotForEver(t *testing.T) {
	s := newSetup(t, 1)
	p := s.member("a", "g", 1, 1)
	s.add(p)
	s.Step()
	for range 8 {
		s.refuse(p, false)
	}
	r := s.release(p)
	s.Refused(p, r.Ticket, []Verdict{{Node: "n0", Said: "node(s) didn't have free ports"}})
	s.Step()
	var why explain.Reason
	s.do("test", func(*driver, time.Time) { why = s.driver.core.Reasons.Why("label/default/g") })
	if want := "waits for capacity: 0/1 nodes fit: 1 was refused: node(s) didn't have free ports"; why.Never || why.String() != want {
		t.Errorf("told %q, want %q", why.String(), want)
	}
}

// TestVetoOfNamespace: what filters refuse for one namespace's pods does not keep
// another's off (hole H3): a claim "data" is another one there.
func TestVetoOfNamespace(t *testing.T) {
	s := newSetup(t, 2)
	claim := func(p *v1.Pod) {
		p.Spec.Volumes = []v1.Volume{{VolumeSource: v1.VolumeSource{PersistentVolumeClaim: &v1.PersistentVolumeClaimVolumeSource{ClaimName: "data"}}}}
	}
	mine := s.member("mine", "", 0, 8)
	claim(mine)
	s.add(mine)
	s.Step()
	r := s.release(mine)
	s.RefusedEverywhere(mine, r.Ticket, "node(s) had volume node affinity conflict", []model.NodeID{"n1"})
	theirs := s.member("theirs", "", 0, 8)
	theirs.Namespace = "other"
	claim(theirs)
	s.add(theirs)
	s.Step()
	if got := s.release(mine).Node.ID; got != "n1" {
		t.Errorf("planned on %s again", got)
	}
	if got := s.release(theirs).Node.ID; got != "n0" {
		t.Errorf("another namespace's pod is on %s", got)
	}
}

// TestOnly: members whose volumes are on different nodes. Each is sent there as soon as
// that is known, and stays known while others fail.
func TestOnly(t *testing.T) {
	s := newSetup(t, 8)
	var pods []*v1.Pod
	for i := range 4 {
		p := s.member(fmt.Sprintf("m%d", i), "g", 4, 1)
		p.Spec.Volumes = []v1.Volume{{VolumeSource: v1.VolumeSource{PersistentVolumeClaim: &v1.PersistentVolumeClaimVolumeSource{ClaimName: p.Name}}}}
		s.add(p)
		pods = append(pods, p)
	}
	for round := 0; ; round++ {
		if s.Step(); round > 8 {
			t.Fatal("they go round and round")
		}
		failed := false
		for i, p := range pods { // as kube-scheduler's cycles go
			home := model.NodeID(fmt.Sprintf("n%d", 2*i))
			if r := s.release(p); r.Node.ID != home {
				s.RefusedEverywhere(p, r.Ticket, "elsewhere", []model.NodeID{home})
				failed = true
				break
			}
			s.cycleOf(p, 0).Took(home)
		}
		if !failed {
			return
		}
	}
}

// TestExcluded: nodes that filters refused for a pod that goes elsewhere are not
// planned for its shape at once.
func TestExcluded(t *testing.T) {
	s := newSetup(t, 2)
	p, next := s.member("p", "", 0, 8), s.member("next", "", 0, 8)
	s.add(p)
	s.Step()
	s.cycleOf(p, 0).Excluded([]Verdict{{Node: "n1", Said: "no"}})
	if !s.gate.Released(p) {
		t.Error("it lost its place")
	}
	s.add(next)
	if s.Step(); s.gate.Released(next) {
		t.Error("planned on a node that was refused for its shape")
	}
	if s.after(time.Second); !s.gate.Released(next) {
		t.Error("not planned when the veto has ended")
	}
}

// taint gives n0 a taint, or takes it away.
func (s *setup) taint(taints ...v1.Taint) {
	node := testNode("n0", 8)
	node.Spec.Taints = taints
	s.addNode(node)
}

// TestTaintGone: a gang that taints keep out starts when they are gone, though no
// device changed.
func TestTaintGone(t *testing.T) {
	s := newSetup(t, 1)
	s.taint(v1.Taint{Key: "x", Effect: v1.TaintEffectNoSchedule})
	s.add(s.member("a", "g", 2, 1), s.member("b", "g", 2, 1))
	if turn := s.Step(); len(turn.Activate) != 0 {
		t.Fatal("planned on a tainted node")
	}
	s.taint()
	if turn := s.Step(); len(turn.Activate) != 2 {
		t.Error("not planned when the taint is gone")
	}
}

// TestTolerationAdded: a pod may be edited to tolerate what keeps it waiting.
func TestTolerationAdded(t *testing.T) {
	s := newSetup(t, 1)
	s.taint(v1.Taint{Key: "x", Effect: v1.TaintEffectNoSchedule})
	p := s.member("a", "g", 1, 1)
	s.add(p)
	if s.Step(); s.held() != 0 {
		t.Fatal("started on a tainted node")
	}
	s.edit("a", func(p *v1.Pod) { p.Spec.Tolerations = []v1.Toleration{{Key: "x", Operator: v1.TolerationOpExists}} })
	if s.Step(); !s.gate.Released(p) {
		t.Error("it does not start")
	}
}
