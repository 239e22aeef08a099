package local

import (
	"slices"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	dynamicfake "k8s.io/client-go/dynamic/fake"
	"k8s.io/client-go/kubernetes/fake"

	"github.com/tangram-dev/tangram/api/v1alpha1"
	"github.com/tangram-dev/tangram/lab/fleet"
)

func parseFleet(t *testing.T, text string) *fleet.Fleet {
	t.Helper()
	f, err := fleet.Parse("fleet.yaml", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// fakeGPUNodes is an API server with the GPUNodes of a fleet.
func fakeGPUNodes(t *testing.T, f *fleet.Fleet) dynamic.ResourceInterface {
	t.Helper()
	client := dynamicfake.NewSimpleDynamicClientWithCustomListKinds(runtime.NewScheme(), map[schema.GroupVersionResource]string{v1alpha1.GPUNodes: "GPUNodeList"})
	for _, n := range f.GPUNodes() {
		content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(n)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := client.Resource(v1alpha1.GPUNodes).Create(t.Context(), &unstructured.Unstructured{Object: content}, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	return client.Resource(v1alpha1.GPUNodes)
}

func fakeNodes(nodes []*v1.Node) *fake.Clientset {
	var objects []runtime.Object
	for _, n := range nodes {
		objects = append(objects, n)
	}
	return fake.NewClientset(objects...)
}

func TestUndescribed(t *testing.T) {
	wanted := parseFleet(t, "pools:\n- {name: a, count: 2, gpu: {model: T4, count: 2}}\n- {name: cpu, count: 1}\n")
	smaller := parseFleet(t, "pools:\n- {name: a, count: 2, gpu: {model: T4, count: 1}}\n")
	fewer := parseFleet(t, "pools:\n- {name: a, count: 1, gpu: {model: T4, count: 2}}\n")
	for _, tt := range []struct {
		name     string
		gpuNodes *fleet.Fleet
		nodes    []*v1.Node
		want     string
	}{
		{"all of it", wanted, wanted.Nodes(), ""},
		{"a GPUNode is missing", fewer, wanted.Nodes(), "gpunode a-1 has not its 2 devices"},
		{"a GPUNode of the last fleet", smaller, wanted.Nodes(), "gpunode a-0 has not its 2 devices"},
		{"no labels yet", wanted, wanted.BareNodes(), "node a-0 has not the label gpu-count"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got, err := undescribed(t.Context(), fakeNodes(tt.nodes), fakeGPUNodes(t, tt.gpuNodes), wanted)
			if err != nil || got != tt.want {
				t.Errorf("undescribed = %q, %v, want %q", got, err, tt.want)
			}
		})
	}
}

func TestPruneFleet(t *testing.T) {
	before := parseFleet(t, "pools:\n- {name: a, count: 2, gpu: {model: T4, count: 2}}\n- {name: b, count: 1, gpu: {model: T4, count: 2}}\n- {name: cpu, count: 1}\n")
	after := parseFleet(t, "pools:\n- {name: a, count: 1, gpu: {model: T4, count: 1}}\n- {name: b, count: 1}\n- {name: cpu, count: 1}\n")
	nodes := before.Nodes()
	stranger := nodes[0].DeepCopy()
	stranger.Name, stranger.Annotations = "real", nil
	client, gpuNodes := fakeNodes(append(nodes, stranger)), fakeGPUNodes(t, before)
	for range 2 { // there may be nothing left to do
		if err := pruneFleet(t.Context(), client, gpuNodes, after); err != nil {
			t.Fatal(err)
		}
	}
	left, err := client.CoreV1().Nodes().List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, n := range left.Items {
		names = append(names, n.Name)
	}
	slices.Sort(names)
	// b-0 was described as having GPUs and has none now: it is created anew.
	if got := strings.Join(names, " "); got != "a-0 cpu-0 real" {
		t.Errorf("left are %s", got)
	}
	described, err := listGPUNodes(t.Context(), gpuNodes)
	if err != nil || len(described) != 1 || described["a-0"] == nil {
		t.Errorf("left are GPUNodes %v, %v", described, err)
	}
}
