package workload

import (
	"fmt"
	"testing"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"
	fcache "k8s.io/client-go/tools/cache/testing"
	"sigs.k8s.io/yaml"

	"github.com/tangram-dev/tangram/api/names"
	"github.com/tangram-dev/tangram/core/engine"
	"github.com/tangram-dev/tangram/internal/dialect"
	"github.com/tangram-dev/tangram/internal/kube/watch"
)

// serve makes objects of a kind known, as its informer would.
func (w *world) serve(kind schema.GroupVersionResource, manifests ...string) {
	w.t.Helper()
	source := fcache.NewFakeControllerSource()
	for _, text := range manifests {
		data, err := yaml.YAMLToJSON([]byte(text))
		o := &unstructured.Unstructured{}
		if err == nil {
			err = o.UnmarshalJSON(data) // numbers as the API's client reads them
		}
		if err != nil {
			w.t.Fatal(err)
		}
		source.Add(o)
	}
	o, err := watch.New[*unstructured.Unstructured](source, &unstructured.Unstructured{}, "none", func(string) {}, func() {})
	if err != nil {
		w.t.Fatal(err)
	}
	go o.Run(w.t.Context())
	if !cache.WaitForCacheSync(w.t.Context().Done(), o.Listed) {
		w.t.Fatal("not listed")
	}
	w.objects[kind] = o
}

func labelled(p *v1.Pod, key, value string) *v1.Pod {
	p.Labels[key] = value
	return p
}

// TestBoundedGroup: a PodGroup that Trainer made of all pods of a JobSet waits for what
// JobSet can create now; one that somebody made waits for what it says.
func TestBoundedGroup(t *testing.T) {
	const set = `{apiVersion: jobset.x-k8s.io/v1alpha2, kind: JobSet, metadata: {name: js, namespace: default, uid: s, ownerReferences: [{kind: TrainJob, name: t, uid: t, controller: true}]}, spec: {replicatedJobs: [
  {name: data, template: {spec: {parallelism: 1}}},
  {name: node, dependsOn: [{name: data, status: Complete}], template: {spec: {parallelism: 3, completions: 3}}}]}}`
	group := func(owner string, least int) string {
		return fmt.Sprintf(`{apiVersion: scheduling.volcano.sh/v1beta1, kind: PodGroup, metadata: {name: g, namespace: default, ownerReferences: [%s]}, spec: {minMember: %d}}`, owner, least)
	}
	const trainJob, jobSet = `{kind: TrainJob, name: t, uid: t, controller: true}`, `{kind: JobSet, name: js, uid: s, controller: true}`
	for name, tt := range map[string]struct {
		group string
		task  string
		want  int
	}{
		"made for it, first job":         {group(trainJob, 4), "data", 1},
		"made for it, second job":        {group(trainJob, 4), "node", 4},
		"made for the set":               {group(jobSet, 4), "data", 1},
		"made for it, and asks for less": {group(jobSet, 2), "node", 2},
		"made by somebody":               {group("", 4), "data", 4},
		"made for something else":        {group(`{kind: TrainJob, name: x, uid: x, controller: true}`, 4), "data", 4},
		"not controlled":                 {group(`{kind: TrainJob, name: t, uid: t}`, 4), "data", 4},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.serve(dialect.JobSets, set)
			w.serve(dialect.PodGroups, tt.group)
			p := w.pod("p", "", 0, 1)
			p.Annotations[names.AnnotationKubeGroup] = "g"
			labelled(p, "jobset.sigs.k8s.io/jobset-name", "js")
			labelled(p, "jobset.sigs.k8s.io/replicatedjob-name", tt.task)
			w.set(p)
			if g := w.describe("podgroup/default/g"); g.Min != tt.want {
				t.Errorf("waits for %d members, want %d", g.Min, tt.want)
			}
		})
	}
}

// TestStatedByController: what a job of training-operator states counts for its gang, also
// of a single pod; what is wrong with it is said on the pods.
func TestStatedByController(t *testing.T) {
	w := newWorld(t)
	w.serve(schema.GroupVersionResource{Group: "kubeflow.org", Version: "v1", Resource: "pytorchjobs"},
		`{apiVersion: kubeflow.org/v1, kind: PyTorchJob, metadata: {name: two, namespace: default}, spec: {runPolicy: {schedulingPolicy: {queue: q, priorityClass: high}}, pytorchReplicaSpecs: {Master: {}, Worker: {}}}}`,
		`{apiVersion: kubeflow.org/v1, kind: PyTorchJob, metadata: {name: one, namespace: default}, spec: {runPolicy: {schedulingPolicy: {queue: q, priorityClass: high}}, pytorchReplicaSpecs: {Master: {}}}}`,
		`{apiVersion: kubeflow.org/v1, kind: PyTorchJob, metadata: {name: bad, namespace: default}, spec: {runPolicy: {schedulingPolicy: {minAvailable: 3}}, pytorchReplicaSpecs: {Master: {}}}}`)
	w.serve(dialect.Priorities, `{apiVersion: scheduling.k8s.io/v1, kind: PriorityClass, metadata: {name: high}, value: 7}`)
	yes := true
	for _, job := range []string{"two", "one", "bad"} {
		p := w.pod(job+"-0", "", 0, 1)
		p.OwnerReferences = []metav1.OwnerReference{{APIVersion: "kubeflow.org/v1", Kind: "PyTorchJob", Name: job, UID: types.UID(job), Controller: &yes}}
		w.set(p)
	}
	for job, min := range map[engine.ID]int{"two": 2, "one": 1} {
		if g := w.describe("owner/default/" + job); g.Min != min || g.Queue != "q" || g.Priority != 7 {
			t.Errorf("%s: needs %d members, in queue %q, of priority %d", job, g.Min, g.Queue, g.Priority)
		}
	}
	const want = "PyTorchJob default/bad: spec.runPolicy.schedulingPolicy.minAvailable: 3 is not from 1 to 1, the number of replicas"
	if g := w.describe("pod/uid-bad-0"); g.Invalid != want {
		t.Errorf("got %q", g.Invalid)
	}
}

// TestJobOver: the pods of a replicated job that is over count neither as members of a
// JobSet's gang nor as some that need not come again; nor do pods that are being deleted.
func TestJobOver(t *testing.T) {
	const set = `{apiVersion: jobset.x-k8s.io/v1alpha2, kind: JobSet, metadata: {name: js, namespace: default, uid: s}, spec: {replicatedJobs: [
  {name: data, template: {spec: {parallelism: 2, completions: 2}}},
  {name: node, dependsOn: [{name: data, status: Complete}], template: {spec: {parallelism: 3, completions: 3}}}]}%s}`
	for name, tt := range map[string]struct {
		status        string
		task          string
		going         bool
		done, waiting int
		want          int
	}{
		"over":                          {`, status: {replicatedJobsStatus: [{name: data, succeeded: 1}]}`, "data", false, 2, 1, 3},
		"not over as far as is known":   {"", "data", false, 2, 1, 3},
		"one of the last has succeeded": {`, status: {replicatedJobsStatus: [{name: data, succeeded: 1}]}`, "node", false, 1, 2, 2},
		"of an earlier run":             {`, status: {replicatedJobsStatus: [{name: data, succeeded: 1}]}`, "node", true, 1, 2, 3},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.serve(dialect.JobSets, fmt.Sprintf(set, tt.status))
			of := func(name, task string) *v1.Pod {
				p := w.pod(name, "", 0, 1)
				labelled(p, "jobset.sigs.k8s.io/jobset-name", "js")
				return labelled(p, "jobset.sigs.k8s.io/replicatedjob-name", task)
			}
			for i := range tt.waiting {
				w.set(of(fmt.Sprint("node-", i), "node"))
			}
			var done []v1.Pod
			for i := range tt.done {
				p := of(fmt.Sprint("done-", i), tt.task)
				p.Status.Phase = v1.PodSucceeded
				if tt.going {
					p.DeletionTimestamp = &metav1.Time{Time: w.now}
				}
				done = append(done, *p)
			}
			l, _ := w.Unsure("jobset/default/js")
			l.Gang = "jobset/default/js"
			w.Succeeded(l, done, true)
			if g := w.describe("jobset/default/js"); g.Min != tt.want {
				t.Errorf("waits for %d members, want %d", g.Min, tt.want)
			}
		})
	}
}
