package kueue

import (
	"fmt"
	"strconv"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/tangram-dev/tangram/test/cluster"
)

var (
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

// defaultFlavor is that of queues without a topology.
const defaultFlavor = "{apiVersion: kueue.x-k8s.io/v1beta2, kind: ResourceFlavor, metadata: {name: default}}"

// quota is twice what the nodes of TestKueue have: what Kueue admits need not fit.
var quota = map[string]int{"nvidia.com/gpu": 96}

// addQueue creates the flavor and a queue that user-queue leads to.
func addQueue(w *cluster.World) {
	w.T.Helper()
	w.Apply(defaultFlavor)
	w.Apply(cluster.KueueQueue("research", "user-queue", "default", quota))
}

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
func podGroup(p *v1.Pod) (string, int) {
	n, _ := strconv.Atoi(p.Annotations[labelTotal])
	return p.Labels[labelGroup], n
}

// TestKueue: suspended Jobs, JobSets and RayClusters, pod groups, and topology-aware
// scheduling, on 6 nodes in 2 racks.
func TestKueue(t *testing.T) {
	t.Parallel()
	w := cluster.ForTest(t, cluster.Whole("pools: [{name: n, count: 6, gpu: {model: A100-80GB, count: 8}, rack: {size: 3}}]").
		With(cluster.Operator{Name: "kuberay"}, cluster.Operator{Name: "jobset"}, cluster.Operator{Name: "kueue", Config: frameworks}))
	t.Run("guide", func(t *testing.T) { guide(w.In(t)) })
	addQueue(w)
	w.Apply(cluster.KueueRacks)
	w.Apply(cluster.KueueQueue("tas", "tas-queue", "racks", quota))
	for _, tt := range []struct {
		name string
		run  func(*cluster.World)
	}{
		{"jobs", suspendedJobs}, {"jobsets", suspendedJobSets}, {"rayclusters", suspendedRayClusters},
		{"pod groups", podGroups}, {"topology", topology},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w := w.In(t)
			tt.run(w)
			w.Gone() // Kueue's finalizer must go when a pod has ended
		})
	}
}

// guide: its manifests run as written.
func guide(w *cluster.World) {
	for _, manifest := range w.Guide("kueue.md") {
		w.Apply(manifest)
	}
	w.BoundAll("batch.kubernetes.io/job-name=train", 4)
	w.BoundAll(labelGroup+"=experiment", 2)
	w.Remove(cluster.Jobs, "train")
	w.Remove(workloads, "experiment")
	w.Gone()
}

// contend: what Kueue admits beyond what fits waits as a whole. manifest is an object of
// four pods that have a label with its name.
func contend(w *cluster.World, kind schema.GroupVersionResource, label string, manifest func(name string) string) {
	w.T.Helper()
	w.Apply(manifest("first"))
	w.BoundAll(label+"=first", 4)
	w.Apply(manifest("second"))
	w.WaitAll(label+"=second", 4, "needs 4 members, 2 can be placed")
	w.Remove(kind, "first")
	w.BoundAll(label+"=second", 4)
	w.Remove(kind, "second")
}

func suspendedJobs(w *cluster.World) {
	contend(w, cluster.Jobs, "batch.kubernetes.io/job-name", func(name string) string { return job(name, "user-queue", 4, "") })
}

func suspendedJobSets(w *cluster.World) {
	contend(w, jobSets, "jobset.sigs.k8s.io/jobset-name", func(name string) string {
		return fmt.Sprintf(`{apiVersion: jobset.x-k8s.io/v1alpha2, kind: JobSet, metadata: {name: %s, labels: {kueue.x-k8s.io/queue-name: user-queue}},
			spec: {suspend: true, replicatedJobs: [
				{name: leader, replicas: 1, template: {spec: {parallelism: 1, completions: 1, template: {spec: %s}}}},
				{name: workers, replicas: 1, template: {spec: {parallelism: 3, completions: 3, template: {spec: %s}}}}]}}`, name, podSpec, podSpec)
	})
}

func suspendedRayClusters(w *cluster.World) {
	const spec = `{schedulerName: gpu-scheduler, containers: [{name: ray, image: ray, resources: {limits: {nvidia.com/gpu: 8}}}]}`
	contend(w, rayClusters, "ray.io/cluster", func(name string) string {
		return fmt.Sprintf(`{apiVersion: ray.io/v1, kind: RayCluster, metadata: {name: %s, labels: {kueue.x-k8s.io/queue-name: user-queue}},
			spec: {suspend: true, rayVersion: "2.46.0",
				headGroupSpec: {rayStartParams: {}, template: {spec: %s}},
				workerGroupSpecs: [{groupName: w, replicas: 3, minReplicas: 3, maxReplicas: 3, rayStartParams: {}, template: {spec: %s}}]}}`,
			name, spec, spec)
	})
}

// podGroups: twice as many as there are nodes, of which Kueue admits all.
func podGroups(w *cluster.World) {
	for i := range 3 {
		w.Apply(group(fmt.Sprintf("g%d", i), "user-queue", 4, ""))
	}
	ended := map[string]bool{}
	for len(ended) < 3 {
		running := w.WholeGangs(1, func(p *v1.Pod) (string, int) {
			if gang, size := podGroup(p); !ended[gang] {
				return gang, size
			}
			return "", 0
		})
		if len(running) != 1 {
			w.T.Fatalf("running: %v", running)
		}
		w.Remove(workloads, running[0]) // Kueue ends the group; pods alone it would wait to see replaced
		ended[running[0]] = true
	}
}

// topology: Kueue's choice of nodes is followed, for Jobs and pod groups, and a rack that
// was required is kept.
func topology(w *cluster.World) {
	const required = `kueue.x-k8s.io/podset-required-topology: topology.kubernetes.io/rack`
	w.Apply(job("racked", "tas-queue", 3, required))
	w.BoundAll("batch.kubernetes.io/job-name=racked", 3)
	w.Apply(group("tg", "tas-queue", 3, `, `+required))
	w.BoundAll(labelGroup+"=tg", 3)
	racks := map[string]string{}
	for _, p := range w.Pods("") {
		if host := p.Spec.NodeSelector[v1.LabelHostname]; host != p.Spec.NodeName {
			w.T.Errorf("%s runs on %s; Kueue chose %q", p.Name, p.Spec.NodeName, host)
		}
		node := cluster.Read[v1.Node](w, cluster.Nodes, p.Spec.NodeName)
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
	w.Remove(cluster.Jobs, "racked")
	w.Remove(workloads, "tg")
}

// TestWaitForPodsReady: a gang that was admitted and finds no room goes back to Kueue's
// queue, and starts when there is room.
func TestWaitForPodsReady(t *testing.T) {
	t.Parallel()
	w := cluster.ForTest(t, cluster.Whole("pools: [{name: n, count: 2, gpu: {model: A100-80GB, count: 8}}]").
		With(cluster.Operator{Name: "kueue", Config: frameworks + "\nwaitForPodsReady: {timeout: 8s, requeuingStrategy: {backoffBaseSeconds: 1, backoffMaxSeconds: 2}}"}))
	addQueue(w)
	w.Apply(`{apiVersion: v1, kind: Pod, metadata: {name: blocker, labels: {app: blocker}}, spec: ` + podSpec + `}`)
	w.BoundAll("app=blocker", 1)
	w.Apply(job("pair", "user-queue", 2, ""))
	const label = "batch.kubernetes.io/job-name"
	w.WaitAll(label+"=pair", 2, "needs 2 members, 1 can be placed")
	w.Eventually("Kueue takes its admission back", func() (bool, string) {
		list := w.List(workloads)
		if len(list) != 1 {
			return false, fmt.Sprint(len(list), " workloads")
		}
		evicted := cluster.Condition(&list[0], "Evicted")
		return strings.HasPrefix(evicted, "True PodsReadyTimeout"), evicted
	})
	w.Delete("blocker")
	w.BoundAll(label+"=pair", 2)
	w.Remove(cluster.Jobs, "pair")
	w.Gone()
}
