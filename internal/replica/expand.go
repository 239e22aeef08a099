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

	"github.com/tangram-dev/tangram/internal/dialect"
)

// podless are kinds that make no pods and that scheduling does not read.
var podless = []string{
	"Namespace", "ConfigMap", "Secret", "Service", "ServiceAccount", "PersistentVolumeClaim", "PersistentVolume", "StorageClass", "Ingress", "NetworkPolicy",
	"Role", "RoleBinding", "ClusterRole", "ClusterRoleBinding", "ResourceQuota", "LimitRange", "PodDisruptionBudget", "HorizontalPodAutoscaler", "ServiceMonitor", "PodMonitor",
}

// expand makes the pods of an object, as its controller would.
func (r *reader) expand(o *unstructured.Unstructured) *problem {
	gk := schema.FromAPIVersionAndKind(o.GetAPIVersion(), o.GetKind()).GroupKind()
	switch gk {
	case schema.GroupKind{Kind: "Pod"}:
		p := &v1.Pod{}
		if problem := into(o, p); problem != nil {
			return problem
		}
		if problem := r.reserve(1, &v1.PodTemplateSpec{ObjectMeta: p.ObjectMeta, Spec: p.Spec}, 0, ""); problem != nil {
			problem.field = strings.TrimPrefix(problem.field, ".")
			return problem
		}
		return r.add(p, "spec")
	case schema.GroupKind{Group: "batch", Kind: "Job"}:
		return r.job(o)
	case schema.GroupKind{Group: "apps", Kind: "Deployment"}:
		d := &appsv1.Deployment{}
		if problem := into(o, d); problem != nil {
			return problem
		}
		set := owner{"apps/v1", "ReplicaSet", d.Name + "-whatif", r.uid("replicaset")}
		return r.replicas(o, set, replicasOf(d.Spec.Replicas), &d.Spec.Template, map[string]string{"pod-template-hash": "whatif"})
	case schema.GroupKind{Group: "apps", Kind: "ReplicaSet"}:
		d := &appsv1.ReplicaSet{}
		if problem := into(o, d); problem != nil {
			return problem
		}
		return r.replicas(o, ownerOf(o), replicasOf(d.Spec.Replicas), &d.Spec.Template, nil)
	case schema.GroupKind{Group: "apps", Kind: "StatefulSet"}:
		return r.statefulSet(o)
	case schema.GroupKind{Group: "jobset.x-k8s.io", Kind: "JobSet"}:
		return r.jobSet(o)
	case schema.GroupKind{Group: "batch.volcano.sh", Kind: "Job"}:
		return r.volcanoJob(o)
	case schema.GroupKind{Group: "ray.io", Kind: "RayCluster"}:
		return r.rayCluster(o)
	case schema.GroupKind{Group: "ray.io", Kind: "RayJob"}:
		return r.rayOwner(o, "rayClusterSpec")
	case schema.GroupKind{Group: "ray.io", Kind: "RayService"}:
		return r.rayOwner(o, "rayClusterConfig")
	case schema.GroupKind{Group: "leaderworkerset.x-k8s.io", Kind: "LeaderWorkerSet"}:
		return r.leaderWorkerSet(o)
	}
	if gk.Group == "kubeflow.org" && o.GetAPIVersion() == "kubeflow.org/v1" {
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
	// Who replaces a queue, or adds one beside or below it, can read its use by the answer.
	if gk.Kind == "Queue" && (gk.Group == dialect.Queues.Group || gk.Group == dialect.KAIQueues.Group) && !r.queues {
		return wrong("kind", "you may not list queues, so a manifest of yours may hold none")
	}
	switch {
	case gk == schema.GroupKind{Group: "scheduling.k8s.io", Kind: "PriorityClass"}:
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
	if err := r.replica.SetObject(kind, o); err != nil {
		return wrong("", "%v", err)
	}
	return nil
}

// owner is a controller.
type owner struct {
	apiVersion, kind, name string
	uid                    metaUID
}

func ownerOf(o *unstructured.Unstructured) owner {
	return owner{o.GetAPIVersion(), o.GetKind(), o.GetName(), o.GetUID()}
}

func (w owner) reference() metav1.OwnerReference {
	return metav1.OwnerReference{APIVersion: w.apiVersion, Kind: w.kind, Name: w.name, UID: w.uid, Controller: new(true), BlockOwnerDeletion: new(true)}
}

// made is a pod of a template.
func made(o *unstructured.Unstructured, by owner, name string, t *v1.PodTemplateSpec, labels map[string]string) *v1.Pod {
	p := &v1.Pod{Spec: *t.Spec.DeepCopy()}
	p.Name, p.Namespace, p.Annotations, p.OwnerReferences = name, o.GetNamespace(), maps.Clone(t.Annotations), []metav1.OwnerReference{by.reference()}
	p.Labels = map[string]string{}
	maps.Copy(p.Labels, t.Labels)
	maps.Copy(p.Labels, labels)
	return p
}

func replicasOf(n *int32) int {
	if n == nil {
		return 1
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

func (r *reader) replicas(o *unstructured.Unstructured, by owner, n int, t *v1.PodTemplateSpec, labels map[string]string) *problem {
	if p := enough(n, "spec.replicas"); p != nil {
		return p
	}
	if p := r.reserve(n, t, 0, "spec.template"); p != nil {
		return p
	}
	for i := range n {
		if p := r.add(made(o, by, fmt.Sprintf("%s-whatif%d", by.name, i), t, labels), "spec.template.spec"); p != nil {
			return p
		}
	}
	return nil
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
	if p := r.reserve(n, &s.Spec.Template, 0, "spec.template"); p != nil {
		return p
	}
	for i := range n {
		pod := fmt.Sprintf("%s-%d", o.GetName(), i)
		labels := map[string]string{"statefulset.kubernetes.io/pod-name": pod, "apps.kubernetes.io/pod-index": strconv.Itoa(i)}
		if p := r.add(made(o, ownerOf(o), pod, &s.Spec.Template, labels), "spec.template.spec"); p != nil {
			return p
		}
	}
	return nil
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
func (r *reader) jobPods(o *unstructured.Unstructured, by owner, s *batchv1.JobSpec, labels map[string]string, field string) *problem {
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
	if p := enough(n, field+".parallelism"); p != nil {
		return p
	}
	if p := r.reserve(n, &s.Template, 0, field+".template"); p != nil {
		return p
	}
	indexed := s.CompletionMode != nil && *s.CompletionMode == batchv1.IndexedCompletion
	for i := range n {
		all := map[string]string{"job-name": by.name, "batch.kubernetes.io/job-name": by.name, "controller-uid": string(by.uid), "batch.kubernetes.io/controller-uid": string(by.uid)}
		maps.Copy(all, labels)
		index := strconv.Itoa(i)
		if indexed {
			all["batch.kubernetes.io/job-completion-index"] = index
		}
		p := made(o, by, fmt.Sprintf("%s-%d-whatif", by.name, i), &s.Template, all)
		if indexed {
			metav1.SetMetaDataAnnotation(&p.ObjectMeta, "batch.kubernetes.io/job-completion-index", index)
		}
		if problem := r.add(p, field+".template.spec"); problem != nil {
			return problem
		}
	}
	return nil
}
