package dialect

import (
	"fmt"
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
		JobSets: {podWith(pairs{labelJobSet: "js", labelReplicatedJob: "workers"}, nil, by("Job", "batch/v1")), Owned{Name: "js", Gang: "jobset/team/js", Task: "workers", Leader: true},
			`{apiVersion: jobset.x-k8s.io/v1alpha2, kind: JobSet, spec: {replicatedJobs: [{name: a, replicas: 2, template: {spec: {parallelism: 4}}}]}}`, 8},
		RayClusters: {podWith(pairs{labelRayGroup: "gpu"}, nil, by("RayCluster", "ray.io/v1")), Owned{Name: "o", Gang: "owner/team/u1", Task: "gpu"},
			`{apiVersion: ray.io/v1, kind: RayCluster, spec: {workerGroupSpecs: [{replicas: 3}]}}`, 4},
		KAIGroups: {podWith(pairs{names.LabelKAIQueue: "q"}, pairs{kaiGroupName: "pg"}, nil), Owned{Name: "pg", Gang: "kai/team/pg"},
			`{apiVersion: scheduling.run.ai/v2alpha2, kind: PodGroup, spec: {minMember: 6}}`, 6},
		KoordGroups: {podWith(pairs{koordGroupLabel: "pg"}, nil, nil), Owned{Name: "pg", Gang: "koordgroup/team/pg"},
			`{apiVersion: scheduling.sigs.k8s.io/v1alpha1, kind: PodGroup, spec: {minMember: 7}}`, 7},
		GroveGangs: {podWith(pairs{groveGang: "pg", groveClique: "pg-decode"}, nil, by("PodClique", "grove.io/v1alpha1")), Owned{Name: "pg", Gang: "grove/team/pg", Subgroup: "pg-decode"},
			`{apiVersion: scheduler.grove.io/v1alpha1, kind: PodGang, spec: {podgroups: [{name: pg-decode, minReplicas: 3}, {name: pg-prefill, minReplicas: 2}]}}`, 5},
		PluginGroups: {podWith(pairs{names.LabelPluginGroup: "pg"}, nil, nil), Owned{Name: "pg", Gang: "plugingroup/team/pg"},
			`{apiVersion: scheduling.x-k8s.io/v1alpha1, kind: PodGroup, spec: {minMember: 5, scheduleTimeoutSeconds: 10}}`, 5},
		LeaderWorkerSets: {podWith(pairs{labelLWS: "l", labelLWSGroup: "1", labelLWSWorker: "0"}, nil, by("StatefulSet", "apps/v1")), Owned{Name: "l", Gang: "lws/team/l/1", Task: "leader", Leader: true},
			`{apiVersion: leaderworkerset.x-k8s.io/v1, kind: LeaderWorkerSet, spec: {leaderWorkerTemplate: {size: 4}}}`, 4},
		StatefulSets: {podWith(pairs{names.LabelGangSize: "2"}, nil, by("StatefulSet", "apps/v1")), Owned{Name: "o", Gang: "owner/team/u1"},
			`{apiVersion: apps/v1, kind: StatefulSet, spec: {replicas: 4}}`, 0},
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
			found, ok := k.find(tt.pod)
			found.Reference = metav1.OwnerReference{}
			if !ok || found != tt.found {
				t.Errorf("found %+v, want %+v", found, tt.found)
			}
			if _, ok := k.find(podWith(nil, nil, by("Job", "batch.volcano.sh/v1alpha1"))); ok {
				t.Error("found in a pod of another kind")
			}
			object := parsed(t, tt.object)
			if got := k.size(object, ""); got != tt.size || SizeOf(object) != tt.size || object.GetKind() != k.Kind {
				t.Errorf("size %d and %d, want %d", got, SizeOf(object), tt.size)
			}
			m, err := MembershipOf(tt.pod)
			if want := (Object{k.Resource, "team/" + tt.found.Name}); err != nil || m.Object != want && m.Also != want || m.Key != tt.found.Gang {
				t.Errorf("got %+v, %v, want %+v", m, err, want)
			}
		})
	}
	if len(tests) != len(Owners()) {
		t.Errorf("%d test cases for %d kinds", len(tests), len(Owners()))
	}
}

// TestNeeds: what a gang needs by what it has come to, of kinds that create pods by and by.
func TestNeeds(t *testing.T) {
	const set = `{kind: JobSet, metadata: {annotations: {alpha.jobset.sigs.k8s.io/exclusive-topology: rack%s}}, spec: {replicatedJobs: [
		{name: a, replicas: 2, template: {spec: {parallelism: 4}}}, {name: b, template: {spec: {parallelism: 3}}}]}}`
	const ray = `{kind: RayCluster, spec: {workerGroupSpecs: [{replicas: 12, minReplicas: 2%s}]}, status: {conditions: [{type: RayClusterProvisioned, status: "%s"}]}}`
	for name, tt := range map[string]struct {
		kind schema.GroupVersionResource
		text string
		size int
		want Needs
	}{
		"JobSet":                         {JobSets, `{spec: {replicatedJobs: [{name: a, template: {spec: {parallelism: 4}}}]}}`, 0, Needs{First: 4, Whole: 4}},
		"JobSet, a domain for each Job":  {JobSets, fmt.Sprintf(set, ""), 0, Needs{First: 3, Whole: 11}},
		"JobSet, domains by node labels": {JobSets, fmt.Sprintf(set, `, alpha.jobset.sigs.k8s.io/node-selector: "true"`), 0, Needs{First: 11, Whole: 11}},
		"JobSet, a domain for some Jobs": {JobSets, `{spec: {replicatedJobs: [{name: a, replicas: 2, template: {metadata: {annotations: {alpha.jobset.sigs.k8s.io/exclusive-topology: rack}}, spec: {parallelism: 4}}},
			{name: b, template: {spec: {parallelism: 3}}}]}}`, 0, Needs{First: 5, Whole: 11}},
		"RayCluster, not whole yet":        {RayClusters, fmt.Sprintf(ray, "", "False"), 0, Needs{Whole: 13}},
		"RayCluster that has been whole":   {RayClusters, fmt.Sprintf(ray, "", "True"), 0, Needs{Whole: 13, Running: 3}},
		"RayCluster, replicas of 4 hosts":  {RayClusters, fmt.Sprintf(ray, ", numOfHosts: 4", "True"), 0, Needs{Whole: 49}},
		"LeaderWorkerSet":                  {LeaderWorkerSets, `{spec: {leaderWorkerTemplate: {size: 4}}}`, 4, Needs{Whole: 4}},
		"LeaderWorkerSet, being resized":   {LeaderWorkerSets, `{spec: {leaderWorkerTemplate: {size: 8}}}`, 4, Needs{Whole: 4}},
		"LeaderWorkerSet, leader ready":    {LeaderWorkerSets, `{spec: {startupPolicy: LeaderReady, leaderWorkerTemplate: {size: 4}}}`, 4, Needs{First: 1, Whole: 4}},
		"LeaderWorkerSet, exclusive":       {LeaderWorkerSets, `{metadata: {annotations: {leaderworkerset.sigs.k8s.io/exclusive-topology: rack}}, spec: {}}`, 4, Needs{First: 1, Whole: 4}},
		"StatefulSet, none is ready":       {StatefulSets, `{spec: {replicas: 4}}`, 0, Needs{Later: 3}},
		"StatefulSet, two are ready":       {StatefulSets, `{spec: {replicas: 4}, status: {readyReplicas: 2}}`, 0, Needs{Later: 1}},
		"StatefulSet, all at once":         {StatefulSets, `{spec: {replicas: 4, podManagementPolicy: Parallel}}`, 0, Needs{}},
		"StatefulSet, nonsense":            {StatefulSets, `{spec: {replicas: -9000000000}, status: {readyReplicas: many}}`, 0, Needs{}},
		"another kind":                     {Queues, `{spec: {replicas: 4}}`, 7, Needs{}},
		"RayCluster, conditions of no use": {RayClusters, `{spec: {workerGroupSpecs: [{replicas: 2}, seven]}, status: {conditions: [x, {type: RayClusterProvisioned}]}}`, 0, Needs{Whole: 3}},
	} {
		t.Run(name, func(t *testing.T) {
			if got := NeedsOf(tt.kind, parsed(t, text(tt.text)), tt.size, podWith(nil, nil, nil)); got != tt.want {
				t.Errorf("got %+v, want %+v", got, tt.want)
			}
		})
	}
}

// TestNeedsOfNew: a pod of a replicated job shows that JobSet has created the job, though the
// status does not say yet that what it waits for is over.
func TestNeedsOfNew(t *testing.T) {
	const depends = `{spec: {replicatedJobs: [{name: data, template: {spec: {parallelism: 1}}},
		{name: train, replicas: 2, dependsOn: [{name: data, status: Complete}], template: {spec: {parallelism: 4}}},
		{name: last, dependsOn: [{name: train, status: Complete}], template: {spec: {parallelism: 5}}}]}}`
	const ordered = `{spec: {startupPolicy: {startupPolicyOrder: InOrder}, replicatedJobs: [
		{name: data, template: {spec: {parallelism: 1}}}, {name: train, replicas: 2, template: {spec: {parallelism: 4}}}, {name: last, template: {spec: {parallelism: 5}}}]}}`
	for task, want := range map[string]int{"data": 1, "train": 9, "": 1, "other": 1} {
		for name, object := range map[string]string{"depends": depends, "in order": ordered} {
			if name == "in order" && task == "other" {
				continue // a pod that is not JobSet's
			}
			got := NeedsOf(JobSets, parsed(t, text(object)), 0, podWith(pairs{labelJobSet: "js", labelReplicatedJob: task}, nil, nil))
			if got.Whole != want || got.First != want {
				t.Errorf("%s, a pod of %q: got %+v, want %d", name, task, got, want)
			}
		}
	}
}

// TestNeedsOfKAI: a JobSet with KAI's annotation needs no more pods than JobSet can create
// now.
func TestNeedsOfKAI(t *testing.T) {
	const set = `{kind: JobSet, metadata: {annotations: {kai.scheduler/batch-min-member: "%d"}}, spec: {startupPolicy: {startupPolicyOrder: InOrder}, replicatedJobs: [
  {name: data, template: {spec: {parallelism: 1}}}, {name: node, template: {spec: {parallelism: 8}}}]}%s}`
	const ready = `, status: {replicatedJobsStatus: [{name: data, ready: 1}]}`
	for _, tt := range []struct {
		min    int
		status string
		task   string
		want   int
	}{{4, "", "data", 1}, {4, ready, "data", 4}, {4, "", "node", 4}, {1, ready, "node", 1}, {100, ready, "node", 9}} {
		o := parsed(t, fmt.Sprintf(set, tt.min, tt.status))
		if got := NeedsOf(JobSets, o, 0, podWith(pairs{labelJobSet: "js", labelReplicatedJob: tt.task}, nil, nil)); got.Whole != tt.want {
			t.Errorf("%+v: needs %d", tt, got.Whole)
		}
		if got := SizeOf(o); tt.task == "data" && got != tt.want {
			t.Errorf("%+v: has %d", tt, got)
		}
	}
}

// TestLeaders: which pods of a JobSet exist before the first ones have places.
func TestLeaders(t *testing.T) {
	for name, tt := range map[string]struct {
		annotations pairs
		want        bool
	}{
		"without domains":      {pairs{jobIndex: "3"}, true},
		"first of its Job":     {pairs{jobIndex: "0", jobSetExclusive: "rack"}, true},
		"follower":             {pairs{jobIndex: "3", jobSetExclusive: "rack"}, false},
		"domains by selectors": {pairs{jobIndex: "3", jobSetExclusive: "rack", jobSetBySelector: ""}, true},
	} {
		if m, err := MembershipOf(podWith(pairs{labelJobSet: "js"}, tt.annotations, nil)); err != nil || m.Leader != tt.want {
			t.Errorf("%s: got %v, %v", name, m.Leader, err)
		}
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
		"in order, the first failed":   {ordered + `, status: {replicatedJobsStatus: [{name: data, failed: 1}]}}`, 9},
		"in order, the first is over":  {ordered + `, status: {replicatedJobsStatus: [{name: data, ready: 0, succeeded: 1}]}}`, 8},
		"depends, nothing runs":        {depends + `}`, 3},
		"depends, ready is not enough": {depends + `, status: {replicatedJobsStatus: [{name: data, ready: 1}]}}`, 3},
		"depends, complete":            {depends + `, status: {replicatedJobsStatus: [{name: data, succeeded: 1}]}}`, 10},
	} {
		t.Run(name, func(t *testing.T) {
			if got := SizeOf(parsed(t, text(tt.text))); got != tt.want {
				t.Errorf("got %d, want %d", got, tt.want)
			}
		})
	}
}
