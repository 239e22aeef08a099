package dialect

import (
	"reflect"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tangram-dev/tangram/core/topology"
)

// TestKubeflow: how many pods of a job start together, in which queue, how urgent.
func TestKubeflow(t *testing.T) {
	for name, tt := range map[string]struct {
		text string
		want Group
		err  string
	}{
		"master and workers": {`{kind: PyTorchJob, spec: {pytorchReplicaSpecs: {Master: {replicas: 1}, Worker: {replicas: 3}}}}`, Group{Min: 4}, ""},
		"without a number":   {`{kind: PyTorchJob, spec: {pytorchReplicaSpecs: {Master: {}, Worker: {replicas: 2}}}}`, Group{Min: 3}, ""},
		"one":                {`{kind: JAXJob, spec: {jaxReplicaSpecs: {Worker: {replicas: 1}}}}`, Group{Min: 1}, ""},
		"four types":         {`{kind: TFJob, spec: {tfReplicaSpecs: {Chief: {replicas: 1}, PS: {replicas: 2}, Worker: {replicas: 4}, Evaluator: {replicas: 1}}}}`, Group{Min: 8}, ""},
		"launcher":           {`{kind: MPIJob, spec: {mpiReplicaSpecs: {Launcher: {replicas: 1}, Worker: {replicas: 2}}}}`, Group{Min: 3}, ""},
		"elastic":            {`{kind: PyTorchJob, spec: {elasticPolicy: {minReplicas: 2, maxReplicas: 8}, pytorchReplicaSpecs: {Worker: {replicas: 5}}}}`, Group{Min: 2}, ""},
		"elastic, scaled down": {`{kind: PyTorchJob, spec: {elasticPolicy: {minReplicas: 4}, pytorchReplicaSpecs: {Master: {replicas: 1}, Worker: {replicas: 2}}}}`,
			Group{Min: 3}, ""},
		"elastic, nonsense": {`{kind: PaddleJob, spec: {elasticPolicy: {minReplicas: -4}, paddleReplicaSpecs: {Worker: {replicas: 2}}}}`, Group{Min: 1}, ""},
		"policy": {`{kind: XGBoostJob, spec: {runPolicy: {schedulingPolicy: {minAvailable: 2, queue: research, priorityClass: high}},
			xgbReplicaSpecs: {Master: {replicas: 1}, Worker: {replicas: 3}}}}`, Group{Min: 2, Queue: "research", Priority: "high"}, ""},
		"more than there are": {`{kind: PyTorchJob, spec: {runPolicy: {schedulingPolicy: {minAvailable: 9}}, pytorchReplicaSpecs: {Worker: {replicas: 3}}}}`,
			Group{Min: 3}, "spec.runPolicy.schedulingPolicy.minAvailable: 9 is not from 1 to 3"},
		"none at all": {`{kind: PyTorchJob, spec: {runPolicy: {schedulingPolicy: {minAvailable: 0}}, pytorchReplicaSpecs: {Worker: {replicas: 3}}}}`,
			Group{Min: 1}, "spec.runPolicy.schedulingPolicy.minAvailable: 0 is not from 1 to 3"},
		"not a number": {`{kind: PyTorchJob, spec: {pytorchReplicaSpecs: {Worker: {replicas: many}}}}`, Group{Min: 1}, "spec.pytorchReplicaSpecs.Worker.replicas: many is not a number"},
		"not a map":    {`{kind: PyTorchJob, spec: {pytorchReplicaSpecs: 3}}`, Group{Min: 1}, "spec.pytorchReplicaSpecs: "},
		"absurd":       {`{kind: PyTorchJob, spec: {pytorchReplicaSpecs: {Worker: {replicas: 9000000000}, Master: {replicas: 9000000000}}}}`, Group{Min: maxGang}, ""},
		"negative":     {`{kind: PyTorchJob, spec: {pytorchReplicaSpecs: {Worker: {replicas: -3}}}}`, Group{Min: 1}, ""},
		"empty":        {`{kind: PyTorchJob}`, Group{Min: 1}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			o := parsed(t, text(tt.text))
			o.SetAPIVersion("kubeflow.org/v1")
			got, err := GroupOf(o, topology.DefaultLevels())
			if !reflect.DeepEqual(got, tt.want) || (err != nil) != (tt.err != "") || err != nil && !strings.Contains(err.Error(), tt.err) {
				t.Errorf("got %+v, %v\nwant %+v, %s", got, err, tt.want, tt.err)
			}
			if n := SizeOf(o); n != tt.want.Min {
				t.Errorf("size %d", n)
			}
		})
	}
	// mpi-operator's MPIJob has the same group and kind.
	other := podWith(nil, nil, &metav1.OwnerReference{APIVersion: "kubeflow.org/v2beta1", Kind: "MPIJob", Name: "m"})
	for i := range kubeflowKinds {
		if _, ok := kubeflowKinds[i].find(other); ok {
			t.Errorf("%s: a pod of another version's MPIJob was found", kubeflowKinds[i].Kind)
		}
	}
}
