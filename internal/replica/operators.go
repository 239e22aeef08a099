package replica

import (
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	batchv1 "k8s.io/api/batch/v1"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	batch "volcano.sh/apis/pkg/apis/batch/v1alpha1"

	"github.com/tangram-dev/tangram/internal/dialect"
	"github.com/tangram-dev/tangram/internal/kube/controller/blueprint"
	"github.com/tangram-dev/tangram/internal/kube/controller/lifecycle"
)

// The pods that operators make, with the labels by which the scheduler knows that they
// belong together. Their own webhooks and defaults beyond that are not known here.

// part reads a part of an object as a type. Unknown fields are left to the operator.
func part(o *unstructured.Unstructured, out any, path ...string) *problem {
	value, ok, err := unstructured.NestedFieldNoCopy(o.Object, path...)
	field := strings.Join(path, ".")
	if err != nil || !ok {
		return wrong(field, "missing")
	}
	text, err := json.Marshal(value)
	if err != nil {
		return wrong(field, "%v", err)
	}
	if err := json.Unmarshal(text, out); err != nil {
		return wrong(field, "%v", place(err))
	}
	return nil
}

// jobSet: the pods of all Jobs that the set creates at first.
func (r *reader) jobSet(o *unstructured.Unstructured) *problem {
	if p := r.put(dialect.JobSets, o); p != nil {
		return p
	}
	var spec struct {
		ReplicatedJobs []struct {
			Name      string                  `json:"name"`
			Replicas  *int32                  `json:"replicas"`
			Template  batchv1.JobTemplateSpec `json:"template"`
			DependsOn []any                   `json:"dependsOn"`
		} `json:"replicatedJobs"`
		StartupPolicy struct {
			Order string `json:"startupPolicyOrder"`
		} `json:"startupPolicy"`
		Suspend bool `json:"suspend"`
	}
	if p := part(o, &spec, "spec"); p != nil {
		return p
	}
	if spec.Suspend {
		return wrong("spec.suspend", "is true: no pods are made")
	}
	for i, j := range spec.ReplicatedJobs {
		if len(j.DependsOn) > 0 || spec.StartupPolicy.Order == "InOrder" && i > 0 {
			r.assume("%s creates job %s when others are ready: the answer is without it", name(o), j.Name)
			continue
		}
		field := fmt.Sprintf("spec.replicatedJobs[%d]", i)
		if p := enough(replicasOf(j.Replicas), field+".replicas"); p != nil {
			return p
		}
		t := j.Template.Spec.Template.DeepCopy()
		for key, value := range o.GetAnnotations() { // JobSet hands its own words on
			if strings.Contains(key, "jobset.sigs.k8s.io/") {
				metav1.SetMetaDataAnnotation(&t.ObjectMeta, key, value)
			}
		}
		js := j.Template.Spec
		js.Template = *t
		if js.CompletionMode == nil {
			js.CompletionMode = new(batchv1.IndexedCompletion)
		}
		for n := range replicasOf(j.Replicas) {
			if p := r.stop(); p != nil { // jobs may have no pods
				return p
			}
			by := owner("batch/v1", "Job", fmt.Sprintf("%s-%s-%d", o.GetName(), j.Name, n), r.uid("job"))
			labels := map[string]string{
				"jobset.sigs.k8s.io/jobset-name": o.GetName(), "jobset.sigs.k8s.io/replicatedjob-name": j.Name, "jobset.sigs.k8s.io/job-index": strconv.Itoa(n),
				"jobset.sigs.k8s.io/replicatedjob-replicas": strconv.Itoa(replicasOf(j.Replicas)),
			}
			if p := r.jobPods(o, by, &js, labels, field+".template.spec"); p != nil {
				return p
			}
		}
	}
	return nil
}

// volcanoJob is what gpu-controller makes of a Volcano Job: its PodGroup and the pods of the
// tasks that depend on no others.
func (r *reader) volcanoJob(o *unstructured.Unstructured) *problem {
	job := &batch.Job{}
	if p := into(o, job); p != nil {
		return p
	}
	spec := lifecycle.SpecOf(job)
	released := lifecycle.Released(job, nil)
	group := blueprint.PodGroup(job, &spec, released)
	group.UID, group.CreationTimestamp = r.uid("podgroup"), r.now
	group.APIVersion, group.Kind = "scheduling.volcano.sh/v1beta1", "PodGroup"
	text, err := json.Marshal(group)
	if err != nil {
		return wrong("", "%v", err)
	}
	object, err := decodeObject(text)
	if err != nil {
		return wrong("", "%v", err)
	}
	if p := r.put(dialect.PodGroups, object); p != nil {
		return p
	}
	rest := *job
	rest.Spec.Tasks = nil // annotations and volumes of the job are every pod's
	if text, err = json.Marshal(&rest); err != nil {
		return wrong("", "%v", err)
	}
	for i := range spec.Tasks {
		t := &spec.Tasks[i]
		if !released[t.Name] {
			r.assume("%s creates task %s when others are up: the answer is without it", name(o), t.Name)
			continue
		}
		field := fmt.Sprintf("spec.tasks[%d]", i)
		p := r.make(podSet{n: int(t.Replicas), counted: field + ".replicas", template: t.Template, at: field + ".template", extra: len(text), pod: func(index int) *v1.Pod {
			return blueprint.Pod(job, &spec, lifecycle.Slot{Task: t.Name, Index: int32(index)}, nil)
		}})
		if p != nil {
			return p
		}
	}
	return nil
}

// rayCluster: the head and the workers.
func (r *reader) rayCluster(o *unstructured.Unstructured) *problem {
	if p := r.put(dialect.RayClusters, o); p != nil {
		return p
	}
	var spec struct {
		Head struct {
			Template *v1.PodTemplateSpec `json:"template"`
		} `json:"headGroupSpec"`
		Workers []struct {
			Name       string              `json:"groupName"`
			Replicas   *int32              `json:"replicas"`
			Min        *int32              `json:"minReplicas"`
			Max        *int32              `json:"maxReplicas"`
			NumOfHosts *int32              `json:"numOfHosts"`
			Suspend    bool                `json:"suspend"`
			Template   *v1.PodTemplateSpec `json:"template"`
		} `json:"workerGroupSpecs"`
	}
	if p := part(o, &spec, "spec"); p != nil {
		return p
	}
	if spec.Head.Template == nil {
		return wrong("spec.headGroupSpec.template", "missing: without a head nothing runs")
	}
	by := ownerOf(o)
	labels := func(group, kind string) map[string]string {
		return map[string]string{"ray.io/cluster": o.GetName(), "ray.io/group": group, "ray.io/node-type": kind, "ray.io/is-ray-node": "yes"}
	}
	p := r.make(podSet{n: 1, template: spec.Head.Template, at: "spec.headGroupSpec.template", pod: func(int) *v1.Pod {
		return made(o, by, o.GetName()+"-head", spec.Head.Template, labels("headgroup", "head"))
	}})
	if p != nil {
		return p
	}
	for i, g := range spec.Workers {
		field := fmt.Sprintf("spec.workerGroupSpecs[%d]", i)
		if g.Suspend {
			continue
		}
		n := min(valueOf(g.Replicas, 0), valueOf(g.Max, math.MaxInt32))
		n = max(n, valueOf(g.Min, 0), 0) * max(1, replicasOf(g.NumOfHosts))
		p := r.make(podSet{n: n, counted: field + ".replicas", template: g.Template, at: field + ".template", pod: func(k int) *v1.Pod {
			return made(o, by, fmt.Sprintf("%s-%s-worker-whatif%d", o.GetName(), g.Name, k), g.Template, labels(g.Name, "worker"))
		}})
		if p != nil {
			return p
		}
	}
	return nil
}

// rayOwner: a RayJob or RayService makes a RayCluster.
func (r *reader) rayOwner(o *unstructured.Unstructured, field string) *problem {
	spec, ok, err := unstructured.NestedMap(o.Object, "spec", field)
	if err != nil || !ok {
		return wrong("spec."+field, "missing")
	}
	if suspended, _, _ := unstructured.NestedBool(o.Object, "spec", "suspend"); suspended {
		return wrong("spec.suspend", "is true: no pods are made")
	}
	c := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "ray.io/v1", "kind": "RayCluster", "spec": spec}}
	c.SetNamespace(o.GetNamespace())
	c.SetName(o.GetName() + "-whatif")
	c.SetUID(r.uid("raycluster"))
	c.SetLabels(maps.Clone(o.GetLabels()))
	c.SetAnnotations(maps.Clone(o.GetAnnotations()))
	c.SetCreationTimestamp(r.now)
	if o.GetKind() == "RayJob" {
		r.assume("%s: the pod that submits the job asks for no GPU and is left out", name(o))
	}
	return r.rayCluster(c)
}

// leaderWorkerSet: groups of a leader and its workers.
func (r *reader) leaderWorkerSet(o *unstructured.Unstructured) *problem {
	if p := r.put(dialect.LeaderWorkerSets, o); p != nil {
		return p
	}
	var spec struct {
		Replicas      *int32 `json:"replicas"`
		StartupPolicy string `json:"startupPolicy"`
		Template      struct {
			Size   *int32              `json:"size"`
			Leader *v1.PodTemplateSpec `json:"leaderTemplate"`
			Worker *v1.PodTemplateSpec `json:"workerTemplate"`
		} `json:"leaderWorkerTemplate"`
	}
	if p := part(o, &spec, "spec"); p != nil {
		return p
	}
	if spec.Template.Worker == nil {
		return wrong("spec.leaderWorkerTemplate.workerTemplate", "missing")
	}
	leader, field := spec.Template.Leader, "spec.leaderWorkerTemplate.leaderTemplate.spec"
	if leader == nil {
		leader, field = spec.Template.Worker, "spec.leaderWorkerTemplate.workerTemplate.spec"
	}
	groups, size := replicasOf(spec.Replicas), max(1, replicasOf(spec.Template.Size))
	if p := enough(groups*size, "spec.replicas"); p != nil {
		return p
	}
	_, exclusive := o.GetAnnotations()["leaderworkerset.sigs.k8s.io/exclusive-topology"]
	leadersFirst := exclusive || spec.StartupPolicy == "LeaderReady"
	if leadersFirst && size > 1 {
		r.assume("%s creates workers when their leader has its place: the answer is about the leaders", name(o))
	}
	workers := groups * (size - 1)
	if leadersFirst {
		workers = 0
	}
	if p := r.reserve(groups, leader, 0, strings.TrimSuffix(field, ".spec")); p != nil {
		return p
	}
	if p := r.reserve(workers, spec.Template.Worker, 0, "spec.leaderWorkerTemplate.workerTemplate"); p != nil {
		return p
	}
	for g := range groups {
		for i := range size {
			t, at, pod := spec.Template.Worker, "spec.leaderWorkerTemplate.workerTemplate.spec", fmt.Sprintf("%s-%d-%d", o.GetName(), g, i)
			if i == 0 {
				t, at, pod = leader, field, fmt.Sprintf("%s-%d", o.GetName(), g)
			} else if leadersFirst {
				break
			}
			labels := map[string]string{
				"leaderworkerset.sigs.k8s.io/name": o.GetName(), "leaderworkerset.sigs.k8s.io/group-index": strconv.Itoa(g), "leaderworkerset.sigs.k8s.io/worker-index": strconv.Itoa(i),
			}
			p := made(o, owner("apps/v1", "StatefulSet", o.GetName(), o.GetUID()), pod, t, labels)
			metav1.SetMetaDataAnnotation(&p.ObjectMeta, "leaderworkerset.sigs.k8s.io/size", strconv.Itoa(size))
			if problem := r.add(p, at); problem != nil {
				return problem
			}
		}
	}
	return nil
}

// kubeflow: a job of training-operator creates all its pods at once.
func (r *reader) kubeflow(o *unstructured.Unstructured) *problem {
	for _, k := range dialect.Owners() {
		if k.Kind != o.GetKind() || k.Resource.Group != "kubeflow.org" {
			continue
		}
		if p := r.put(k.Resource, o); p != nil {
			return p
		}
		field := strings.ToLower(strings.TrimSuffix(o.GetKind(), "Job")) + "ReplicaSpecs"
		if o.GetKind() == "XGBoostJob" {
			field = "xgbReplicaSpecs"
		}
		var specs map[string]struct {
			Replicas *int32              `json:"replicas"`
			Template *v1.PodTemplateSpec `json:"template"`
		}
		if p := part(o, &specs, "spec", field); p != nil {
			return p
		}
		if o.GetKind() == "MPIJob" {
			r.assume("%s creates its launcher when the workers run; it was taken as created with them", name(o))
		}
		for _, role := range slices.Sorted(maps.Keys(specs)) {
			s, at := specs[role], "spec."+field+"."+role
			kind := strings.ToLower(role)
			p := r.make(podSet{n: replicasOf(s.Replicas), counted: at + ".replicas", template: s.Template, at: at + ".template", pod: func(i int) *v1.Pod {
				return made(o, ownerOf(o), fmt.Sprintf("%s-%s-%d", o.GetName(), kind, i), s.Template, map[string]string{
					"training.kubeflow.org/job-name": o.GetName(), "training.kubeflow.org/replica-type": kind, "training.kubeflow.org/replica-index": strconv.Itoa(i)})
			}})
			if p != nil {
				return p
			}
		}
		return nil
	}
	return wrong("kind", "which pods a %s.kubeflow.org makes is not known here; ask about the pods it makes", o.GetKind())
}
