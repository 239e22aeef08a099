package cli

import (
	"bytes"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/tangram-dev/tangram/api/names"
	"github.com/tangram-dev/tangram/examples"
)

func demoPod(name string, gpus string) v1.Pod {
	return v1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: v1.PodSpec{SchedulerName: "gpu-scheduler", Containers: []v1.Container{{
			Name:      "main",
			Resources: v1.ResourceRequirements{Requests: v1.ResourceList{names.ResourceNVIDIA: resource.MustParse(gpus)}},
		}}},
		Status: v1.PodStatus{Phase: v1.PodPending},
	}
}

func TestPrintPods(t *testing.T) {
	placed := demoPod("placed", "2")
	placed.Spec.NodeName, placed.Status.Phase = "a100-0", v1.PodRunning
	placed.Annotations = map[string]string{names.AnnotationDevices: `{"version":1,"node":"a100-0","containers":[` +
		`{"name":"main","resource":"nvidia.com/gpu","devices":[{"index":4,"uuid":"GPU-a"},{"index":5,"uuid":"GPU-b"}]}]}`}
	strange := demoPod("strange", "1")
	strange.Spec.NodeName, strange.Status.Phase = "a100-1", v1.PodRunning
	strange.Annotations = map[string]string{names.AnnotationDevices: "main=GPU-7"}
	waiting := demoPod("waiting", "16")
	waiting.Status.Conditions = []v1.PodCondition{{Type: v1.PodScheduled, Status: v1.ConditionFalse, Message: "need 16, best node has 8"}}
	again := *waiting.DeepCopy()
	again.Name = "again"

	var out bytes.Buffer
	if err := printPods(&out, []v1.Pod{waiting, strange, placed, again}); err != nil {
		t.Fatal(err)
	}
	want := `POD       SCHEDULER       ASKS FOR            STATUS    NODE     DEVICES
again     gpu-scheduler   16 nvidia.com/gpu   Pending   -        -
placed    gpu-scheduler   2 nvidia.com/gpu    Running   a100-0   main: 4,5
strange   gpu-scheduler   1 nvidia.com/gpu    Running   a100-1   main=GPU-7
waiting   gpu-scheduler   16 nvidia.com/gpu   Pending   -        -

again, waiting wait: need 16, best node has 8
`
	if out.String() != want {
		t.Errorf("got:\n%s\nwant:\n%s", out.String(), want)
	}
	if isUndecided(placed) || isUndecided(waiting) || !isUndecided(demoPod("new", "1")) {
		t.Error("isUndecided is wrong about placed, waiting or new pods")
	}
}

// The demo waits for demoPods pods; a manifest that changes their number must
// change it too.
func TestDemoManifests(t *testing.T) {
	pods := 0
	for i, data := range examples.Demo() {
		var o struct {
			Kind     string
			Metadata metav1.ObjectMeta
			Spec     struct{ Replicas int }
		}
		if err := yaml.Unmarshal(data, &o); err != nil {
			t.Fatal(err)
		}
		switch {
		case i == 0:
			if o.Kind != "Namespace" || o.Metadata.Name != demoNamespace {
				t.Errorf("the first manifest is %s %s, want namespace %s", o.Kind, o.Metadata.Name, demoNamespace)
			}
			continue
		case o.Metadata.Namespace != demoNamespace:
			t.Errorf("%s %s is in namespace %q", o.Kind, o.Metadata.Name, o.Metadata.Namespace)
		}
		pods += max(1, o.Spec.Replicas)
		if !bytes.Contains(data, []byte("schedulerName: ")) {
			t.Errorf("%s %s names no scheduler", o.Kind, o.Metadata.Name)
		}
	}
	if pods != demoPods {
		t.Errorf("the manifests make %d pods, demoPods is %d", pods, demoPods)
	}
}

func TestDownWithNothingToEnd(t *testing.T) {
	text, err := down(t.Context(), t.TempDir())
	if err != nil || !strings.HasPrefix(text, "nothing runs in ") {
		t.Errorf("down = %q, %v", text, err)
	}
}
