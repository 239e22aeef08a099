package kubeflow

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/yaml"

	"github.com/tangram-dev/tangram/lab/operators"
	"github.com/tangram-dev/tangram/test/cluster"
)

// kubeflow is a resource of training-operator.
func kubeflow(resource string) schema.GroupVersionResource {
	return schema.GroupVersionResource{Group: "kubeflow.org", Version: "v1", Resource: resource}
}

// sample is the first object of one of an operator's own manifests.
func sample(w *cluster.World, operator, path string) *unstructured.Unstructured {
	w.T.Helper()
	data, err := os.ReadFile(filepath.Join(operators.Samples(w.Bin, operator), path))
	w.Must(err)
	o := &unstructured.Unstructured{}
	first, _, _ := bytes.Cut(bytes.TrimPrefix(data, []byte("---\n")), []byte("\n---"))
	if err := yaml.Unmarshal(first, &o.Object); err != nil {
		w.T.Fatalf("%s: %v", path, err)
	}
	return o
}

// onGPUs makes all pods of a manifest ask gpu-scheduler for 8 GPUs each, which is a whole
// node, in the namespace default; what else the manifest says stays.
func onGPUs(o *unstructured.Unstructured, name string) *unstructured.Unstructured {
	o.SetName(name)
	o.SetNamespace("default")
	eachPodSpec(o.Object, func(_, spec map[string]any) {
		spec["schedulerName"] = "gpu-scheduler"
		for _, c := range spec["containers"].([]any) {
			c.(map[string]any)["resources"] = map[string]any{"limits": map[string]any{"nvidia.com/gpu": int64(8)}}
			break
		}
	})
	return o
}

// eachPodSpec calls change with every pod template of a manifest and its spec.
func eachPodSpec(at any, change func(template, spec map[string]any)) {
	switch v := at.(type) {
	case map[string]any:
		if spec, ok := v["spec"].(map[string]any); ok {
			if _, ok := spec["containers"].([]any); ok {
				change(v, spec)
			}
		}
		for _, child := range v {
			eachPodSpec(child, change)
		}
	case []any:
		for _, child := range v {
			eachPodSpec(child, change)
		}
	}
}

// apply applies an object.
func apply(w *cluster.World, o *unstructured.Unstructured) {
	w.T.Helper()
	data, err := yaml.Marshal(o.Object)
	w.Must(err)
	w.Apply(string(data))
}

// TestOnGPUs: the walk finds the pod templates of a manifest.
func TestOnGPUs(t *testing.T) {
	o := &unstructured.Unstructured{}
	const manifest = `{kind: X, metadata: {name: x}, spec: {a: {Worker: {template: {spec: {containers: [{name: c}]}}}}, b: [{template: {spec: {template: {spec: {containers: [{name: d}]}}}}}]}}`
	if err := yaml.Unmarshal([]byte(manifest), &o.Object); err != nil {
		t.Fatal(err)
	}
	n := 0
	eachPodSpec(onGPUs(o, "y").Object, func(_, spec map[string]any) {
		if n++; spec["schedulerName"] != "gpu-scheduler" {
			t.Errorf("got %v", spec)
		}
	})
	if n != 2 || o.GetName() != "y" {
		t.Errorf("%d pod templates of %s", n, o.GetName())
	}
}
