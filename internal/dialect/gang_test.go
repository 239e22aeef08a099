package dialect

import (
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"github.com/tangram-dev/tangram/api/names"
	"github.com/tangram-dev/tangram/core/arbiter"
	"github.com/tangram-dev/tangram/core/engine"
	"github.com/tangram-dev/tangram/core/model"
	"github.com/tangram-dev/tangram/core/topology"
)

type pairs = map[string]string

func podWith(labels, annotations pairs, owner *metav1.OwnerReference) *v1.Pod {
	p := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "p", Namespace: "team", Labels: labels, Annotations: annotations}}
	if owner != nil {
		yes := true
		owner.Controller, owner.UID = &yes, "u1"
		p.OwnerReferences = []metav1.OwnerReference{*owner}
	}
	return p
}

// TestMembership: where a pod's gang comes from, and which source wins.
func TestMembership(t *testing.T) {
	job := &metav1.OwnerReference{APIVersion: "batch/v1", Kind: "Job", Name: "train"}
	tests := map[string]struct {
		labels, annotations pairs
		owner               *metav1.OwnerReference
		want                Membership
	}{
		"alone":              {nil, nil, nil, Membership{}},
		"labels":             {pairs{names.LabelGang: "g", names.LabelGangSize: "4"}, nil, nil, Membership{Key: "label/team/g", Size: 4}},
		"labels before all":  {pairs{names.LabelGang: "g", names.LabelGangSize: "4"}, pairs{names.AnnotationKubeGroup: "pg"}, job, Membership{Key: "label/team/g", Size: 4}},
		"PodGroup":           {nil, pairs{names.AnnotationKubeGroup: "pg"}, job, Membership{Key: "podgroup/team/pg", PodGroup: "team/pg", Groups: PodGroups, Object: Object{PodGroups, "team/pg"}}},
		"Volcano's own word": {nil, pairs{names.AnnotationVolcanoGroup: "pg", names.AnnotationVolcanoTask: "worker"}, nil, Membership{Key: "podgroup/team/pg", PodGroup: "team/pg", Groups: PodGroups, Object: Object{PodGroups, "team/pg"}, Task: "worker"}},
		"size and owner":     {pairs{names.LabelGangSize: "3"}, nil, job, Membership{Key: "owner/team/u1", Size: 3}},
		"size one, alone":    {pairs{names.LabelGangSize: "1"}, nil, nil, Membership{Size: 1}},
		"Job":                {nil, nil, job, Membership{Key: "owner/team/u1", Owner: *job, Object: Object{Jobs, "team/train"}}},
		"Volcano Job without a group": {nil, nil, &metav1.OwnerReference{APIVersion: "batch.volcano.sh/v1alpha1", Kind: "Job", Name: "x"},
			Membership{}},
		"ReplicaSet": {nil, nil, &metav1.OwnerReference{APIVersion: "apps/v1", Kind: "ReplicaSet", Name: "x"}, Membership{}},
		"JobSet": {pairs{labelJobSet: "js", labelReplicatedJob: "workers"}, nil, job,
			Membership{Key: "jobset/team/js", Owner: metav1.OwnerReference{Kind: "JobSet", Name: "js"}, Object: Object{JobSets, "team/js"}, Task: "workers", Leader: true}},
		"RayCluster": {pairs{labelRayGroup: "gpu"}, nil, &metav1.OwnerReference{APIVersion: "ray.io/v1", Kind: "RayCluster", Name: "ray"},
			Membership{Key: "owner/team/u1", Owner: metav1.OwnerReference{APIVersion: "ray.io/v1", Kind: "RayCluster", Name: "ray"}, Object: Object{RayClusters, "team/ray"}, Task: "gpu"}},
		"Ray's PodGroup": {pairs{labelRayGroup: "headgroup"}, pairs{names.AnnotationKubeGroup: "pg"}, &metav1.OwnerReference{APIVersion: "ray.io/v1", Kind: "RayCluster", Name: "ray"},
			Membership{Key: "podgroup/team/pg", PodGroup: "team/pg", Groups: PodGroups, Object: Object{PodGroups, "team/pg"}, Also: Object{RayClusters, "team/ray"}}},
		"PodGroup of scheduler-plugins": {pairs{names.LabelPluginGroup: "pg"}, nil, nil,
			Membership{Key: "plugingroup/team/pg", PodGroup: "team/pg", Groups: PluginGroups, Object: Object{PluginGroups, "team/pg"}}},
		"LeaderWorkerSet": {pairs{labelLWS: "llm", labelLWSGroup: "2", labelLWSWorker: "1"}, pairs{annotationLWSSize: "4"}, &metav1.OwnerReference{APIVersion: "apps/v1", Kind: "StatefulSet", Name: "llm-2"},
			Membership{Key: "lws/team/llm/2", Object: Object{LeaderWorkerSets, "team/llm"}, Task: "worker", Size: 4}},
		"LeaderWorkerSet's PodGroup": {pairs{labelLWS: "llm", labelLWSGroup: "2", labelLWSWorker: "0"}, pairs{annotationLWSSize: "4", names.AnnotationKubeGroup: "pg"}, nil,
			Membership{Key: "podgroup/team/pg", PodGroup: "team/pg", Groups: PodGroups, Object: Object{PodGroups, "team/pg"}, Also: Object{LeaderWorkerSets, "team/llm"}, Size: 4, Leader: true}},
		"StatefulSet with labels": {pairs{names.LabelGang: "g", names.LabelGangSize: "4"}, nil, &metav1.OwnerReference{APIVersion: "apps/v1", Kind: "StatefulSet", Name: "s"},
			Membership{Key: "label/team/g", Size: 4, Also: Object{StatefulSets, "team/s"}}},
		"StatefulSet without": {nil, nil, &metav1.OwnerReference{APIVersion: "apps/v1", Kind: "StatefulSet", Name: "s"}, Membership{}},
		// MPI's launcher and workers have different controllers, and Spark's executors belong
		// to the driver: labels say that they belong together.
		"MPIJob's launcher": {pairs{names.LabelGang: "mpi", names.LabelGangSize: "3", "training.kubeflow.org/job-role": "launcher"}, nil, job, Membership{Key: "label/team/mpi", Size: 3}},
		"MPIJob's worker": {pairs{names.LabelGang: "mpi", names.LabelGangSize: "3", "training.kubeflow.org/job-role": "worker"}, nil, &metav1.OwnerReference{APIVersion: "kubeflow.org/v2beta1", Kind: "MPIJob", Name: "mpi"},
			Membership{Key: "label/team/mpi", Size: 3}},
		"Spark's executor": {pairs{names.LabelGang: "etl", names.LabelGangSize: "8", "spark-role": "executor"}, nil, &metav1.OwnerReference{APIVersion: "v1", Kind: "Pod", Name: "driver"},
			Membership{Key: "label/team/etl", Size: 8}},
		"queue by label":         {pairs{names.LabelQueue: "a"}, pairs{names.AnnotationVolcanoQueue: "b"}, nil, Membership{Queue: "a"}},
		"queue by annotation":    {nil, pairs{names.AnnotationVolcanoQueue: "b", names.AnnotationVolcanoJobQueue: "c"}, nil, Membership{Queue: "b"}},
		"queue of a Volcano Job": {nil, pairs{names.AnnotationVolcanoJobQueue: "c"}, nil, Membership{Queue: "c"}},
		"times": {nil, pairs{names.AnnotationRuntime: "90m", names.AnnotationMinRuntime: "10m", names.AnnotationUser: "ann"}, nil,
			Membership{Runtime: 90 * time.Minute, MinRuntime: 10 * time.Minute, User: "ann"}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			got, err := MembershipOf(podWith(tt.labels, tt.annotations, tt.owner))
			if err != nil {
				t.Fatal(err)
			}
			if !got.Preemptible {
				t.Error("not preemptible without an annotation that says so")
			}
			got.Preemptible = false
			got.Owner.Controller, tt.want.Owner.Controller = nil, nil
			got.Owner.UID, tt.want.Owner.UID = "", ""
			if got != tt.want {
				t.Errorf("got  %+v\nwant %+v", got, tt.want)
			}
		})
	}
	for _, key := range []string{names.AnnotationPreemptible, names.AnnotationVolcanoPreemptable} {
		if m, err := MembershipOf(podWith(nil, pairs{key: "false"}, nil)); err != nil || m.Preemptible {
			t.Errorf("%s: got %v, %v", key, m.Preemptible, err)
		}
	}
}

// TestBadMembership: invalid values are rejected with the field's name.
func TestBadMembership(t *testing.T) {
	size := "metadata.labels[" + names.LabelGangSize + "]: "
	tests := map[string]struct {
		labels, annotations pairs
		want                string
	}{
		"size 0":          {pairs{names.LabelGang: "g", names.LabelGangSize: "0"}, nil, size + `"0" is not a number from 1 to`},
		"size negative":   {pairs{names.LabelGang: "g", names.LabelGangSize: "-3"}, nil, size + `"-3" is not a number`},
		"size text":       {pairs{names.LabelGang: "g", names.LabelGangSize: "four"}, nil, size + `"four" is not a number`},
		"size fraction":   {pairs{names.LabelGang: "g", names.LabelGangSize: "1.5"}, nil, size + `"1.5" is not a number`},
		"size absurd":     {pairs{names.LabelGang: "g", names.LabelGangSize: "1000000"}, nil, size + `"1000000" is not a number`},
		"size empty":      {pairs{names.LabelGang: "g", names.LabelGangSize: ""}, nil, size + `"" is not a number`},
		"size missing":    {pairs{names.LabelGang: "g"}, nil, size + `missing, how many members gang "g" has`},
		"which gang":      {pairs{names.LabelGangSize: "4"}, nil, size + "4, but neither " + names.LabelGang},
		"runtime":         {nil, pairs{names.AnnotationRuntime: "2 hours"}, "metadata.annotations[" + names.AnnotationRuntime + `]: "2 hours" is not a duration`},
		"runtime 0":       {nil, pairs{names.AnnotationRuntime: "0s"}, "metadata.annotations[" + names.AnnotationRuntime + `]: "0s"`},
		"minimum runtime": {nil, pairs{names.AnnotationMinRuntime: "-1m"}, "metadata.annotations[" + names.AnnotationMinRuntime + `]: "-1m"`},
		"group's size":    {pairs{labelLWS: "l", labelLWSGroup: "0"}, pairs{annotationLWSSize: "-4"}, "metadata.annotations[" + annotationLWSSize + `]: "-4" is not a number from 1 to`},
		"preemptible":     {nil, pairs{names.AnnotationPreemptible: "maybe"}, "metadata.annotations[" + names.AnnotationPreemptible + `]: "maybe" is not true or false`},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			if _, err := MembershipOf(podWith(tt.labels, tt.annotations, nil)); err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got  %v\nwant %s", err, tt.want)
			}
		})
	}
}

func parsed(t *testing.T, text string) *unstructured.Unstructured {
	t.Helper()
	o := &unstructured.Unstructured{}
	if err := yaml.Unmarshal([]byte(text), &o.Object); err != nil {
		t.Fatal(err)
	}
	return o
}

// TestSize: how many pods an owner runs together, as its own objects say it.
func TestSize(t *testing.T) {
	for name, tt := range map[string]struct {
		text string
		want int
	}{
		"Indexed Job":               {`{kind: Job, spec: {completionMode: Indexed, parallelism: 4, completions: 4}}`, 4},
		"more indexes than at once": {`{kind: Job, spec: {completionMode: Indexed, parallelism: 4, completions: 100}}`, 0},
		"fewer indexes":             {`{kind: Job, spec: {completionMode: Indexed, parallelism: 8, completions: 3}}`, 3},
		"plain Job":                 {`{kind: Job, spec: {parallelism: 4, completions: 4}}`, 0},
		"paused Job":                {`{kind: Job, spec: {completionMode: Indexed, parallelism: 0, completions: 4}}`, 0},
		"invalid":                   {`{kind: Job, spec: {completionMode: Indexed, parallelism: many}}`, 1},
		"some indexes are over": {`{kind: Job, spec: {completionMode: Indexed, parallelism: 9, completions: 9},
			status: {completedIndexes: "0,2-4", failedIndexes: "8"}}`, 4},
		"invalid indexes": {`{kind: Job, spec: {completionMode: Indexed, parallelism: 4, completions: 4},
			status: {completedIndexes: "3-1", failedIndexes: "x"}}`, 4},
		"JobSet": {`{kind: JobSet, spec: {replicatedJobs: [
			{name: leader, template: {spec: {parallelism: 1, completions: 1}}},
			{name: workers, replicas: 2, template: {spec: {parallelism: 4, completions: 4}}}]}}`, 9},
		"empty JobSet":  {`{kind: JobSet, spec: {}}`, 0},
		"absurd JobSet": {`{kind: JobSet, spec: {replicatedJobs: [{replicas: 9000000000, template: {spec: {parallelism: 9000000000}}}]}}`, maxGang},
		"RayCluster":    {`{kind: RayCluster, spec: {workerGroupSpecs: [{replicas: 3, minReplicas: 1}, {replicas: 2, numOfHosts: 4}]}}`, 12},
		"RayCluster that scales": {`{kind: RayCluster, spec: {enableInTreeAutoscaling: true,
			workerGroupSpecs: [{replicas: 3, minReplicas: 1}]}}`, 2},
		"suspended workers":  {`{kind: RayCluster, spec: {workerGroupSpecs: [{replicas: 3}, {replicas: 5, suspend: true}]}}`, 4},
		"more than the most": {`{kind: RayCluster, spec: {workerGroupSpecs: [{replicas: 30, maxReplicas: 4}, {replicas: 0, minReplicas: 2}]}}`, 7},
		"LeaderWorkerSet":    {`{kind: LeaderWorkerSet, spec: {replicas: 3, leaderWorkerTemplate: {size: 4}}}`, 4},
		"Ray head alone":     {`{kind: RayCluster, spec: {}}`, 1},
		"another kind":       {`{kind: Deployment, spec: {replicas: 3}}`, 0},
	} {
		t.Run(name, func(t *testing.T) {
			if got := SizeOf(parsed(t, text(tt.text))); got != tt.want {
				t.Errorf("got %d, want %d", got, tt.want)
			}
		})
	}
}

// TestSharedLabel: by which label the members of a gang are found.
func TestSharedLabel(t *testing.T) {
	by := func(kind, group string) *metav1.OwnerReference {
		return &metav1.OwnerReference{APIVersion: group, Kind: kind, Name: "o"}
	}
	all := pairs{"volcano.sh/job-name": "v", "jobset.sigs.k8s.io/jobset-name": "js", "ray.io/cluster": "r"}
	for name, tt := range map[string]struct {
		pod  *v1.Pod
		want string
	}{
		"labels":                {podWith(pairs{names.LabelGang: "g", names.LabelGangSize: "2", "ray.io/cluster": "r"}, nil, nil), names.LabelGang + "=g"},
		"a user's PodGroup":     {podWith(all, pairs{names.AnnotationKubeGroup: "pg"}, nil), "="},
		"a Volcano Job's":       {podWith(all, pairs{names.AnnotationKubeGroup: "pg"}, by("Job", "batch.volcano.sh/v1alpha1")), "volcano.sh/job-name=v"},
		"JobSet":                {podWith(all, nil, nil), "jobset.sigs.k8s.io/jobset-name=js"},
		"RayCluster":            {podWith(pairs{"ray.io/cluster": "r"}, nil, by("RayCluster", "ray.io/v1")), "ray.io/cluster=r"},
		"RayCluster, no labels": {podWith(nil, nil, by("RayCluster", "ray.io/v1")), "="},
		"alone":                 {podWith(nil, nil, nil), "="},
	} {
		t.Run(name, func(t *testing.T) {
			if key, value := SharedLabel(tt.pod); key+"="+value != tt.want {
				t.Errorf("got %s=%s, want %s", key, value, tt.want)
			}
		})
	}
}

// text lets manifests be indented as Go is.
func text(s string) string { return strings.ReplaceAll(s, "\t", "  ") }

// TestQueue: a Queue as Volcano's users write it.
func TestQueue(t *testing.T) {
	q, err := QueueOf(parsed(t, text(`
metadata: {name: research, annotations: {tangram.dev/order: sjf, tangram.dev/aging: 2h, tangram.dev/namespaces: "team-b, team-a,team-b"}}
spec:
  parent: root
  weight: 3
  priority: 7
  reclaimable: false
  capability: {nvidia.com/gpu: 16, cpu: 64, memory: 1Gi, gpu.tangram.dev/A100: "8", example.com/fpga: 3}
  deserved: {nvidia.com/gpu: 7500m}
  guarantee: {resource: {nvidia.com/gpu: 4}}
status: {state: Open}
`)))
	if err != nil {
		t.Fatal(err)
	}
	if q.Name != "research" || q.Parent != "" || q.Weight != 3 || q.Priority != 7 || q.Reclaimable || q.Order != arbiter.ShortestFirst || q.Aging != 2*time.Hour || q.Closed || !slices.Equal(q.Namespaces, []string{"team-a", "team-b"}) {
		t.Errorf("got %+v", q)
	}
	gpu := engine.GPU(model.NVIDIA)
	for what, got := range map[string][2]int64{
		"capability gpu": {q.Capability[gpu], 16000}, "capability cpu": {q.Capability[engine.CPU], 64000},
		"capability memory": {q.Capability[engine.Memory], 1024}, "capability model": {q.Capability[engine.Model(model.ParseModel("A100").Name())], 8000},
		"deserved": {q.Deserved[gpu], 7500}, "guarantee": {q.Guarantee[gpu], 4000}, "kinds": {int64(len(q.Capability)), 5},
		"capability of another resource": {q.Capability["resource/example.com/fpga"], 3},
	} {
		if got[0] != got[1] {
			t.Errorf("%s: got %d, want %d; %v", what, got[0], got[1], q.Capability)
		}
	}
	q, err = QueueOf(parsed(t, `metadata: {name: plain}`))
	if err != nil || q.Weight != 1 || !q.Reclaimable || q.Order != arbiter.Priority || q.Capability != nil {
		t.Errorf("defaults: got %+v, %v", q, err)
	}
	for _, state := range []string{"Closed", "Closing"} {
		if q, _ := QueueOf(parsed(t, `{metadata: {name: x}, status: {state: `+state+`}}`)); !q.Closed {
			t.Errorf("%s: takes jobs", state)
		}
	}
}

// TestBadQueue: invalid values are rejected with the field's name.
func TestBadQueue(t *testing.T) {
	for text, want := range map[string]string{
		`{spec: {weight: 0}}`:                                               "spec.weight: 0 is below 1",
		`{spec: {weight: -1}}`:                                              "spec.weight: -1 is below 1",
		`{spec: {weight: much}}`:                                            "spec.weight: much is not a number",
		`{spec: {parent: 3}}`:                                               "spec.parent: ",
		`{spec: {capability: {nvidia.com/gpu: -1}}}`:                        "spec.capability.nvidia.com/gpu: -1 is negative",
		`{spec: {capability: {cpu: lots}}}`:                                 "spec.capability.cpu: lots is not a quantity",
		`{spec: {capability: 4}}`:                                           "spec.capability: ",
		`{spec: {deserved: {nvidia.com/gpu: 9e18}}}`:                        "spec.deserved.nvidia.com/gpu: ",
		`{spec: {guarantee: {resource: {memory: -1Gi}}}}`:                   "spec.guarantee.resource.memory: -1Gi is negative",
		`{metadata: {annotations: {tangram.dev/namespaces: ""}}}`:           `metadata.annotations[tangram.dev/namespaces]: "" is not a list of namespaces`,
		`{metadata: {annotations: {tangram.dev/namespaces: "team-a,"}}}`:    `metadata.annotations[tangram.dev/namespaces]: "team-a," is not a list`,
		`{metadata: {annotations: {tangram.dev/namespaces: "team-a, T*"}}}`: `metadata.annotations[tangram.dev/namespaces]: "team-a, T*" is not a list`,
		`{metadata: {annotations: {tangram.dev/order: lifo}}}`:              `metadata.annotations[tangram.dev/order]: "lifo" is not fifo`,
		`{metadata: {annotations: {tangram.dev/aging: soon}}}`:              `metadata.annotations[tangram.dev/aging]: "soon" is not a duration`,
	} {
		if _, err := QueueOf(parsed(t, text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want %s", text, err, want)
		}
	}
}

// TestGroup: a PodGroup as Volcano's users and controllers write it.
func TestGroup(t *testing.T) {
	g, err := GroupOf(parsed(t, `spec: {minMember: 3, queue: research, priorityClassName: high, minTaskMember: {ps: 1, worker: 2},
  networkTopology: {mode: hard, highestTierName: rack}}`), topology.DefaultLevels())
	if err != nil || g.Min != 3 || g.Queue != "research" || g.Priority != "high" || g.MinTask["worker"] != 2 || g.MinTask["ps"] != 1 || g.Require.Name != "rack" {
		t.Errorf("got %+v, %v", g, err)
	}
	if g, err := GroupOf(parsed(t, `spec: {minMember: 0, networkTopology: {mode: soft, highestTierName: rack}}`), topology.DefaultLevels()); err != nil || g.Min != 1 || g.Require.Name != "" {
		t.Errorf("got %+v, %v", g, err)
	}
	for text, want := range map[string]string{
		`spec: {minMember: all}`: "spec.minMember: all is not a number",
		`spec: {networkTopology: {mode: hard, highestTierName: row}}`:                                                   `spec.networkTopology.highestTierName: "row" is not one of zone, block, rack, clique`,
		`{apiVersion: scheduling.k8s.io/v1alpha2, spec: {schedulingConstraints: {topology: [{key: example.com/row}]}}}`: `spec.schedulingConstraints.topology.key: "example.com/row" is not the label of a level`,
	} {
		if _, err := GroupOf(parsed(t, text), topology.DefaultLevels()); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v", text, err)
		}
	}
}

// TestKubeGroup: a PodGroup of Kubernetes itself.
func TestKubeGroup(t *testing.T) {
	for text, want := range map[string]Group{
		`spec: {schedulingPolicy: {gang: {minCount: 4}}, priorityClassName: high}`: {Min: 4, Priority: "high"},
		`spec: {schedulingPolicy: {basic: {}}}`:                                    {},
		`spec: {schedulingPolicy: {gang: {minCount: 2}}, schedulingConstraints: {topology: [{key: topology.kubernetes.io/rack}]}}`: {
			Min: 2, Require: model.Level{Name: "rack", Label: "topology.kubernetes.io/rack", Depth: 2}},
		`spec: {schedulingPolicy: {gang: {minCount: 2}}, schedulingConstraints: {topology: [{key: kubernetes.io/hostname}]}}`: {
			Min: 2, Require: model.Level{Name: "node", Depth: model.NodeDepth}},
	} {
		g, err := GroupOf(parsed(t, "{apiVersion: scheduling.k8s.io/v1alpha2, "+text+"}"), topology.DefaultLevels())
		if err != nil || !reflect.DeepEqual(g, want) {
			t.Errorf("%s: got %+v, %v", text, g, err)
		}
	}
}
