package operators

import (
	"context"
	"fmt"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/tangram-dev/tangram/api/names"
	"github.com/tangram-dev/tangram/test/cluster"
)

// ray is KubeRay's sample cluster with a head without GPUs and n workers.
func (w *world) ray(name string, n, gpus int64) *unstructured.Unstructured {
	w.T.Helper()
	o := adapt(w.sample("kuberay", "samples/ray-cluster.sample.yaml", "RayCluster", 0), name, workers(gpus))
	set(o, int64(20), "spec", "workerGroupSpecs", "0", "maxReplicas")
	return set(o, n, "spec", "workerGroupSpecs", "0", "replicas")
}

// expectRay tells the judge of a cluster of n pods.
func (w *world) expectRay(name string, n int) { w.judge.expect(name, n, label(rayCluster, name)) }

// TestRayCluster: a RayCluster starts whole or not at all, and without any word of ours.
func TestRayCluster(t *testing.T) {
	w := newWorld(t, "kuberay")
	w.expectRay("whole", 8)
	w.create(w.ray("whole", 7, 8))
	w.running(rayCluster, "whole", 8)

	// One node is left: neither the head nor the worker that would fit starts.
	w.expectRay("large", 3)
	w.create(w.ray("large", 2, 8))
	w.waiting(rayCluster, "large", 3, "waits for capacity: needs 3 members, 2 can be placed")

	w.remove("RayCluster", "whole")
	w.running(rayCluster, "large", 3)

	// A required rack is kept: two nodes of one.
	rack := w.ray("rack", 2, 8)
	set(rack, map[string]any{"tangram.dev/topology": "required=rack"}, "spec", "headGroupSpec", "template", "metadata", "annotations")
	set(rack, map[string]any{"tangram.dev/topology": "required=rack"}, "spec", "workerGroupSpecs", "0", "template", "metadata", "annotations")
	w.create(rack)
	w.running(rayCluster, "rack", 3)
	if racks := w.racks(rayCluster, "rack"); len(racks) != 1 {
		t.Errorf("it runs in racks %v", racks)
	}
}

// TestRayScaling: a cluster that has been whole takes those of its new workers that fit; one
// that lost all its pods starts whole again.
func TestRayScaling(t *testing.T) {
	w := newWorld(t, "kuberay")
	w.create(w.ray("grows", 2, 8))
	w.running(rayCluster, "grows", 3)
	w.provisioned("grows")
	w.scale("grows", 12)
	w.places(label(rayCluster, "grows"), 13, 9, "waits for capacity") // the head and a worker on each node
	w.scale("grows", 3)
	w.places(label(rayCluster, "grows"), 4, 4, "")

	// As a new cluster it waits for all.
	w.expectRay("other", 7)
	w.create(w.ray("other", 6, 8))
	w.waiting(rayCluster, "other", 7, "waits for capacity: needs 7 members, 6 can be placed")
	w.scale("grows", 2)
	w.running(rayCluster, "other", 7)
}

// scale changes the number of workers.
func (w *world) scale(name string, n int) {
	w.T.Helper()
	patch := fmt.Sprintf(`[{"op": "replace", "path": "/spec/workerGroupSpecs/0/replicas", "value": %d}]`, n)
	_, err := w.Dynamic.Resource(kinds["RayCluster"]).Namespace(v1.NamespaceDefault).Patch(context.Background(), name, types.JSONPatchType, []byte(patch), metav1.PatchOptions{})
	w.Must(err)
}

// places waits until n pods match, of which some have places and the others are told why.
func (w *world) places(has func(*v1.Pod) bool, n, some int, why string) {
	w.T.Helper()
	w.eventually(fmt.Sprintf("%d of %d pods have places", some, n), func(pods []*v1.Pod) (bool, string) {
		var of []*v1.Pod
		told := 0
		for _, p := range pods {
			if !has(p) {
				continue
			}
			if of = append(of, p); p.Spec.NodeName == "" && strings.Contains(cluster.Scheduled(p).Message, why) {
				told++
			}
		}
		return len(of) == n && bound(of) == some && told == n-some, summary(of)
	})
}

// provisioned waits until KubeRay says that a cluster has been whole.
func (w *world) provisioned(name string) {
	w.T.Helper()
	w.eventuallyObject(kinds["RayCluster"], name, "has been whole", func(o *unstructured.Unstructured) bool {
		conditions, _, _ := unstructured.NestedSlice(o.Object, "status", "conditions")
		for _, c := range conditions {
			if condition := c.(map[string]any); condition["type"] == "RayClusterProvisioned" {
				return condition["status"] == "True"
			}
		}
		return false
	})
}

// eventuallyObject waits until an object is as a test wants it.
func (w *world) eventuallyObject(kind schema.GroupVersionResource, name, what string, holds func(*unstructured.Unstructured) bool) {
	w.T.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	watch, err := w.Dynamic.Resource(kind).Namespace(v1.NamespaceDefault).Watch(ctx, metav1.ListOptions{FieldSelector: "metadata.name=" + name})
	w.Must(err)
	defer watch.Stop()
	var last any
	for event := range watch.ResultChan() {
		o, ok := event.Object.(*unstructured.Unstructured)
		if !ok {
			continue
		}
		if last = o.Object["status"]; holds(o) {
			return
		}
	}
	w.T.Fatalf("%s %s: not within %s; status: %v", name, what, patience, last)
}

// madeBy matches the pods of the RayCluster that a RayJob or a RayService made.
func madeBy(name string) func(*v1.Pod) bool {
	return func(p *v1.Pod) bool { return strings.HasPrefix(p.Labels[rayCluster], name+"-") }
}

// TestRayJobAndService: their clusters are gangs like any.
func TestRayJobAndService(t *testing.T) {
	w := newWorld(t, "kuberay")
	w.judge.expect("service", 3, madeBy("service"))
	service := adapt(w.sample("kuberay", "samples/ray-service.sample.yaml", "RayService", 0), "service", workers(8))
	set(service, int64(2), "spec", "rayClusterConfig", "workerGroupSpecs", "0", "replicas")
	w.create(service)
	w.places(madeBy("service"), 3, 3, "")

	w.judge.expect("job", 8, madeBy("job"))
	job := adapt(w.sample("kuberay", "samples/ray-job.sample.yaml", "RayJob", 0), "job", workers(8))
	set(job, int64(20), "spec", "rayClusterSpec", "workerGroupSpecs", "0", "maxReplicas")
	set(job, int64(7), "spec", "rayClusterSpec", "workerGroupSpecs", "0", "replicas")
	w.create(job)
	w.places(madeBy("job"), 8, 0, "needs 8 members, 7 can be placed")
	w.remove("RayService", "service")
	w.places(madeBy("job"), 8, 8, "")
}

// TestRayBatchSchedulers: the same where KubeRay writes PodGroups, of either kind.
func TestRayBatchSchedulers(t *testing.T) {
	for name, tt := range map[string]struct {
		scheduler, file string
		extra           string
	}{
		"volcano": {"volcano", "samples/ray-cluster.volcano-scheduler-queue.yaml",
			`{apiVersion: scheduling.volcano.sh/v1beta1, kind: Queue, metadata: {name: kuberay-test-queue}, spec: {weight: 1}}`},
		"scheduler-plugins": {"scheduler-plugins-scheduler", "samples/ray-cluster.scheduler-plugins.yaml", ""},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, "kuberay")
			w.with(cluster.Operator{Name: "kuberay", Args: []string{"--batch-scheduler=" + name}})
			if tt.extra != "" {
				w.apply(tt.extra)
			}
			cluster := func(name string, n int64) *unstructured.Unstructured {
				o := adapt(w.sample("kuberay", tt.file, "RayCluster", 0), name, workers(8))
				podSpecs(o.Object, "", func(_ string, spec map[string]any) { delete(spec, "schedulerName") }) // KubeRay writes it
				for _, field := range []string{"minReplicas", "maxReplicas"} {
					set(o, map[string]int64{"minReplicas": 0, "maxReplicas": 20}[field], "spec", "workerGroupSpecs", "0", field)
				}
				return set(o, n, "spec", "workerGroupSpecs", "0", "replicas")
			}
			w.expectRay("first", 3)
			w.create(cluster("first", 2))
			w.running(rayCluster, "first", 3)
			for _, p := range labelled(w.judge.pods(), rayCluster, "first") {
				if p.Spec.SchedulerName != tt.scheduler {
					t.Errorf("pod %s has scheduler %s", p.Name, p.Spec.SchedulerName)
				}
				if queue := p.Annotations[names.AnnotationCharged]; name == "volcano" && queue != "kuberay-test-queue" {
					t.Errorf("pod %s is charged to %q", p.Name, queue)
				}
			}
			w.expectRay("large", 8)
			w.create(cluster("large", 7))
			w.waiting(rayCluster, "large", 8, "needs 8 members, 7 can be placed")
			w.remove("RayCluster", "large")

			w.provisioned("first")
			w.scale("first", 12)
			w.places(label(rayCluster, "first"), 13, 9, "waits for capacity")
		})
	}
}
