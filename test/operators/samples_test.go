package operators

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/tangram-dev/tangram/lab/operators"
	"github.com/tangram-dev/tangram/test/cluster"
)

// sample is one of an operator's own manifests: the nth of a kind in a file. Of a README
// its YAML blocks are read.
func (w *world) sample(operator, file, kind string, nth int) *unstructured.Unstructured {
	w.T.Helper()
	data, err := os.ReadFile(filepath.Join(operators.Samples(w.Bin, operator), file))
	w.Must(err)
	text := string(data)
	if strings.HasSuffix(file, ".md") {
		var blocks []string
		for _, block := range strings.Split(text, "```yaml\n")[1:] {
			manifest, _, _ := strings.Cut(block, "```")
			blocks = append(blocks, manifest)
		}
		text = strings.Join(blocks[:nth+1], "\n---\n") // those after it may be unfinished
	}
	for _, o := range parse(w.T, text) {
		if o.GetKind() != kind {
			continue
		}
		if nth == 0 {
			o.SetNamespace("default")
			return o
		}
		nth--
	}
	w.T.Fatalf("%s of %s has no %s number %d", file, operator, kind, nth)
	return nil
}

// adapt makes a manifest one for this cluster, changing nothing but its name and, in pod
// templates, scheduler, image, resources and volumes. gpus is what the pods of a template
// ask for, by the template's path in the object.
func adapt(o *unstructured.Unstructured, name string, gpus func(path string) int64) *unstructured.Unstructured {
	o.SetName(name)
	podSpecs(o.Object, "", func(path string, spec map[string]any) {
		spec["schedulerName"] = "gpu-scheduler"
		delete(spec, "volumes")
		delete(spec, "serviceAccountName")
		for i, c := range spec["containers"].([]any) {
			container := c.(map[string]any)
			for _, key := range []string{"volumeMounts", "resources", "env", "envFrom", "command", "args"} {
				delete(container, key)
			}
			container["image"] = "pause"
			if n := gpus(path); n > 0 && i == 0 {
				container["resources"] = map[string]any{"limits": map[string]any{"nvidia.com/gpu": n}}
			}
		}
	})
	return o
}

// podSpecs visits the pod specs of an object, in the order of their paths.
func podSpecs(value any, path string, visit func(path string, spec map[string]any)) {
	switch v := value.(type) {
	case map[string]any:
		if _, ok := v["containers"].([]any); ok {
			visit(path, v)
			return
		}
		var keys []string
		for key := range v {
			keys = append(keys, key)
		}
		slices.Sort(keys)
		for _, key := range keys {
			podSpecs(v[key], path+"."+key, visit)
		}
	case []any:
		for i, item := range v {
			podSpecs(item, path+"."+number(i), visit)
		}
	}
}

// workers gives GPUs to all pods but the heads of Ray clusters.
func workers(n int64) func(string) int64 {
	return func(path string) int64 {
		if strings.Contains(path, "headGroupSpec") {
			return 0
		}
		return n
	}
}

// everywhere gives GPUs to all pods.
func everywhere(n int64) func(string) int64 { return func(string) int64 { return n } }

// set sets a field of an object; items of lists are named by their number.
func set(o *unstructured.Unstructured, value any, path ...string) *unstructured.Unstructured {
	var at any = o.Object
	for i, key := range path {
		last := i == len(path)-1
		switch v := at.(type) {
		case map[string]any:
			if last {
				v[key] = value
			} else if v[key] == nil {
				v[key] = map[string]any{}
			}
			at = v[key]
		case []any:
			at = v[index(key)]
		}
	}
	return o
}

func index(text string) (n int) {
	for _, r := range text {
		n = 10*n + int(r-'0')
	}
	return n
}

// TestSamples: the samples are there, and adapt changes their pods.
func TestSamples(t *testing.T) {
	w := &world{World: &cluster.World{Cluster: &cluster.Cluster{Bin: require(t, "kuberay")}, T: t}}
	o := adapt(w.sample("kuberay", "samples/ray-cluster.sample.yaml", "RayCluster", 0), "x", workers(2))
	found := map[string]int64{}
	podSpecs(o.Object, "", func(path string, spec map[string]any) {
		limits, _, _ := unstructured.NestedMap(spec["containers"].([]any)[0].(map[string]any), "resources", "limits")
		n, _ := limits["nvidia.com/gpu"].(int64)
		found[path] = n
	})
	if len(found) != 2 || found[".spec.headGroupSpec.template.spec"] != 0 || found[".spec.workerGroupSpecs.0.template.spec"] != 2 {
		t.Errorf("got %v", found)
	}
}
