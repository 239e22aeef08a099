package dialect

import (
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"

	"github.com/tangram-dev/tangram/api/names"
	"github.com/tangram-dev/tangram/core/model"
)

// TestPodQueue: one rule for the scheduler, which charges, and for the controller, which
// shows what is charged.
func TestPodQueue(t *testing.T) {
	all := podWith(pairs{names.LabelQueue: "label"}, pairs{names.AnnotationVolcanoQueue: "annotation", names.AnnotationVolcanoJobQueue: "job"}, nil)
	for name, tt := range map[string]struct {
		pod         *v1.Pod
		group, want string
	}{
		"the PodGroup's":         {all, "group", "group"},
		"a PodGroup without one": {all, "", "label"},
		"annotation":             {podWith(nil, pairs{names.AnnotationVolcanoQueue: "annotation", names.AnnotationVolcanoJobQueue: "job"}, nil), "", "annotation"},
		"of a Volcano Job":       {podWith(nil, pairs{names.AnnotationVolcanoJobQueue: "job"}, nil), "", "job"},
		"none":                   {podWith(nil, nil, nil), "", "default"},
	} {
		if got := PodQueue(tt.pod, tt.group); got != tt.want {
			t.Errorf("%s: got %s, want %s", name, got, tt.want)
		}
	}
}

// TestCharged: who is charged to a queue at all.
func TestCharged(t *testing.T) {
	with := func(change func(*v1.Pod)) *v1.Pod {
		p := podWith(pairs{}, pairs{}, nil)
		p.Spec.SchedulerName = "default-scheduler"
		change(p)
		return p
	}
	for name, tt := range map[string]struct {
		pod  *v1.Pod
		want bool
	}{
		"another scheduler's pod": {with(func(*v1.Pod) {}), false},
		"neither GPU nor queue":   {with(func(p *v1.Pod) { p.Spec.SchedulerName = names.VolcanoSchedulerName }), false},
		"names a queue":           {with(func(p *v1.Pod) { p.Annotations[names.AnnotationVolcanoJobQueue] = "q" }), true},
		"in a PodGroup":           {with(func(p *v1.Pod) { p.Annotations[names.AnnotationKubeGroup] = "g" }), true},
		"holds a share":           {with(func(p *v1.Pod) { p.Spec.Containers = []v1.Container{container("a", "nvidia.com/gpumem=1")} }), true},
		"holds what is refused": {with(func(p *v1.Pod) {
			p.Spec.Containers = []v1.Container{container("a", "nvidia.com/gpu=1 nvidia.com/gpucores=101")}
		}), true},
	} {
		if got := Charged(tt.pod); got != tt.want {
			t.Errorf("%s: got %v", name, got)
		}
	}
}

// TestContradiction: members that disagree are named, with the field and both values.
func TestContradiction(t *testing.T) {
	member := func(pod string, change func(*Member)) Member {
		m := Member{Pod: "team/" + pod, Membership: Membership{Key: "label/team/g", Queue: "research", Size: 4}, Priority: 100, Require: model.Level{Name: "rack", Depth: 2}}
		change(&m)
		return m
	}
	same := func(*Member) {}
	tests := map[string]struct {
		change func(*Member)
		group  *Group
		want   string // "" when they agree
	}{
		"agree":                         {same, nil, ""},
		"queue":                         {func(m *Member) { m.Queue = "sales" }, nil, `metadata.labels[tangram.dev/queue]: "research" of pod team/a, "sales" of pod team/b`},
		"one without a queue":           {func(m *Member) { m.Queue = "" }, nil, `metadata.labels[tangram.dev/queue]: "research" of pod team/a, "default" of pod team/b`},
		"the PodGroup's queue counts":   {func(m *Member) { m.Queue = "sales" }, &Group{Queue: "research"}, ""},
		"a PodGroup that says nothing":  {func(m *Member) { m.Queue = "sales" }, &Group{}, `metadata.labels[tangram.dev/queue]: "research"`},
		"size":                          {func(m *Member) { m.Size = 5 }, nil, "metadata.labels[tangram.dev/gang-size]: 4 of pod team/a, 5 of pod team/b"},
		"one without a size":            {func(m *Member) { m.Size = 0 }, nil, ""},
		"topology":                      {func(m *Member) { m.Require = model.Level{Name: "zone"} }, nil, "metadata.annotations[tangram.dev/topology]: required=rack of pod team/a, required=zone of pod team/b"},
		"one without a topology":        {func(m *Member) { m.Require = model.Level{} }, nil, ""},
		"the PodGroup's level counts":   {func(m *Member) { m.Require = model.Level{Name: "zone"} }, &Group{Require: model.Level{Name: "block"}}, ""},
		"priority":                      {func(m *Member) { m.Priority = 0 }, nil, "spec.priority: 100 of pod team/a, 0 of pod team/b"},
		"the PodGroup's class counts":   {func(m *Member) { m.Priority = 0 }, &Group{Priority: "high"}, ""},
		"what may differ: role and run": {func(m *Member) { m.Task, m.Preemptible = "ps", true }, nil, ""},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			err := Contradiction(member("a", same), member("b", tt.change), tt.group)
			if (err == nil) != (tt.want == "") || err != nil && !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got %v, want %q", err, tt.want)
			}
		})
	}
}
