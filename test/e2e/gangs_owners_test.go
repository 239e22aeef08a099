package e2e

import (
	"context"
	_ "embed"
	"fmt"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/tangram-dev/tangram/api/names"
	"github.com/tangram-dev/tangram/config"
	"github.com/tangram-dev/tangram/lab/local"
	"github.com/tangram-dev/tangram/test/cluster"
)

//go:embed testdata/owners.yaml
var ownerKinds []byte

// TestGangsByOwner: the pods of a Job, a JobSet and a RayCluster start together, and
// no label has to say so. The kinds may come after the scheduler has started; what a
// scheduler left half done the next one completes.
func TestGangsByOwner(t *testing.T) {
	t.Parallel()
	w := startWorld(t, local.Options{ControllerManager: true, KWOK: true}, config.RBAC(), config.CRDs())
	w.Fleet(`
pools:
- {name: n, count: 4, gpu: {model: A100-80GB, count: 8}, rack: {size: 2}}
`)
	scheduler := w.Scheduler(nil)
	w.createGang("labels", 2, 8) // without any CRD
	w.gangNodes("labels-", 2)

	// Two nodes are left: a Job of three waits whole, one of two starts.
	w.Apply(indexedJob("three", 3))
	w.waitsAll("three-", 3, "waits for capacity: needs 3 members, 2 can be placed")
	w.Apply(indexedJob("two", 2))
	w.gangNodes("two-", 2)
	w.noneBound("three-", 500*time.Millisecond)
	w.deleteJob("two")
	w.Delete("labels-0")
	w.gangNodes("three-", 3)
	w.deleteJob("three")
	w.Delete("labels-1")

	// A scheduler dies in the middle of a gang's binding: 20 of 28 are bound, and the
	// rest fits only beside them.
	w.createGang("half", 28, 1)
	w.gangNodes("half-", 28)
	w.Must(scheduler.Kill())
	for i := 20; i < 28; i++ {
		w.Delete(fmt.Sprintf("half-%d", i))
		w.Create(pod(fmt.Sprintf("half-again-%d", i), 1, cluster.Gang("half", 28)))
	}
	scheduler = w.Scheduler(nil)
	w.gangNodes("half-", 28)
	w.CheckRecords()
	for _, p := range w.AllPods() {
		w.Delete(p.Name)
	}
	w.selfCheck(scheduler, 0)

	// Kinds that come later are noticed.
	w.Apply(string(config.VolcanoCRDs()))
	w.Apply(string(ownerKinds))
	w.Eventually("the scheduler has noticed the new kinds", func() (bool, string) {
		w.T.Helper()
		name := fmt.Sprintf("probe-%d", time.Now().UnixNano())
		w.Apply(podGroup(name, 2))
		w.Create(pod(name, 1, cluster.Annotate(names.AnnotationKubeGroup, name)))
		time.Sleep(2 * time.Second)
		bound := w.Get(name).Spec.NodeName
		w.Delete(name)
		return bound == "", "a lone member of two started on " + bound
	})
	w.Apply(podGroup("late", 3))
	for i := range 3 {
		if i == 2 {
			w.Event("Pod", "late-0", "waits for members: 2 of 3 exist")
		}
		w.Create(pod(fmt.Sprintf("late-%d", i), 1, cluster.Annotate(names.AnnotationKubeGroup, "late")))
	}
	w.gangNodes("late-", 3)
	w.Create(pod("stray", 1, cluster.Annotate(names.AnnotationKubeGroup, "absent")))
	w.Waits("stray", "PodGroup", "absent", "does not exist")
	w.Apply(podGroup("absent", 1))
	w.Placed("stray")

	w.Apply(`{apiVersion: jobset.x-k8s.io/v1alpha2, kind: JobSet, metadata: {name: js, namespace: default}, spec: {replicatedJobs: [
  {name: leader, template: {spec: {parallelism: 1, completions: 1}}}, {name: worker, replicas: 2, template: {spec: {parallelism: 1, completions: 1}}}]}}`)
	for i, role := range []string{"leader", "worker", "worker"} {
		if i == 2 {
			w.Event("Pod", "js-0", "waits for members: 2 of 3 exist")
		}
		w.Create(pod(fmt.Sprintf("js-%d", i), 1, cluster.Label("jobset.sigs.k8s.io/jobset-name", "js"), cluster.Label("jobset.sigs.k8s.io/replicatedjob-name", role)))
	}
	w.gangNodes("js-", 3)

	w.Apply(`{apiVersion: ray.io/v1, kind: RayCluster, metadata: {name: ray, namespace: default}, spec: {workerGroupSpecs: [{groupName: gpu, replicas: 2}]}}`)
	ray, err := w.Dynamic.Resource(schema.GroupVersionResource{Group: "ray.io", Version: "v1", Resource: "rayclusters"}).Namespace("default").Get(context.Background(), "ray", metav1.GetOptions{})
	w.Must(err)
	yes := true
	for i := range 3 {
		if i == 2 {
			w.Event("Pod", "ray-0", "waits for members: 2 of 3 exist")
		}
		w.Create(pod(fmt.Sprintf("ray-%d", i), 1, func(p *v1.Pod) {
			p.OwnerReferences = []metav1.OwnerReference{{APIVersion: "ray.io/v1", Kind: "RayCluster", Name: "ray", UID: ray.GetUID(), Controller: &yes}}
			if i == 0 { // the head has no GPU
				p.Spec.Containers[0].Resources = v1.ResourceRequirements{}
			}
		}))
	}
	w.gangNodes("ray-", 3)

	// The guide's manifests, as people copy them.
	for _, manifest := range w.Guide("gangs-and-queues.md") {
		w.Apply(manifest)
	}
	w.gangNodes("train-", 4)
	w.gangNodes("worker-", 2)
	w.gangNodes("elastic-", 4)
}

func podGroup(name string, least int) string {
	return fmt.Sprintf("{apiVersion: scheduling.volcano.sh/v1beta1, kind: PodGroup, metadata: {name: %s, namespace: default}, spec: {minMember: %d}}", name, least)
}

// waitsAll waits until n pods with a prefix are told why they wait.
func (w *world) waitsAll(prefix string, n int, reason string) {
	w.T.Helper()
	w.Eventually(fmt.Sprintf("%d pods %s* wait for %s", n, prefix, reason), func() (bool, string) {
		told, seen := 0, ""
		for _, p := range w.AllPods() {
			if strings.HasPrefix(p.Name, prefix) {
				if seen = cluster.Waiting(&p); strings.Contains(seen, reason) {
					told++
				}
			}
		}
		return told == n, fmt.Sprintf("%d; %s", told, seen)
	})
}

// deleteJob deletes a Job with its pods.
func (w *world) deleteJob(name string) {
	w.T.Helper()
	background := metav1.DeletePropagationBackground
	w.Must(w.Client.BatchV1().Jobs("default").Delete(context.Background(), name, metav1.DeleteOptions{PropagationPolicy: &background}))
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
