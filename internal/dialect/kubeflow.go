package dialect

import (
	"fmt"
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

// kubeflowGroupVersion is that of training-operator's kinds. MPIJob also exists in
// v2beta1, which is mpi-operator's.
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
		size: func(o *unstructured.Unstructured) int {
			g, _ := says(o)
			return g.Min
		},
	}
}

// kubeflowGroup reads a job of training-operator, which creates all its pods at once. All
// start together; of elastic workers the least; schedulingPolicy.minAvailable replaces
// both. The fields count as if the operator had made a PodGroup of them, which it does
// with --gang-scheduler-name=volcano.
func kubeflowGroup(o *unstructured.Unstructured, replicas string) (Group, error) {
	var err error
	job := reader{o.Object, &err}
	total, least := int64(0), int64(0)
	specs, _, bad := unstructured.NestedMap(o.Object, "spec", replicas)
	job.note(bad, []string{"spec", replicas})
	for _, kind := range slices.Sorted(maps.Keys(specs)) {
		n, ok := job.number("spec", replicas, kind, "replicas")
		if !ok {
			n = 1
		}
		n = max(0, min(n, maxGang))
		total += n
		if m, ok := job.number("spec", "elasticPolicy", "minReplicas"); ok && kind == "Worker" {
			n = min(n, max(1, m))
		}
		least += n
	}
	policy := []string{"spec", "runPolicy", "schedulingPolicy"}
	if n, ok := job.number(append(policy, "minAvailable")...); ok {
		if n < 1 || n > total {
			job.note(fmt.Errorf("%d is not from 1 to %d, the number of replicas", n, total), append(policy, "minAvailable"))
		}
		least = min(n, total)
	}
	return Group{
		Min: int(max(1, min(least, maxGang))), Queue: job.text(append(policy, "queue")...), Priority: job.text(append(policy, "priorityClass")...),
	}, err
}
