package replica

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/tangram-dev/tangram/internal/dialect"
	kubeengine "github.com/tangram-dev/tangram/internal/kube/engine"
)

// podless are kinds that make no pods and that scheduling does not read.
var podless = []string{
	"Namespace", "ConfigMap", "Secret", "Service", "ServiceAccount", "PersistentVolumeClaim", "PersistentVolume", "StorageClass", "Ingress", "NetworkPolicy",
	"Role", "RoleBinding", "ClusterRole", "ClusterRoleBinding", "ResourceQuota", "LimitRange", "PodDisruptionBudget", "HorizontalPodAutoscaler", "ServiceMonitor", "PodMonitor",
}

// expand makes the pods of an object, as its controller would.
func (r *reader) expand(o *unstructured.Unstructured) *problem {
	gk := schema.FromAPIVersionAndKind(o.GetAPIVersion(), o.GetKind()).GroupKind()
	switch gk.String() {
	case "Pod":
		p := &v1.Pod{}
		if problem := into(o, p); problem != nil {
			return problem
		}
		if problem := r.reserve(1, &v1.PodTemplateSpec{ObjectMeta: p.ObjectMeta, Spec: p.Spec}, 0, ""); problem != nil {
			problem.field = strings.TrimPrefix(problem.field, ".")
			return problem
		}
		return r.add(p, "spec")
	case "Job.batch":
		return r.job(o)
	case "Deployment.apps":
		d := &appsv1.Deployment{}
		if problem := into(o, d); problem != nil {
			return problem
		}
		set := owner("apps/v1", "ReplicaSet", d.Name+"-whatif", r.uid("replicaset"))
		return r.replicas(o, set, replicasOf(d.Spec.Replicas), &d.Spec.Template, map[string]string{"pod-template-hash": "whatif"})
	case "ReplicaSet.apps":
		d := &appsv1.ReplicaSet{}
		if problem := into(o, d); problem != nil {
			return problem
		}
		return r.replicas(o, ownerOf(o), replicasOf(d.Spec.Replicas), &d.Spec.Template, nil)
	case "StatefulSet.apps":
		return r.statefulSet(o)
	case "JobSet.jobset.x-k8s.io":
		return r.jobSet(o)
	case "Job.batch.volcano.sh":
		return r.volcanoJob(o)
	case "RayCluster.ray.io":
		return r.rayCluster(o)
	case "RayJob.ray.io":
		return r.rayOwner(o, "rayClusterSpec")
	case "RayService.ray.io":
		return r.rayOwner(o, "rayClusterConfig")
	case "LeaderWorkerSet.leaderworkerset.x-k8s.io":
		return r.leaderWorkerSet(o)
	}
	if o.GetAPIVersion() == "kubeflow.org/v1" {
		return r.kubeflow(o)
	}
	return r.describes(o, gk)
}

// describes takes objects that say something about gangs or queues, and refuses kinds whose
// pods are not known.
func (r *reader) describes(o *unstructured.Unstructured, gk schema.GroupKind) *problem {
	for _, k := range dialect.Owners() {
		if k.Kind == gk.Kind && k.Resource.Group == gk.Group && strings.HasPrefix(gk.Kind, "Pod") {
			return r.put(k.Resource, o)
		}
	}
	switch {
	case gk.Kind == "Queue" && (gk.Group == dialect.Queues.Group || gk.Group == dialect.KAIQueues.Group) && !r.queues:
		// The answer to a queue that replaces another, or is beside or below it, tells of its use.
		return wrong("kind", "you may not list queues, so a manifest of yours may hold none")
	case gk == schema.GroupKind{Group: dialect.Priorities.Group, Kind: "PriorityClass"}:
		return r.put(dialect.Priorities, o)
	case gk == schema.GroupKind{Group: dialect.Queues.Group, Kind: "Queue"}:
		return r.put(dialect.Queues, o)
	case gk == schema.GroupKind{Group: dialect.KAIQueues.Group, Kind: "Queue"}:
		return r.put(dialect.KAIQueues, o)
	case slices.Contains(podless, gk.Kind):
		return nil
	}
	return wrong("kind", "which pods a %s makes is not known here; ask about the pods it makes", gk.String())
}

// put adds an object that scheduling reads.
func (r *reader) put(kind schema.GroupVersionResource, o *unstructured.Unstructured) *problem {
	if !r.replica.Serves(kind) {
		return wrong("kind", "the cluster has no %s.%s", kind.Resource, kind.Group)
	}
	if err := r.replica.engine.Objects()[kind].Put(o); err != nil {
		return wrong("", "%v", err)
	}
	r.replica.engine.Push(kubeengine.ObjectEvent(kind, keyOf(o)))
	return nil
}

// owner refers to a controller.
func owner(apiVersion, kind, name string, uid types.UID) metav1.OwnerReference {
	return metav1.OwnerReference{APIVersion: apiVersion, Kind: kind, Name: name, UID: uid, Controller: new(true), BlockOwnerDeletion: new(true)}
}

func ownerOf(o *unstructured.Unstructured) metav1.OwnerReference {
	return owner(o.GetAPIVersion(), o.GetKind(), o.GetName(), o.GetUID())
}

// made is a pod of a template.
func made(o *unstructured.Unstructured, by metav1.OwnerReference, name string, t *v1.PodTemplateSpec, labels map[string]string) *v1.Pod {
	p := &v1.Pod{Spec: *t.Spec.DeepCopy()}
	p.Name, p.Namespace, p.Annotations, p.OwnerReferences = name, o.GetNamespace(), maps.Clone(t.Annotations), []metav1.OwnerReference{by}
	p.Labels = map[string]string{}
	maps.Copy(p.Labels, t.Labels)
	maps.Copy(p.Labels, labels)
	return p
}

// replicasOf is a number of replicas, 1 when it is not set.
func replicasOf(n *int32) int { return valueOf(n, 1) }

func valueOf(n *int32, unset int) int {
	if n == nil {
		return unset
	}
	return int(*n)
}

// enough says that a number of pods cannot be, or is too large to be made.
func enough(n int, field string) *problem {
	if n < 0 {
		return wrong(field, "%d is negative", n)
	}
	if n > MaxPods {
		return wrong(field, "%d: a manifest may make %d pods at most", n, MaxPods)
	}
	return nil
}

// podSet is pods of one template.
type podSet struct {
	// n is how many there are, as the field counted says.
	n       int
	counted string
	// template lies at the field at; extra is what is added to each pod of it, in bytes.
	template *v1.PodTemplateSpec
	at       string
	extra    int
	pod      func(i int) *v1.Pod
}

// make makes the pods of a set.
func (r *reader) make(s podSet) *problem {
	if s.template == nil {
		return wrong(s.at, "missing")
	}
	if p := enough(s.n, s.counted); p != nil {
		return p
	}
	if p := r.reserve(s.n, s.template, s.extra, s.at); p != nil {
		return p
	}
	for i := range s.n {
		if p := r.add(s.pod(i), s.at+".spec"); p != nil {
			return p
		}
	}
	return nil
}

func (r *reader) replicas(o *unstructured.Unstructured, by metav1.OwnerReference, n int, t *v1.PodTemplateSpec, labels map[string]string) *problem {
	return r.make(podSet{n: n, counted: "spec.replicas", template: t, at: "spec.template", pod: func(i int) *v1.Pod {
		return made(o, by, fmt.Sprintf("%s-whatif%d", by.Name, i), t, labels)
	}})
}

func (r *reader) statefulSet(o *unstructured.Unstructured) *problem {
	s := &appsv1.StatefulSet{}
	if p := into(o, s); p != nil {
		return p
	}
	if r.replica.Serves(dialect.StatefulSets) {
		if p := r.put(dialect.StatefulSets, o); p != nil {
			return p
		}
	}
	n := replicasOf(s.Spec.Replicas)
	if p := enough(n, "spec.replicas"); p != nil {
		return p
	}
	if s.Spec.PodManagementPolicy != appsv1.ParallelPodManagement && n > 1 {
		r.assume("%s creates its pods one after the other, each when the one before is ready: the answer is about the first", name(o))
		n = 1
	}
	return r.make(podSet{n: n, counted: "spec.replicas", template: &s.Spec.Template, at: "spec.template", pod: func(i int) *v1.Pod {
		pod := fmt.Sprintf("%s-%d", o.GetName(), i)
		labels := map[string]string{"statefulset.kubernetes.io/pod-name": pod, "apps.kubernetes.io/pod-index": strconv.Itoa(i)}
		return made(o, ownerOf(o), pod, &s.Spec.Template, labels)
	}})
}

func (r *reader) job(o *unstructured.Unstructured) *problem {
	j := &batchv1.Job{}
	if p := into(o, j); p != nil {
		return p
	}
	if j.Spec.Suspend != nil && *j.Spec.Suspend {
		return wrong("spec.suspend", "is true: no pods are made")
	}
	if r.replica.Serves(dialect.Jobs) {
		if p := r.put(dialect.Jobs, o); p != nil {
			return p
		}
	}
	return r.jobPods(o, ownerOf(o), &j.Spec, nil, "spec")
}

// jobPods are the pods that a Job runs at a time.
func (r *reader) jobPods(o *unstructured.Unstructured, by metav1.OwnerReference, s *batchv1.JobSpec, labels map[string]string, field string) *problem {
	n := replicasOf(s.Parallelism)
	if c := s.Completions; c != nil {
		if *c < 0 {
			return wrong(field+".completions", "%d is negative", *c)
		}
		if int(*c) > n && n > 0 {
			r.assume("%s runs %d pods at a time: the answer is about the first", name(o), n)
		}
		n = min(n, int(*c))
	}
	indexed := s.CompletionMode != nil && *s.CompletionMode == batchv1.IndexedCompletion
	return r.make(podSet{n: n, counted: field + ".parallelism", template: &s.Template, at: field + ".template", pod: func(i int) *v1.Pod {
		p := made(o, by, fmt.Sprintf("%s-%d-whatif", by.Name, i), &s.Template, map[string]string{
			"job-name": by.Name, "batch.kubernetes.io/job-name": by.Name, "controller-uid": string(by.UID), "batch.kubernetes.io/controller-uid": string(by.UID)})
		maps.Copy(p.Labels, labels)
		if indexed {
			p.Labels[batchv1.JobCompletionIndexAnnotation] = strconv.Itoa(i)
			metav1.SetMetaDataAnnotation(&p.ObjectMeta, batchv1.JobCompletionIndexAnnotation, strconv.Itoa(i))
		}
		return p
	}})
}
