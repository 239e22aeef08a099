package dialect

import (
	"maps"
	"slices"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Labels that Kubeflow's training-operator puts on pods.
const (
	labelKubeflowJob  = "training.kubeflow.org/job-name"
	labelKubeflowType = "training.kubeflow.org/replica-type"
)

// kubeflowGroupVersion is that of training-operator's kinds; v2beta1 of MPIJob is mpi-operator's.
var kubeflowGroupVersion = schema.GroupVersion{Group: "kubeflow.org", Version: "v1"}

// kubeflowKinds are training-operator's: they differ in the field that has the replicas.
var kubeflowKinds = []OwnerKind{
	kubeflowKind("PyTorchJob", "pytorchjobs", "pytorchReplicaSpecs"),
	kubeflowKind("TFJob", "tfjobs", "tfReplicaSpecs"),
	kubeflowKind("MPIJob", "mpijobs", "mpiReplicaSpecs"),
	kubeflowKind("XGBoostJob", "xgboostjobs", "xgbReplicaSpecs"),
	kubeflowKind("PaddleJob", "paddlejobs", "paddleReplicaSpecs"),
	kubeflowKind("JAXJob", "jaxjobs", "jaxReplicaSpecs"),
}

func kubeflowKind(kind, resource, replicas string) OwnerKind {
	says := func(o *unstructured.Unstructured) (Group, error) { return kubeflowGroup(o, replicas) }
	return OwnerKind{
		Kind: kind, Resource: kubeflowGroupVersion.WithResource(resource), Label: labelKubeflowJob, says: says,
		find: func(pod *v1.Pod) (Owned, bool) {
			o, ok := controlledBy(pod, kind, kubeflowGroupVersion.Group)
			o.Task = pod.Labels[labelKubeflowType]
			return o, ok && o.Reference.APIVersion == kubeflowGroupVersion.String()
		},
		size: func(o *unstructured.Unstructured, _ string) int {
			g, _ := says(o)
			return g.Min
		},
	}
}

// kubeflowGroup reads a job of training-operator, as if the operator had made a PodGroup of its fields
// (--gang-scheduler-name=volcano): all pods start together, of elastic workers the least;
// schedulingPolicy.minAvailable replaces both.
func kubeflowGroup(o *unstructured.Unstructured, replicas string) (Group, error) {
	spec := readerOf(o).in("spec")
	total, least := 0, 0
	kinds := spec.in(replicas)
	if _, there := spec.value(replicas); there && kinds.object == nil {
		spec.fail(replicas, "not a mapping of replicas")
	}
	for _, kind := range slices.Sorted(maps.Keys(kinds.object)) {
		n := kinds.in(kind).count("replicas", 1, 0)
		total += n
		if m, ok := spec.number("elasticPolicy.minReplicas"); ok && kind == "Worker" {
			n = min(n, int(max(1, min(m, maxGang))))
		}
		least += n
	}
	policy := spec.in("runPolicy.schedulingPolicy")
	if n, ok := policy.number("minAvailable"); ok {
		if n < 1 || n > int64(total) {
			policy.fail("minAvailable", "%d is not from 1 to %d, the number of replicas", n, total)
		}
		least = int(min(n, int64(total)))
	}
	return Group{Min: max(1, min(least, maxGang)), Queue: policy.text("queue"), Priority: policy.text("priorityClass")}, spec.err()
}
