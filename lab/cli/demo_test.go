package cli

import (
	"bytes"
	"maps"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/yaml"

	"github.com/tangram-dev/tangram/api/names"
	"github.com/tangram-dev/tangram/examples"
)

func demoPod(name string, gpus string) v1.Pod {
	return v1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(name)},
		Spec: v1.PodSpec{SchedulerName: "gpu-scheduler", Containers: []v1.Container{{
			Name:      "main",
			Resources: v1.ResourceRequirements{Requests: v1.ResourceList{names.ResourceNVIDIA: resource.MustParse(gpus)}},
		}}},
		Status: v1.PodStatus{Phase: v1.PodPending},
	}
}

// pending makes the scheduler's verdict on a pod.
func pending(p v1.Pod, reason, why string) v1.Pod {
	p.Status.Conditions = []v1.PodCondition{{Type: v1.PodScheduled, Status: v1.ConditionFalse, Reason: reason, Message: why}}
	return p
}

func TestSayPods(t *testing.T) {
	placed := demoPod("placed", "2")
	placed.Spec.NodeName, placed.Status.Phase = "a100-0", v1.PodRunning
	placed.Annotations = map[string]string{names.AnnotationDevices: `{"version":1,"node":"a100-0","containers":[` +
		`{"name":"main","resource":"nvidia.com/gpu","devices":[{"index":4,"uuid":"GPU-a"},{"index":5,"uuid":"GPU-b"}]}]}`}
	cut := demoPod("cut", "1")
	cut.Spec.NodeName, cut.Status.Phase = "a100-2", v1.PodRunning
	cut.Annotations = map[string]string{names.AnnotationDevices: `{"version":1,"node":"a100-2","containers":[` +
		`{"name":"main","resource":"nvidia.com/mig-1g.10gb","devices":[{"index":3,"mig":"1g.10gb","start":6}]}]}`}
	strange := demoPod("strange", "1")
	strange.Spec.NodeName, strange.Status.Phase = "a100-1", v1.PodRunning
	strange.Annotations = map[string]string{names.AnnotationDevices: "main=GPU-7"}
	waiting := pending(demoPod("waiting", "16"), v1.PodReasonUnschedulable, "need 16, best node has 8")
	again := pending(demoPod("again", "16"), v1.PodReasonUnschedulable, "need 16, best node has 8")

	var out bytes.Buffer
	d := &demo{out: &out, shown: map[types.UID]string{}}
	for range 2 { // what was said is not said again
		if err := d.sayPods([]v1.Pod{waiting, strange, placed, again, cut}); err != nil {
			t.Fatal(err)
		}
	}
	want := `   cut       1 nvidia.com/gpu   a100-2   1g.10gb of device 3
   placed    2 nvidia.com/gpu   a100-0   devices 4,5
   strange   1 nvidia.com/gpu   a100-1   main=GPU-7
   again, waiting wait: need 16, best node has 8
`
	if out.String() != want {
		t.Errorf("got:\n%s\nwant:\n%s", out.String(), want)
	}
	if isUndecided(placed) || isUndecided(waiting) || !isUndecided(demoPod("new", "1")) ||
		!isUndecided(pending(demoPod("next", "1"), "WaitingForVictims", "two pods leave")) {
		t.Error("isUndecided is wrong about placed, waiting or new pods, or those for which others leave")
	}
}

// TestDemoManifests: the namespace comes first, every other manifest begins with what it
// shows and is in the namespace, and their pods are counted.
func TestDemoManifests(t *testing.T) {
	d := &demo{wanted: map[string]int{}}
	for i, data := range examples.Demo() {
		var o struct {
			Kind     string
			Metadata metav1.ObjectMeta
		}
		first, _, _ := bytes.Cut(data, []byte("\n---\n"))
		if err := yaml.Unmarshal(first, &o); err != nil {
			t.Fatal(err)
		}
		if i == 0 {
			if o.Kind != "Namespace" || o.Metadata.Name != demoNamespace {
				t.Errorf("the first manifest is %s %s, want namespace %s", o.Kind, o.Metadata.Name, demoNamespace)
			}
			continue
		}
		if o.Metadata.Namespace != demoNamespace {
			t.Errorf("%s %s is in namespace %q", o.Kind, o.Metadata.Name, o.Metadata.Namespace)
		}
		if text := title(data); !strings.HasSuffix(text, ".") || len(text) > 110 {
			t.Errorf("%s %s has the title %q", o.Kind, o.Metadata.Name, text)
		}
		if err := d.count(data); err != nil {
			t.Fatal(err)
		}
	}
	want := map[string]int{
		"Job/ml-training-job": 1, "Deployment/inference-service": 3, "Deployment/small-models": 3, "Job/llm-pretraining": 4,
		"Job/batch": 5, "Deployment/ranking-service": 2, "Pod/too-large": 1,
	}
	if !maps.Equal(d.wanted, want) {
		t.Errorf("the manifests make %v, want %v", d.wanted, want)
	}
}

func TestDownWithNothingToEnd(t *testing.T) {
	text, err := down(t.Context(), t.TempDir())
	if err != nil || !strings.HasPrefix(text, "nothing runs in ") {
		t.Errorf("down = %q, %v", text, err)
	}
}
