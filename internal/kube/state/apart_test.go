package state

import (
	"fmt"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

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
			s := newGangSetup(t, 4)
			first := s.runs("first", 1, 1, tt.first)
			home, _, _ := s.ledger.Claim(model.HolderID(first[0].UID))
			var pods []*v1.Pod
			for i := range 3 {
				p := member(fmt.Sprintf("m%d", i), "g", 3, 1)
				tt.change(p)
				s.addPod(p)
				pods = append(pods, p)
			}
			s.tracked(4)
			s.Dispatch(time.Now())
			on := map[model.NodeID]int{}
			for _, p := range pods {
				if s.ReleaseOf(p) == nil {
					t.Fatalf("%s has no place", p.Name)
				}
				on[s.ReleaseOf(p).Node.ID]++
			}
			most := 0
			for _, n := range on {
				most = max(most, n)
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

// TestVetoIsNotForEver: what kube-scheduler's filters refuse now is no reason to say
// that a gang can never fit.
func TestVetoIsNotForEver(t *testing.T) {
	s := newGangSetup(t, 1)
	p := member("a", "g", 1, 1)
	s.addPod(p)
	s.tracked(1)
	for range 8 { // until the veto lasts longer than it takes to ask
		s.eventually("planned", func() bool { s.Dispatch(time.Now()); return s.ReleaseOf(p) != nil })
		s.Veto(p, "n0", "no", false)
		s.Fail(p, s.ReleaseOf(p), false)
	}
	s.Dispatch(time.Now())
	s.Cluster.mu.Lock()
	defer s.Cluster.mu.Unlock()
	if why := s.gangs.engine.Why("label/default/g"); why.Never || why.Failure == nil {
		t.Errorf("told %+v", why)
	}
}

// TestApartRoles: the same for members that ask for different things.
func TestApartRoles(t *testing.T) {
	s := newGangSetup(t, 4)
	on := map[model.NodeID]int{}
	var pods []*v1.Pod
	for i := range 4 {
		p := member(fmt.Sprintf("m%d", i), "g", 4, int64(1+i/2))
		p.Spec.Containers[0].Ports = []v1.ContainerPort{{HostPort: 80, ContainerPort: 80, Protocol: v1.ProtocolTCP}}
		s.addPod(p)
		pods = append(pods, p)
	}
	s.tracked(4)
	s.Dispatch(time.Now())
	for _, p := range pods {
		if s.ReleaseOf(p) == nil {
			t.Fatalf("%s has no place", p.Name)
		}
		on[s.ReleaseOf(p).Node.ID]++
	}
	if len(on) != 4 {
		t.Errorf("on %v", on)
	}
}
