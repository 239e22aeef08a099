package controller

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	scheduling "volcano.sh/apis/pkg/apis/scheduling/v1beta1"
)

// members reads phases: P pending, U unschedulable, B bound, R running, S, F.
func members(words string) []*v1.Pod {
	var out []*v1.Pod
	for _, c := range words {
		p := &v1.Pod{Spec: v1.PodSpec{NodeName: "n", SchedulerName: "volcano"}, Status: v1.PodStatus{Phase: v1.PodPending}}
		switch c {
		case 'U':
			p.Status.Conditions = []v1.PodCondition{{Type: v1.PodScheduled, Status: v1.ConditionFalse, Reason: v1.PodReasonUnschedulable}}
			p.Spec.NodeName = ""
		case 'P':
			p.Spec.NodeName = ""
		case 'R':
			p.Status.Phase = v1.PodRunning
		case 'S':
			p.Status.Phase = v1.PodSucceeded
		case 'F':
			p.Status.Phase = v1.PodFailed
		}
		out = append(out, p)
	}
	return out
}

// TestGroupStatus: the phase that follows from the pods and the phase before; where too few
// exist, it is for the queue to say.
func TestGroupStatus(t *testing.T) {
	for _, test := range []struct {
		pods string
		was  scheduling.PodGroupPhase
		want scheduling.PodGroupPhase
		few  bool
	}{
		{"", "", scheduling.PodGroupInqueue, true},
		{"", scheduling.PodGroupPending, scheduling.PodGroupInqueue, true},
		{"", scheduling.PodGroupInqueue, scheduling.PodGroupInqueue, false}, // its operator is about to create them
		{"", scheduling.PodGroupRunning, scheduling.PodGroupInqueue, true},  // all were evicted
		{"PP", "", scheduling.PodGroupInqueue, true},
		{"PP", scheduling.PodGroupInqueue, scheduling.PodGroupInqueue, false}, // the third is about to be created
		{"PPP", "", scheduling.PodGroupInqueue, false},
		{"UUU", "", scheduling.PodGroupInqueue, false},
		{"BBR", "", scheduling.PodGroupInqueue, false},
		{"PPR", "", scheduling.PodGroupInqueue, false}, // on its way
		{"UPR", "", scheduling.PodGroupUnknown, false},
		{"BUR", "", scheduling.PodGroupUnknown, false},
		{"RRR", "", scheduling.PodGroupRunning, false},
		{"RRRU", "", scheduling.PodGroupRunning, false}, // one more than it needs
		{"RSS", "", scheduling.PodGroupRunning, false},
		{"RR", scheduling.PodGroupRunning, scheduling.PodGroupInqueue, false}, // one was lost; its operator may replace it
		{"RSF", "", scheduling.PodGroupInqueue, false},
		{"SSS", "", scheduling.PodGroupCompleted, false},
		{"SSF", "", scheduling.PodGroupCompleted, false},
		{"SS", scheduling.PodGroupRunning, scheduling.PodGroupInqueue, true},
	} {
		pg := &scheduling.PodGroup{Spec: scheduling.PodGroupSpec{MinMember: 3}, Status: scheduling.PodGroupStatus{Phase: test.was}}
		got, few := groupStatus(pg, members(test.pods))
		if got.Phase != test.want || few != test.few {
			t.Errorf("%q after %q: %s, too few %v, want %s, %v", test.pods, test.was, got.Phase, few, test.want, test.few)
		}
		if int(got.Running) != strings.Count(test.pods, "R") || int(got.Succeeded) != strings.Count(test.pods, "S") || int(got.Failed) != strings.Count(test.pods, "F") {
			t.Errorf("%q: %+v", test.pods, got)
		}
	}
}

// queuesOf reads "name<parent" words.
func queuesOf(words string) tree {
	t := tree{}
	for word := range strings.FieldsSeq(words) {
		name, parent, _ := strings.Cut(word, "<")
		t[name] = &scheduling.Queue{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: scheduling.QueueSpec{Parent: parent}}
	}
	return t
}

func TestQueueProblems(t *testing.T) {
	all := queuesOf("root default a<root b<a c<d d<c e<d f<missing g<f")
	for name, want := range map[string]string{
		"root": "", "default": "", "a": "", "b": "",
		"c": `spec.parent: queue "c" is above itself`,
		"e": `spec.parent: queue "d", above this one, is above itself`,
		"f": `spec.parent: queue "missing" does not exist`,
		"g": `spec.parent: queue "f", above this one, has no parent "missing"`,
	} {
		if _, got := all.problem(name); got != want {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
}

func TestQueueStatus(t *testing.T) {
	all := queuesOf("root default org<root team<org loop<pool pool<loop")
	all["team"].Status.State = scheduling.QueueStateClosing
	pods := members("RRPSR")
	for i, p := range pods {
		p.Namespace = "ns"
		p.Spec.Containers = []v1.Container{{Resources: v1.ResourceRequirements{Requests: v1.ResourceList{"nvidia.com/gpu": resource.MustParse("2")}}}}
		switch i {
		case 0, 2, 3: // one runs, one waits, one has ended
			p.Annotations = map[string]string{scheduling.VolcanoGroupNameAnnotationKey: "g"}
		case 4:
			p.Labels = map[string]string{"tangram.dev/queue": "loop"}
		}
	}
	groups := []*scheduling.PodGroup{
		{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "g"}, Spec: scheduling.PodGroupSpec{Queue: "team"}, Status: scheduling.PodGroupStatus{Phase: scheduling.PodGroupRunning}},
		{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "h"}, Spec: scheduling.PodGroupSpec{Queue: "nowhere"}},
	}
	got, _ := all.status(groups, pods, noCharges())
	for name, want := range map[string]int64{"team": 2, "org": 2, "default": 2, "root": 4, "loop": 2, "pool": 2} {
		if gpus := got[name].Allocated["nvidia.com/gpu"]; gpus.Value() != want {
			t.Errorf("%s holds %d GPUs, want %d", name, gpus.Value(), want)
		}
	}
	if got["team"].State != scheduling.QueueStateClosing || got["team"].Running != 1 || got["org"].State != scheduling.QueueStateOpen || got["loop"].State != scheduling.QueueStateUnknown {
		t.Errorf("team %+v, org %+v, loop %+v", got["team"], got["org"], got["loop"])
	}
	if got := statusOf(all, nil, noCharges())["team"].State; got != scheduling.QueueStateClosed {
		t.Errorf("an empty closing queue is %s", got)
	}
}

// TestWhyUnschedulable: the first unschedulable pod's message is the gang's.
func TestWhyUnschedulable(t *testing.T) {
	pods := members("URUUP")
	for i, name := range []string{"a", "b", "e", "d", "c"} {
		pods[i].Name = name
		for j := range pods[i].Status.Conditions {
			pods[i].Status.Conditions[j].Message = "no room for " + name
		}
	}
	if got := whyUnschedulable(pods); got != "no room for a" {
		t.Error(got)
	}
	pods[0].DeletionTimestamp = &metav1.Time{}
	if got := whyUnschedulable(pods); got != "no room for d" {
		t.Error(got)
	}
	if got := whyUnschedulable(members("PRB")); got != "" {
		t.Error(got)
	}
}

// TestConditions: one kind is added, changed and removed; others stay, and the time is
// that of its first occurrence.
func TestConditions(t *testing.T) {
	other := scheduling.PodGroupCondition{Type: "Other", Message: "x"}
	first, later := time.Unix(1, 0), time.Unix(2, 0)
	list := []scheduling.PodGroupCondition{other}
	say := func(message string, now time.Time) {
		before := slices.Clone(list)
		next := with(list, now, "Unschedulable", "why", message)
		if !slices.Equal(before, list) {
			t.Fatal("what was given was changed")
		}
		list = next
	}
	check := func(want string) {
		t.Helper()
		got := ""
		for _, c := range list {
			got += fmt.Sprintf("%s:%s:%d ", c.Type, c.Message, max(0, c.LastTransitionTime.Unix()))
		}
		if got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
	say("", first)
	check("Other:x:0 ")
	say("a", first)
	say("a", later)
	check("Other:x:0 Unschedulable:a:1 ")
	say("b", later)
	check("Other:x:0 Unschedulable:b:1 ")
	say("", later)
	check("Other:x:0 ")
}
