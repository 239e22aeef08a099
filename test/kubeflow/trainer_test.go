package kubeflow

import (
	"fmt"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/tangram-dev/tangram/test/cluster"
)

const labelJobSet = "jobset.sigs.k8s.io/jobset-name"

var trainJobs = schema.GroupVersionResource{Group: "trainer.kubeflow.org", Version: "v1alpha1", Resource: "trainjobs"}

// TestTrainer: TrainJobs of Trainer's own runtimes, through JobSet.
func TestTrainer(t *testing.T) {
	t.Parallel()
	w := cluster.ForTest(t, cluster.Whole("pools: [{name: n, count: 4, gpu: {model: A100-80GB, count: 8}}]").
		With(cluster.Operator{Name: "jobset"}, cluster.Operator{Name: "trainer"}))
	runtime := func(path, name, policy string) {
		t.Helper()
		o := sample(w, "trainer", path)
		onGPUs(o, name).SetNamespace("")
		eachPodSpec(o.Object, func(template, spec map[string]any) {
			container := spec["containers"].([]any)[0].(map[string]any)
			if strings.HasSuffix(container["name"].(string), "-initializer") {
				delete(container, "resources") // they fetch, and end
				template["metadata"] = map[string]any{"annotations": map[string]any{"tangram.dev/runtime": "1s"}}
			}
			delete(container, "volumeMounts") // there is no storage here
		})
		unstructured.RemoveNestedField(o.Object, "spec", "template", "spec", "volumeClaimPolicies")
		if policy != "" {
			w.Set(o, policy, "spec", "podGroupPolicy")
		}
		apply(w, o)
	}
	runtime("runtimes/torch_distributed.yaml", "torch", "")
	runtime("runtimes/torch_distributed.yaml", "torch-volcano", "{volcano: {}}")
	runtime("runtimes/torchtune/llama3_2/llama3_2_1B.yaml", "tune", "")
	runtime("runtimes/torchtune/llama3_2/llama3_2_1B.yaml", "tune-volcano", "{volcano: {}}")
	train := func(w *cluster.World, name, runtime string, nodes int) {
		w.T.Helper()
		w.Apply(fmt.Sprintf(`{apiVersion: trainer.kubeflow.org/v1alpha1, kind: TrainJob, metadata: {name: %s, namespace: default},
			spec: {runtimeRef: {name: %s}, trainer: {numNodes: %d, resourcesPerNode: {limits: {nvidia.com/gpu: 8}}}}}`, name, runtime, nodes))
	}
	t.Run("guide", func(t *testing.T) {
		w := w.In(t)
		w.Apply(w.Guide("kubeflow.md")[1])
		w.BoundAll(labelJobSet+"=train", 4)
		w.Remove(trainJobs, "train")
		w.Gone()
	})
	for _, runtime := range []string{"torch", "torch-volcano", "tune", "tune-volcano"} {
		t.Run(runtime, func(t *testing.T) {
			w := w.In(t)
			left := map[string]bool{}
			for i := range 3 { // 9 nodes of 4
				name := fmt.Sprintf("%s-%d", runtime, i)
				left[name] = true
				train(w, name, runtime, 3)
			}
			gangOf := func(p *v1.Pod) (string, int) {
				if p.Labels["jobset.sigs.k8s.io/replicatedjob-name"] != "node" || !left[p.Labels[labelJobSet]] {
					return "", 0 // initializers come first, and go; or it is being deleted
				}
				return p.Labels[labelJobSet], 3
			}
			for len(left) > 0 {
				for _, name := range w.WholeGangs(1, gangOf) {
					if strings.HasSuffix(runtime, "volcano") && w.Object(cluster.PodGroups, name) == nil {
						t.Errorf("%s has no PodGroup", name)
					}
					w.Remove(trainJobs, name)
					delete(left, name)
				}
			}
			w.Gone()
		})
	}
}
