package dialect

import (
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/tangram-dev/tangram/api/names"
)

// TestOwners has a case for every row of the table of kinds: how a pod names its
// object, and how many pods the object starts together now. A row without a case fails.
func TestOwners(t *testing.T) {
	group := "pg"
	native := podWith(nil, nil, nil)
	native.Spec.SchedulingGroup = &v1.PodSchedulingGroup{PodGroupName: &group}
	by := func(kind, version string) *metav1.OwnerReference {
		return &metav1.OwnerReference{APIVersion: version, Kind: kind, Name: "o"}
	}
	tests := map[schema.GroupVersionResource]struct {
		pod    *v1.Pod
		found  Owned
		object string
		size   int
	}{
		KubeGroups: {native, Owned{Name: "pg", Gang: "group/team/pg"},
			`{apiVersion: scheduling.k8s.io/v1alpha2, kind: PodGroup, spec: {schedulingPolicy: {gang: {minCount: 4}}}}`, 4},
		PodGroups: {podWith(nil, pairs{names.AnnotationKubeGroup: "pg"}, nil), Owned{Name: "pg", Gang: "podgroup/team/pg"},
			`{apiVersion: scheduling.volcano.sh/v1beta1, kind: PodGroup, spec: {minMember: 3}}`, 3},
		JobSets: {podWith(pairs{labelJobSet: "js", labelReplicatedJob: "workers"}, nil, by("Job", "batch/v1")), Owned{Name: "js", Gang: "jobset/team/js", Task: "workers"},
			`{apiVersion: jobset.x-k8s.io/v1alpha2, kind: JobSet, spec: {replicatedJobs: [{name: a, replicas: 2, template: {spec: {parallelism: 4}}}]}}`, 8},
		RayClusters: {podWith(pairs{labelRayGroup: "gpu"}, nil, by("RayCluster", "ray.io/v1")), Owned{Name: "o", Gang: "owner/team/u1", Task: "gpu"},
			`{apiVersion: ray.io/v1, kind: RayCluster, spec: {workerGroupSpecs: [{replicas: 3}]}}`, 4},
		Jobs: {podWith(nil, nil, by("Job", "batch/v1")), Owned{Name: "o", Gang: "owner/team/u1"},
			`{apiVersion: batch/v1, kind: Job, spec: {completionMode: Indexed, parallelism: 4, completions: 4}}`, 4},
	}
	for kind, replicas := range map[string]string{
		"PyTorchJob": "pytorchReplicaSpecs", "TFJob": "tfReplicaSpecs", "MPIJob": "mpiReplicaSpecs",
		"XGBoostJob": "xgbReplicaSpecs", "PaddleJob": "paddleReplicaSpecs", "JAXJob": "jaxReplicaSpecs",
	} {
		row := tests[Jobs]
		row.pod = podWith(pairs{labelKubeflowJob: "o", labelKubeflowType: "worker"}, nil, by(kind, "kubeflow.org/v1"))
		row.found = Owned{Name: "o", Gang: "owner/team/u1", Task: "worker"}
		row.object = `{apiVersion: kubeflow.org/v1, kind: ` + kind + `, spec: {` + replicas + `: {Master: {replicas: 1}, Worker: {replicas: 3}}}}`
		tests[kubeflowGroupVersion.WithResource(strings.ToLower(kind)+"s")] = row
	}
	for _, k := range Owners() {
		t.Run(k.Resource.GroupResource().String(), func(t *testing.T) {
			tt, ok := tests[k.Resource]
			if !ok {
				t.Fatal("no test case for this kind")
			}
			found, ok := k.Find(tt.pod)
			found.Reference = metav1.OwnerReference{}
			if !ok || found != tt.found {
				t.Errorf("found %+v, want %+v", found, tt.found)
			}
			if _, ok := k.Find(podWith(nil, nil, by("Job", "batch.volcano.sh/v1alpha1"))); ok {
				t.Error("found in a pod of another kind")
			}
			object := parsed(t, tt.object)
			if got := k.size(object); got != tt.size || SizeOf(object) != tt.size || object.GetKind() != k.Kind {
				t.Errorf("size %d and %d, want %d", got, SizeOf(object), tt.size)
			}
			m, err := MembershipOf(tt.pod)
			if want := (Object{k.Resource, "team/" + tt.found.Name}); err != nil || m.Object != want || m.Key != tt.found.Gang {
				t.Errorf("got %+v, %v, want %+v", m, err, want)
			}
		})
	}
	if len(tests) != len(Owners()) {
		t.Errorf("%d test cases for %d kinds", len(tests), len(Owners()))
	}
}

// TestSizeNow: a JobSet's gang is what JobSet creates now. Jobs that wait for others do
// not count, or both would wait for each other.
func TestSizeNow(t *testing.T) {
	const ordered = `{kind: JobSet, spec: {startupPolicy: {startupPolicyOrder: InOrder}, replicatedJobs: [
		{name: data, template: {spec: {parallelism: 1}}}, {name: train, replicas: 2, template: {spec: {parallelism: 4}}}]}`
	const depends = `{kind: JobSet, spec: {replicatedJobs: [
		{name: data, template: {spec: {parallelism: 1}}}, {name: side, template: {spec: {parallelism: 2}}},
		{name: train, replicas: 2, dependsOn: [{name: data, status: Complete}], template: {spec: {parallelism: 4}}}]}`
	for name, tt := range map[string]struct {
		text string
		want int
	}{
		"in order, nothing runs":       {ordered + `}`, 1},
		"in order, the first is ready": {ordered + `, status: {replicatedJobsStatus: [{name: data, ready: 1, succeeded: 0}]}}`, 9},
		"in order, the first is over":  {ordered + `, status: {replicatedJobsStatus: [{name: data, ready: 0, succeeded: 1}]}}`, 9},
		"depends, nothing runs":        {depends + `}`, 3},
		"depends, ready is not enough": {depends + `, status: {replicatedJobsStatus: [{name: data, ready: 1}]}}`, 3},
		"depends, complete":            {depends + `, status: {replicatedJobsStatus: [{name: data, succeeded: 1}]}}`, 11},
	} {
		t.Run(name, func(t *testing.T) {
			if got := SizeOf(parsed(t, text(tt.text))); got != tt.want {
				t.Errorf("got %d, want %d", got, tt.want)
			}
		})
	}
}
