package autoscale

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/tangram-dev/tangram/api/demand"
	"github.com/tangram-dev/tangram/api/names"
)

func pod(name string, change ...func(*v1.Pod)) *v1.Pod {
	p := &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: name, UID: types.UID("uid-" + name), Labels: map[string]string{"app": "x", names.LabelGang: "g"}},
		Spec: v1.PodSpec{
			SchedulerName: names.SchedulerName, NodeSelector: map[string]string{"pool": "a"},
			Tolerations: []v1.Toleration{{Key: "gpu", Operator: v1.TolerationOpExists}}, PriorityClassName: "high", ServiceAccountName: "secret",
			Volumes: []v1.Volume{{Name: "v"}},
			Containers: []v1.Container{
				{Name: "a", Image: "theirs", Command: []string{"evil"}, Resources: v1.ResourceRequirements{Requests: v1.ResourceList{"nvidia.com/gpu": resource.MustParse("4"), "cpu": resource.MustParse("500m")}}},
				{Name: "b", Image: "theirs", Resources: v1.ResourceRequirements{Requests: v1.ResourceList{"nvidia.com/gpu": resource.MustParse("4"), "memory": resource.MustParse("1Gi")}}},
			},
		},
	}
	for _, c := range change {
		c(p)
	}
	return p
}

func gangOf(pods ...*v1.Pod) demand.Gang {
	g := demand.Gang{Name: "team/g"}
	for _, p := range pods {
		g.Members = append(g.Members, demand.Member{Namespace: p.Namespace, Name: p.Name, UID: string(p.UID)})
	}
	return g
}

var settings = Settings{Namespace: "tangram-system", Image: "pause"}

// TestPlaceholder: it asks for what its pod asks for, in the domain, and has nothing else
// of it: no image, labels, volumes or service account. It cannot run.
func TestPlaceholder(t *testing.T) {
	g := gangOf(pod("a"))
	g.Within = map[string]string{"zone": "z", "rack": "r1"}
	made := settings.placeholders(&g, []*v1.Pod{pod("a")})
	if len(made) != 1 {
		t.Fatal(len(made))
	}
	p := made[0]
	if len(p.Spec.SchedulingGates) != 1 || p.Spec.SchedulerName != names.PlaceholderScheduler || p.Namespace != "tangram-system" {
		t.Errorf("it could run: %+v", p.Spec)
	}
	c := p.Spec.Containers[0]
	for name, want := range map[v1.ResourceName]string{"nvidia.com/gpu": "8", "cpu": "500m", "memory": "1Gi"} {
		if got := c.Resources.Requests[name]; got.Cmp(resource.MustParse(want)) != 0 {
			t.Errorf("%s: %s, want %s", name, got.String(), want)
		}
	}
	if limit := c.Resources.Limits["nvidia.com/gpu"]; limit.Value() != 8 || len(c.Resources.Limits) != 1 {
		t.Errorf("limits %v", c.Resources.Limits)
	}
	terms := p.Spec.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms
	if got := fmt.Sprint(terms); got != "[{[{rack In [r1]} {zone In [z]}] []}]" {
		t.Errorf("terms %s", got)
	}
	if !maps.Equal(p.Spec.NodeSelector, map[string]string{"pool": "a"}) || len(p.Spec.Tolerations) != 1 || p.Spec.PriorityClassName != "high" {
		t.Errorf("not where its pod may go: %+v", p.Spec)
	}
	text, _ := json.Marshal(p)
	for _, theirs := range []string{"theirs", "evil", "secret", `"app"`, names.LabelGang + `"`, "volumes"} {
		if strings.Contains(string(text), theirs) {
			t.Errorf("%s of the pod is in its placeholder", theirs)
		}
	}
}

// TestAlternatives: the domain is demanded in each alternative of the pod's own affinity.
func TestAlternatives(t *testing.T) {
	term := func(value string) v1.NodeSelectorTerm {
		return v1.NodeSelectorTerm{MatchExpressions: []v1.NodeSelectorRequirement{{Key: "model", Operator: v1.NodeSelectorOpIn, Values: []string{value}}}}
	}
	p := pod("a", func(p *v1.Pod) {
		p.Spec.Affinity = &v1.Affinity{NodeAffinity: &v1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: &v1.NodeSelector{NodeSelectorTerms: []v1.NodeSelectorTerm{term("h100"), term("h200")}}}}
	})
	g := gangOf(p)
	g.Within = map[string]string{"rack": "r1"}
	terms := settings.placeholders(&g, []*v1.Pod{p})[0].Spec.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms
	if got := fmt.Sprint(terms); got != "[{[{model In [h100]} {rack In [r1]}] []} {[{model In [h200]} {rack In [r1]}] []}]" {
		t.Errorf("terms %s", got)
	}
	if len(p.Spec.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms[0].MatchExpressions) != 1 {
		t.Error("the pod itself was changed")
	}
}

// TestWays: of a domain that does not exist one node is asked for; members on one node are
// one placeholder; members that keep each other off their nodes are on nodes of their own.
func TestWays(t *testing.T) {
	a, b := pod("a"), pod("b")
	g := gangOf(a, b)
	g.New = &demand.New{Label: "rack", Not: []string{"r1"}}
	p := settings.placeholders(&g, []*v1.Pod{a, b})
	if len(p) != 1 {
		t.Fatalf("%d placeholders", len(p))
	}
	if got := fmt.Sprint(p[0].Spec.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms); got != "[{[{rack Exists []} {rack NotIn [r1]}] []}]" {
		t.Errorf("terms %s", got)
	}
	g.New, g.OneNode = nil, true
	p = settings.placeholders(&g, []*v1.Pod{a, b})
	if gpus := p[0].Spec.Containers[0].Resources.Requests["nvidia.com/gpu"]; len(p) != 1 || gpus.Value() != 16 {
		t.Errorf("%d placeholders, %s GPUs", len(p), gpus.String())
	}
	apart := func(p *v1.Pod) {
		p.Spec.Affinity = &v1.Affinity{PodAntiAffinity: &v1.PodAntiAffinity{RequiredDuringSchedulingIgnoredDuringExecution: []v1.PodAffinityTerm{{
			LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "x"}}, TopologyKey: v1.LabelHostname}}}}
	}
	a, b = pod("a", apart), pod("b", apart)
	g.OneNode, g.Within = false, map[string]string{"rack": "r1"}
	if p = settings.placeholders(&g, []*v1.Pod{a, b}); p[0].Spec.Affinity.PodAntiAffinity == nil {
		t.Error("they could share a node")
	}
}

// state is an API with one gang's members, placeholders and nodes.
type state struct {
	pods  map[string]*v1.Pod
	place []*v1.Pod
	nodes []*v1.Node
}

func (s *state) member(namespace, name string) *v1.Pod { return s.pods[namespace+"/"+name] }

// settle carries out what is decided, until nothing is.
func (s *state) settle(t *testing.T, doc *demand.Document) {
	t.Helper()
	for range 5 {
		p := settings.decide(doc, s.member, s.place, s.nodes)
		if len(p.remove)+len(p.create)+len(p.show)+len(p.keep)+len(p.free) == 0 {
			return
		}
		s.place = slices.DeleteFunc(s.place, func(x *v1.Pod) bool { return slices.Contains(p.remove, x) })
		for _, x := range p.create {
			if slices.ContainsFunc(s.place, func(o *v1.Pod) bool { return o.Name == x.Name }) {
				t.Fatalf("%s is made twice", x.Name)
			}
			s.place = append(s.place, x)
		}
		for _, x := range p.show {
			x.Status.Conditions = []v1.PodCondition{{Type: v1.PodScheduled, Status: v1.ConditionFalse, Reason: v1.PodReasonUnschedulable}}
		}
		for _, n := range p.keep {
			apply(t, n, keepPatch)
		}
		for _, n := range p.free {
			apply(t, n, freePatch)
		}
	}
	t.Fatal("it does not settle")
}

// apply is a merge patch of annotations.
func apply(t *testing.T, n *v1.Node, patch func(*v1.Node) ([]byte, error)) {
	t.Helper()
	text, err := patch(n)
	if err != nil {
		t.Fatal(err)
	}
	var p struct {
		Metadata struct {
			Annotations map[string]*string `json:"annotations"`
		} `json:"metadata"`
	}
	if err := json.Unmarshal(text, &p); err != nil {
		t.Fatal(err)
	}
	for key, value := range p.Metadata.Annotations {
		if value == nil {
			delete(n.Annotations, key)
		} else {
			n.Annotations[key] = *value
		}
	}
}

// TestPlaceholdersComeAndGo: there is one for each member while all wait, and none when one
// is bound, is replaced, is gone, or the scheduler asks for nothing.
func TestPlaceholdersComeAndGo(t *testing.T) {
	g := gangOf(pod("a"), pod("b"))
	g.Within = map[string]string{"rack": "r1"}
	doc := &demand.Document{Gangs: []demand.Gang{g}}
	for name, change := range map[string]func(*state){
		"bound":     func(s *state) { s.pods["team/a"].Spec.NodeName = "n" },
		"replaced":  func(s *state) { s.pods["team/a"].UID = "other" },
		"gone":      func(s *state) { delete(s.pods, "team/b") },
		"leaving":   func(s *state) { s.pods["team/a"].DeletionTimestamp = &metav1.Time{} },
		"not asked": nil,
	} {
		t.Run(name, func(t *testing.T) {
			s := &state{pods: map[string]*v1.Pod{"team/a": pod("a"), "team/b": pod("b")}}
			s.settle(t, doc)
			if len(s.place) != 2 || !shown(s.place[0]) {
				t.Fatalf("%d placeholders", len(s.place))
			}
			other := g
			other.Within = map[string]string{"rack": "r2"}
			before := s.place[0].Name
			s.settle(t, &demand.Document{Gangs: []demand.Gang{other}})
			if len(s.place) != 2 || s.place[0].Name == before {
				t.Error("they still ask for another rack")
			}
			s.settle(t, doc)
			if change == nil {
				s.settle(t, &demand.Document{})
			} else {
				change(s)
				s.settle(t, doc)
			}
			if len(s.place) > 0 {
				t.Errorf("%d placeholders are left", len(s.place))
			}
		})
	}
}

// TestForeignPlaceholder: one of another controller's pod is made anew: it will go with
// that pod.
func TestForeignPlaceholder(t *testing.T) {
	g := gangOf(pod("a"))
	g.OneNode = true
	s := settings
	s.Owner = &metav1.OwnerReference{APIVersion: "v1", Kind: "Pod", Name: "gpu-controller", UID: "1"}
	made := s.placeholders(&g, []*v1.Pod{pod("a")})
	if made[0].OwnerReferences[0].UID != "1" {
		t.Error("it would stay")
	}
	s.Owner = &metav1.OwnerReference{UID: "2"}
	p := s.decide(&demand.Document{Gangs: []demand.Gang{g}}, func(string, string) *v1.Pod { return pod("a") }, made, nil)
	if len(p.remove) != 1 || len(p.create) != 1 {
		t.Errorf("%+v", p)
	}
}

// TestNodes: a node that is kept has both words and a mark, and afterwards what it had
// before; what an operator set, or changes meanwhile, stays.
func TestNodes(t *testing.T) {
	node := func(name string, annotations map[string]string) *v1.Node {
		return &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: annotations}}
	}
	s := &state{nodes: []*v1.Node{
		node("plain", map[string]string{"a": "b"}),
		node("set", map[string]string{names.AnnotationDoNotDisrupt: "true"}),
		node("changed", map[string]string{}),
		node("other", map[string]string{}),
	}}
	s.settle(t, &demand.Document{Kept: []string{"plain", "set", "changed", "gone"}})
	for _, n := range s.nodes[:3] {
		if n.Annotations[names.AnnotationDoNotDisrupt] != "true" || n.Annotations[names.AnnotationScaleDownDisabled] != "true" {
			t.Errorf("%s is not kept: %v", n.Name, n.Annotations)
		}
	}
	if len(s.nodes[3].Annotations) > 0 {
		t.Error("a node is kept for no gang")
	}
	if again, _ := keepPatch(s.nodes[0]); again != nil {
		t.Error("a node is marked twice: the mark would forget what it added")
	}
	s.nodes[2].Annotations[names.AnnotationDoNotDisrupt] = "24h"
	s.settle(t, &demand.Document{})
	for i, want := range []map[string]string{{"a": "b"}, {names.AnnotationDoNotDisrupt: "true"}, {names.AnnotationDoNotDisrupt: "24h"}} {
		if !maps.Equal(s.nodes[i].Annotations, want) {
			t.Errorf("%s: %v, want %v", s.nodes[i].Name, s.nodes[i].Annotations, want)
		}
	}
}
