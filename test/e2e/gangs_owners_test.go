package e2e

import (
	"context"
	_ "embed"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/tangram-dev/tangram/api/names"
	"github.com/tangram-dev/tangram/config"
	"github.com/tangram-dev/tangram/internal/local"
)

//go:embed testdata/owners.yaml
var ownerKinds []byte

// TestGangsByOwner: the pods of a Job, a JobSet and a RayCluster start together, and
// nobody had to say so. The kinds may come after the scheduler has started; what a
// scheduler left half done the next one completes.
func TestGangsByOwner(t *testing.T) {
	t.Parallel()
	w := startWorld(t, local.Options{ControllerManager: true, KWOK: true}, config.RBAC(), config.CRDs())
	w.fleet(`
pools:
- {name: n, count: 4, gpu: {model: A100-80GB, count: 8}, rack: {size: 2}}
`)
	scheduler := w.scheduler(nil)
	w.createGang("labels", 2, 8) // without any CRD
	w.gangNodes("labels-", 2, 20*time.Second)

	// Two nodes are left: a Job of three waits whole, one of two starts.
	w.apply(indexedJob("three", 3))
	w.waitsAll("three-", 3, "waits for capacity: needs 3 members, 2 can be placed")
	w.apply(indexedJob("two", 2))
	w.gangNodes("two-", 2, 20*time.Second)
	w.noneBound("three-", 500*time.Millisecond)
	w.deleteJob("two")
	w.gone("labels-0")
	w.gangNodes("three-", 3, 20*time.Second)
	w.deleteJob("three")
	w.gone("labels-1")

	// A scheduler dies in the middle of a gang's binding: 20 of 28 are bound, and the
	// rest fits only beside them.
	w.createGang("half", 28, 1)
	w.gangNodes("half-", 28, 20*time.Second)
	if err := scheduler.Kill(); err != nil {
		t.Fatal(err)
	}
	for i := 20; i < 28; i++ {
		w.gone(fmt.Sprintf("half-%d", i))
		w.create(pod(fmt.Sprintf("half-again-%d", i), 1, gangLabels("half", 28)))
	}
	scheduler = w.scheduler(nil)
	w.gangNodes("half-", 28, 20*time.Second)
	w.checkRecords()
	for _, p := range w.pods() {
		w.gone(p.Name)
	}
	w.selfCheck(scheduler, 0)

	// Kinds that come later are noticed.
	w.apply(string(config.VolcanoCRDs()))
	w.apply(string(ownerKinds))
	w.eventually("the scheduler has noticed the new kinds", time.Minute, func() (bool, string) {
		w.t.Helper()
		name := fmt.Sprintf("probe-%d", time.Now().UnixNano())
		w.apply(podGroup(name, 2))
		w.create(pod(name, 1, annotated(names.AnnotationKubeGroup, name)))
		time.Sleep(2 * time.Second)
		bound := w.get(name).Spec.NodeName
		w.gone(name)
		return bound == "", "a lone member of two started on " + bound
	})
	w.apply(podGroup("late", 3))
	for i := range 3 {
		if i == 2 {
			w.event("Pod", "late-0", "waits for members: 2 of 3 exist")
		}
		w.create(pod(fmt.Sprintf("late-%d", i), 1, annotated(names.AnnotationKubeGroup, "late")))
	}
	w.gangNodes("late-", 3, 20*time.Second)
	w.create(pod("stray", 1, annotated(names.AnnotationKubeGroup, "nobody")))
	w.waits("stray", "PodGroup", "nobody", "does not exist")
	w.apply(podGroup("nobody", 1))
	w.bound("stray")

	w.apply(`{apiVersion: jobset.x-k8s.io/v1alpha2, kind: JobSet, metadata: {name: js, namespace: default}, spec: {replicatedJobs: [
  {name: leader, template: {spec: {parallelism: 1, completions: 1}}}, {name: worker, replicas: 2, template: {spec: {parallelism: 1, completions: 1}}}]}}`)
	for i, role := range []string{"leader", "worker", "worker"} {
		if i == 2 {
			w.event("Pod", "js-0", "waits for members: 2 of 3 exist")
		}
		w.create(pod(fmt.Sprintf("js-%d", i), 1, labelled("jobset.sigs.k8s.io/jobset-name", "js"), labelled("jobset.sigs.k8s.io/replicatedjob-name", role)))
	}
	w.gangNodes("js-", 3, 20*time.Second)

	w.apply(`{apiVersion: ray.io/v1, kind: RayCluster, metadata: {name: ray, namespace: default}, spec: {workerGroupSpecs: [{groupName: gpu, replicas: 2}]}}`)
	ray, err := w.dynamic.Resource(schema.GroupVersionResource{Group: "ray.io", Version: "v1", Resource: "rayclusters"}).Namespace("default").Get(context.Background(), "ray", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	yes := true
	for i := range 3 {
		if i == 2 {
			w.event("Pod", "ray-0", "waits for members: 2 of 3 exist")
		}
		w.create(pod(fmt.Sprintf("ray-%d", i), 1, func(p *v1.Pod) {
			p.OwnerReferences = []metav1.OwnerReference{{APIVersion: "ray.io/v1", Kind: "RayCluster", Name: "ray", UID: ray.GetUID(), Controller: &yes}}
			if i == 0 { // the head has no GPU
				p.Spec.Containers[0].Resources = v1.ResourceRequirements{}
			}
		}))
	}
	w.gangNodes("ray-", 3, 20*time.Second)

	// The guide's manifests, as people copy them.
	for _, manifest := range guideManifests(t, "gangs-and-queues.md") {
		w.apply(manifest)
	}
	w.gangNodes("train-", 4, 20*time.Second)
	w.gangNodes("worker-", 2, 20*time.Second)
	w.gangNodes("elastic-", 4, 20*time.Second)
}

// guideManifests are the YAML blocks of a guide.
func guideManifests(t *testing.T, name string) (out []string) {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("..", "..", "docs", "guides", name))
	if err != nil {
		t.Fatal(err)
	}
	for _, block := range strings.Split(string(data), "```yaml\n")[1:] {
		manifest, _, _ := strings.Cut(block, "```")
		out = append(out, manifest)
	}
	if len(out) == 0 {
		t.Fatal("the guide has no manifests")
	}
	return out
}

func podGroup(name string, least int) string {
	return fmt.Sprintf("{apiVersion: scheduling.volcano.sh/v1beta1, kind: PodGroup, metadata: {name: %s, namespace: default}, spec: {minMember: %d}}", name, least)
}

// waitsAll waits until n pods with a prefix are told why they wait.
func (w *world) waitsAll(prefix string, n int, reason string) {
	w.t.Helper()
	w.eventually(fmt.Sprintf("%d pods %s* wait for %s", n, prefix, reason), 20*time.Second, func() (bool, string) {
		told, seen := 0, ""
		for _, p := range w.pods() {
			if strings.HasPrefix(p.Name, prefix) {
				if seen = waitsFor(&p); strings.Contains(seen, reason) {
					told++
				}
			}
		}
		return told == n, fmt.Sprintf("%d; %s", told, seen)
	})
}

// deleteJob deletes a Job with its pods.
func (w *world) deleteJob(name string) {
	w.t.Helper()
	background := metav1.DeletePropagationBackground
	if err := w.client.BatchV1().Jobs("default").Delete(context.Background(), name, metav1.DeleteOptions{PropagationPolicy: &background}); err != nil {
		w.t.Fatal(err)
	}
}

// indexedJob is a Kubernetes Job of n pods of a whole node each.
func indexedJob(name string, n int) string {
	return fmt.Sprintf(`
apiVersion: batch/v1
kind: Job
metadata: {name: %s, namespace: default}
spec:
  completionMode: Indexed
  parallelism: %d
  completions: %d
  template:
    spec:
      schedulerName: %s
      restartPolicy: Never
      containers: [{name: main, image: train, resources: {limits: {nvidia.com/gpu: 8}}}]
`, name, n, n, names.SchedulerName)
}
