package kueue

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/tangram-dev/tangram/test/opworld"
)

var (
	jobs        = schema.GroupVersionResource{Group: "batch", Version: "v1", Resource: "jobs"}
	jobSets     = schema.GroupVersionResource{Group: "jobset.x-k8s.io", Version: "v1alpha2", Resource: "jobsets"}
	rayClusters = schema.GroupVersionResource{Group: "ray.io", Version: "v1", Resource: "rayclusters"}
	workloads   = schema.GroupVersionResource{Group: "kueue.x-k8s.io", Version: "v1beta2", Resource: "workloads"}
)

// Labels by which the tests find pods.
const (
	labelGroup = "kueue.x-k8s.io/pod-group-name"
	labelTotal = "kueue.x-k8s.io/pod-group-total-count"
	labelRack  = "topology.kubernetes.io/rack"
)

// queues have twice the quota that the nodes have GPUs: what Kueue admits need not fit.
const queues = `
apiVersion: kueue.x-k8s.io/v1beta2
kind: ResourceFlavor
metadata: {name: default}
---
apiVersion: kueue.x-k8s.io/v1beta2
kind: ClusterQueue
metadata: {name: research}
spec:
  namespaceSelector: {}
  resourceGroups:
  - coveredResources: [nvidia.com/gpu]
    flavors: [{name: default, resources: [{name: nvidia.com/gpu, nominalQuota: 96}]}]
---
apiVersion: kueue.x-k8s.io/v1beta2
kind: LocalQueue
metadata: {name: user-queue, namespace: default}
spec: {clusterQueue: research}
`

// tas is a queue whose flavor knows racks and hosts.
const tas = `
apiVersion: kueue.x-k8s.io/v1beta2
kind: Topology
metadata: {name: racks}
spec: {levels: [{nodeLabel: topology.kubernetes.io/rack}, {nodeLabel: kubernetes.io/hostname}]}
---
apiVersion: kueue.x-k8s.io/v1beta2
kind: ResourceFlavor
metadata: {name: racks}
spec: {nodeLabels: {kubernetes.io/os: linux}, topologyName: racks}
---
apiVersion: kueue.x-k8s.io/v1beta2
kind: ClusterQueue
metadata: {name: tas}
spec:
  namespaceSelector: {}
  resourceGroups:
  - coveredResources: [nvidia.com/gpu]
    flavors: [{name: racks, resources: [{name: nvidia.com/gpu, nominalQuota: 96}]}]
---
apiVersion: kueue.x-k8s.io/v1beta2
kind: LocalQueue
metadata: {name: tas-queue, namespace: default}
spec: {clusterQueue: tas}
`

const frameworks = `integrations: {frameworks: [batch/job, jobset.x-k8s.io/jobset, ray.io/raycluster, pod]}`

const podSpec = `{schedulerName: gpu-scheduler, restartPolicy: Never, containers: [{name: main, image: pause, resources: {limits: {nvidia.com/gpu: 8}}}]}`

// job is an Indexed Job of n pods with 8 GPUs each, as Kueue's users write one: suspended,
// with the label of a queue.
func job(name, queue string, n int, annotations string) string {
	return fmt.Sprintf(`{apiVersion: batch/v1, kind: Job, metadata: {name: %s, labels: {kueue.x-k8s.io/queue-name: %s}},
		spec: {suspend: true, completionMode: Indexed, parallelism: %d, completions: %d, template: {metadata: {annotations: {%s}}, spec: %s}}}`,
		name, queue, n, n, annotations, podSpec)
}

// group are the pods of a pod group.
func group(name, queue string, n int, annotations string) string {
	var pods []string
	for i := range n {
		pods = append(pods, fmt.Sprintf(`{apiVersion: v1, kind: Pod, metadata: {name: %s-%d, labels: {kueue.x-k8s.io/queue-name: %s, %s: %s},
			annotations: {%s: "%d"%s}}, spec: %s}`, name, i, queue, labelGroup, name, labelTotal, n, annotations, podSpec))
	}
	return strings.Join(pods, "\n---\n")
}

// podGroup is the gang of a pod in a pod group.
func podGroup(p *v1.Pod) opworld.Gang {
	n, _ := strconv.Atoi(p.Annotations[labelTotal])
	return opworld.Gang{Name: p.Labels[labelGroup], Size: n}
}

// gone waits until no pod is left: Kueue's finalizer must go when a pod has ended.
func gone(w *opworld.World) {
	w.T.Helper()
	w.Eventually("no pod is left", 90*time.Second, func() (bool, string) {
		pods := w.Pods("", "")
		if len(pods) == 0 {
			return true, ""
		}
		return false, fmt.Sprintf("%d pods; %s is %s with %v", len(pods), pods[0].Name, pods[0].Status.Phase, pods[0].Finalizers)
	})
}

// deletePods deletes the pods with a label.
func deletePods(w *opworld.World, key, value string) {
	w.T.Helper()
	err := w.Client.CoreV1().Pods("default").DeleteCollection(context.Background(), metav1.DeleteOptions{}, metav1.ListOptions{LabelSelector: key + "=" + value})
	if err != nil {
		w.T.Fatal(err)
	}
}

// TestKueue: suspended Jobs, JobSets and RayClusters, pod groups, and topology-aware
// scheduling, on 6 nodes in 2 racks.
func TestKueue(t *testing.T) {
	t.Parallel()
	w := opworld.Start(t, opworld.Options{
		Fleet:     "pools: [{name: n, count: 6, gpu: {model: A100-80GB, count: 8}, rack: {size: 3}}]",
		Operators: []opworld.Operator{{Name: "kuberay"}, {Name: "jobset"}, {Name: "kueue", Config: frameworks}},
	})
	t.Run("guide", func(t *testing.T) { guide(w.In(t)) })
	w.Apply(queues)
	w.Apply(tas)
	for _, tt := range []struct {
		name string
		run  func(*opworld.World)
	}{
		{"jobs", suspendedJobs}, {"jobsets", suspendedJobSets}, {"rayclusters", suspendedRayClusters},
		{"pod groups", podGroups}, {"topology", topology},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w := w.In(t)
			tt.run(w)
			gone(w)
		})
	}
}

// guide: its manifests run as written.
func guide(w *opworld.World) {
	for _, manifest := range w.Guide("kueue.md") {
		w.Apply(manifest)
	}
	w.Bound("batch.kubernetes.io/job-name", "train", 4)
	w.Bound(labelGroup, "experiment", 2)
	w.Delete(jobs, "train")
	w.Delete(workloads, "experiment")
	gone(w)
}

// suspendedJobs: what Kueue admits beyond what fits waits as a whole.
func suspendedJobs(w *opworld.World) {
	const label = "batch.kubernetes.io/job-name"
	w.Apply(job("first", "user-queue", 4, ""))
	w.Bound(label, "first", 4)
	w.Apply(job("second", "user-queue", 4, ""))
	w.WaitsFor(label, "second", 4, "needs 4 members, 2 can be placed")
	w.Delete(jobs, "first")
	w.Bound(label, "second", 4)
	w.Delete(jobs, "second")
}

func suspendedJobSets(w *opworld.World) {
	const label = "jobset.sigs.k8s.io/jobset-name"
	set := func(name string) string {
		return fmt.Sprintf(`{apiVersion: jobset.x-k8s.io/v1alpha2, kind: JobSet, metadata: {name: %s, labels: {kueue.x-k8s.io/queue-name: user-queue}},
			spec: {suspend: true, replicatedJobs: [
				{name: leader, replicas: 1, template: {spec: {parallelism: 1, completions: 1, template: {spec: %s}}}},
				{name: workers, replicas: 1, template: {spec: {parallelism: 3, completions: 3, template: {spec: %s}}}}]}}`, name, podSpec, podSpec)
	}
	w.Apply(set("one"))
	w.Bound(label, "one", 4)
	w.Apply(set("two"))
	w.WaitsFor(label, "two", 4, "needs 4 members, 2 can be placed")
	w.Delete(jobSets, "one")
	w.Bound(label, "two", 4)
	w.Delete(jobSets, "two")
}

func suspendedRayClusters(w *opworld.World) {
	const label = "ray.io/cluster"
	container := `containers: [{name: ray, image: ray, resources: {limits: {nvidia.com/gpu: 8}}}]`
	cluster := func(name string) string {
		return fmt.Sprintf(`{apiVersion: ray.io/v1, kind: RayCluster, metadata: {name: %s, labels: {kueue.x-k8s.io/queue-name: user-queue}},
			spec: {suspend: true, rayVersion: "2.46.0",
				headGroupSpec: {rayStartParams: {}, template: {spec: {schedulerName: gpu-scheduler, %s}}},
				workerGroupSpecs: [{groupName: w, replicas: 3, minReplicas: 3, maxReplicas: 3, rayStartParams: {}, template: {spec: {schedulerName: gpu-scheduler, %s}}}]}}`,
			name, container, container)
	}
	w.Apply(cluster("ray-a"))
	w.Bound(label, "ray-a", 4)
	w.Apply(cluster("ray-b"))
	w.WaitsFor(label, "ray-b", 4, "needs 4 members, 2 can be placed")
	w.Delete(rayClusters, "ray-a")
	w.Bound(label, "ray-b", 4)
	w.Delete(rayClusters, "ray-b")
}

// podGroups: twice as many as there are nodes, of which Kueue admits all.
func podGroups(w *opworld.World) {
	for i := range 3 {
		w.Apply(group(fmt.Sprintf("g%d", i), "user-queue", 4, ""))
	}
	ended := map[string]bool{}
	for len(ended) < 3 {
		running := w.Whole(1, func(p *v1.Pod) opworld.Gang {
			if g := podGroup(p); !ended[g.Name] {
				return g
			}
			return opworld.Gang{}
		})
		if len(running) != 1 {
			w.T.Fatalf("running: %v", running)
		}
		w.Delete(workloads, running[0]) // Kueue ends the group; pods alone it would wait to see replaced
		ended[running[0]] = true
	}
}

// topology: Kueue's choice of nodes is followed, for Jobs and pod groups, and a rack that
// was required is kept.
func topology(w *opworld.World) {
	const required = `kueue.x-k8s.io/podset-required-topology: topology.kubernetes.io/rack`
	w.Apply(job("racked", "tas-queue", 3, required))
	w.Bound("batch.kubernetes.io/job-name", "racked", 3)
	w.Apply(group("tg", "tas-queue", 3, `, `+required))
	w.Bound(labelGroup, "tg", 3)
	racks := map[string]string{}
	for _, p := range w.Pods("", "") {
		if host := p.Spec.NodeSelector[v1.LabelHostname]; host != p.Spec.NodeName {
			w.T.Errorf("%s runs on %s; Kueue chose %q", p.Name, p.Spec.NodeName, host)
		}
		node, err := w.Client.CoreV1().Nodes().Get(context.Background(), p.Spec.NodeName, metav1.GetOptions{})
		if err != nil {
			w.T.Fatal(err)
		}
		owner := p.Labels[labelGroup] + p.Labels["batch.kubernetes.io/job-name"]
		if rack := node.Labels[labelRack]; racks[owner] == "" {
			racks[owner] = rack
		} else if racks[owner] != rack {
			w.T.Errorf("%s: pods in racks %s and %s", owner, racks[owner], rack)
		}
	}
	if racks["racked"] == racks["tg"] {
		w.T.Errorf("both in rack %s", racks["tg"])
	}
	w.Delete(jobs, "racked")
	w.Delete(workloads, "tg")
}

// TestWaitForPodsReady: a gang that was admitted and finds no room goes back to Kueue's
// queue, and starts when there is room.
func TestWaitForPodsReady(t *testing.T) {
	t.Parallel()
	w := opworld.Start(t, opworld.Options{
		Fleet:     "pools: [{name: n, count: 2, gpu: {model: A100-80GB, count: 8}}]",
		Operators: []opworld.Operator{{Name: "kueue", Config: frameworks + "\nwaitForPodsReady: {timeout: 8s, requeuingStrategy: {backoffBaseSeconds: 1, backoffMaxSeconds: 2}}"}},
	})
	w.Apply(queues)
	w.Apply(`{apiVersion: v1, kind: Pod, metadata: {name: blocker, labels: {app: blocker}}, spec: ` + podSpec + `}`)
	w.Bound("app", "blocker", 1)
	w.Apply(job("pair", "user-queue", 2, ""))
	const label = "batch.kubernetes.io/job-name"
	w.WaitsFor(label, "pair", 2, "needs 2 members, 1 can be placed")
	w.Eventually("Kueue takes its admission back", 90*time.Second, func() (bool, string) {
		list, err := w.Dynamic.Resource(workloads).Namespace("default").List(context.Background(), metav1.ListOptions{})
		if err != nil || len(list.Items) != 1 {
			return false, fmt.Sprint(err)
		}
		evicted := opworld.Condition(&list.Items[0], "Evicted")
		return strings.HasPrefix(evicted, "True PodsReadyTimeout"), evicted
	})
	deletePods(w, "app", "blocker")
	w.Bound(label, "pair", 2)
	w.Delete(jobs, "pair")
	gone(w)
}
