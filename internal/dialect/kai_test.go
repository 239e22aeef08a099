package dialect

import (
	"fmt"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/tangram-dev/tangram/api/names"
	"github.com/tangram-dev/tangram/api/record"
	"github.com/tangram-dev/tangram/core/arbiter"
	"github.com/tangram-dev/tangram/core/engine"
	"github.com/tangram-dev/tangram/core/model"
	"github.com/tangram-dev/tangram/core/topology"
)

// kaiPod is a pod of KAI's scheduler with two containers and annotations.
func kaiPod(annotations pairs) *v1.Pod {
	p := podWith(pairs{names.LabelKAIQueue: "team-a"}, annotations, nil)
	p.Spec.SchedulerName = names.KAISchedulerName
	p.Spec.Containers = []v1.Container{{Name: "main"}, {Name: "side"}}
	return p
}

// TestKAIFractions: what KAI's annotations ask for, and which field is named when they are
// wrong.
func TestKAIFractions(t *testing.T) {
	share := func(mib model.MiB, memory, compute int) model.Part {
		return model.Part{Kind: model.Share, Memory: mib, MemoryMilli: memory, Milli: compute}
	}
	for name, tt := range map[string]struct {
		annotations pairs
		container   int
		count       int
		part        model.Part
		want        string // of the error
	}{
		"half":              {pairs{"gpu-fraction": "0.5"}, 0, 1, share(0, 500, 0), ""},
		"an eighth":         {pairs{"gpu-fraction": "0.125"}, 0, 1, share(0, 125, 0), ""},
		"a third":           {pairs{"gpu-fraction": "0.33333"}, 0, 1, share(0, 333, 0), ""},
		"memory":            {pairs{"gpu-memory": "2000"}, 0, 1, share(2000, 0, 0), ""},
		"several cards":     {pairs{"gpu-fraction": "0.25", "gpu-fraction-num-devices": "2"}, 0, 2, share(0, 250, 0), ""},
		"another container": {pairs{"gpu-memory": "2000", "gpu-fraction-container-name": "side"}, 1, 1, share(2000, 0, 0), ""},
		"compute":           {pairs{"gpu-fraction": "0.5", "gpu-sm-percentage": "30"}, 0, 1, share(0, 500, 300), ""},

		"whole":           {annotations: pairs{"gpu-fraction": "1"}, want: `metadata.annotations[gpu-fraction]: "1" is not a fraction`},
		"more than whole": {annotations: pairs{"gpu-fraction": "1.5"}, want: `metadata.annotations[gpu-fraction]: "1.5"`},
		"nothing":         {annotations: pairs{"gpu-fraction": "0"}, want: `metadata.annotations[gpu-fraction]`},
		"negative":        {annotations: pairs{"gpu-fraction": "-0.5"}, want: `metadata.annotations[gpu-fraction]`},
		"a word":          {annotations: pairs{"gpu-fraction": "half"}, want: `metadata.annotations[gpu-fraction]`},
		"exponent":        {annotations: pairs{"gpu-fraction": "1e-1"}, want: `metadata.annotations[gpu-fraction]`},
		"both":            {annotations: pairs{"gpu-fraction": "0.5", "gpu-memory": "1"}, want: `metadata.annotations[gpu-memory]: given beside`},
		"memory unit":     {annotations: pairs{"gpu-memory": "2Gi"}, want: `metadata.annotations[gpu-memory]: "2Gi"`},
		"devices":         {annotations: pairs{"gpu-fraction": "0.5", "gpu-fraction-num-devices": "0"}, want: `metadata.annotations[gpu-fraction-num-devices]: "0"`},
		"devices alone":   {annotations: pairs{"gpu-fraction-num-devices": "2"}, want: `metadata.annotations[gpu-fraction-num-devices]: given without`},
		"no container":    {annotations: pairs{"gpu-fraction": "0.5", "gpu-fraction-container-name": "x"}, want: `metadata.annotations[gpu-fraction-container-name]: the pod has no container "x"`},
		"limit":           {annotations: pairs{"gpu-fraction": "0.5", "gpu-fraction.limit": "0.8"}, want: `metadata.annotations[gpu-fraction.limit]`},
		"memory limit":    {annotations: pairs{"gpu-memory": "100", "gpu-memory.limit": "200"}, want: `metadata.annotations[gpu-memory.limit]`},
		"cores":           {annotations: pairs{"gpu-fraction": "0.5", "gpu-sm-cores": "8"}, want: `metadata.annotations[gpu-sm-cores]`},
	} {
		t.Run(name, func(t *testing.T) {
			r, err := Request(kaiPod(tt.annotations))
			if tt.want != "" {
				if err == nil || !strings.Contains(err.Error(), tt.want) {
					t.Fatalf("got %v, want %s", err, tt.want)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if c := r.Containers[tt.container]; c.Count != tt.count || c.Part != tt.part {
				t.Errorf("got %+v", r.Containers)
			}
			if other := r.Containers[1-tt.container]; other.Count != 0 {
				t.Errorf("the other container has %+v", other)
			}
			if err := r.Containers[tt.container].Part.Validate(); err != nil {
				t.Error(err)
			}
		})
	}
}

// TestKAIWordsOfOthers: the words without a prefix mean nothing in pods that ask for GPUs in
// other words and were not written for KAI; gpu-fraction always counts.
func TestKAIWordsOfOthers(t *testing.T) {
	plain := podWith(nil, pairs{"gpu-memory": "80Gi"}, nil)
	plain.Spec.Containers = []v1.Container{{Name: "c", Resources: v1.ResourceRequirements{Requests: v1.ResourceList{names.ResourceNVIDIA: resource.MustParse("1")}}}}
	if r, err := Request(plain); err != nil || r.Kind() != model.Whole {
		t.Errorf("got %+v, %v", r, err)
	}
	plain.Annotations = pairs{"gpu-fraction": "0.5"}
	if _, err := Request(plain); err == nil || !strings.Contains(err.Error(), "two vocabularies in one container") || !strings.Contains(err.Error(), "gpu-fraction") {
		t.Errorf("got %v", err)
	}
	only := podWith(nil, pairs{"gpu-memory": "2000"}, nil)
	only.Spec.Containers = []v1.Container{{Name: "c"}}
	if r, err := Request(only); err != nil || r == nil || r.Containers[0].Part.Memory != 2000 {
		t.Errorf("got %+v, %v", r, err)
	}
	// Translated when it was created: HAMi's words count.
	both := kaiPod(pairs{"gpu-fraction": "0.5"})
	both.Spec.Containers[0].Resources.Limits = v1.ResourceList{names.ResourceNVIDIA: resource.MustParse("1"), hamiPercent: resource.MustParse("50")}
	if r, err := Request(both); err != nil || r.Containers[0].Part.MemoryMilli != 500 || r.Containers[0].Resource != names.ResourceNVIDIA {
		t.Errorf("got %+v, %v", r, err)
	}
}

// TestKAIHolds: what a bound pod holds is what its record says: the annotations can be
// edited while the pod runs.
func TestKAIHolds(t *testing.T) {
	bound := func(annotations pairs) *v1.Pod {
		p := kaiPod(annotations)
		p.UID, p.Spec.NodeName = "u", "n"
		text, err := record.Encode(record.Record{Node: "n", Containers: []record.Container{{Name: "main", Resource: string(kaiShare), Devices: []record.Device{{Index: 3, UUID: "GPU-3", MemoryMiB: 40000}}}}})
		if err != nil {
			t.Fatal(err)
		}
		p.Annotations[names.AnnotationDevices] = text
		return p
	}
	rec, err := Claims(bound(pairs{"gpu-fraction": "0.5"}))
	if err != nil || len(rec) != 1 || len(rec[0].Parts) != 1 || !rec[0].Parts[0].Known || rec[0].Parts[0].Device.Index != 3 {
		t.Fatalf("got %+v, %v", rec, err)
	}
	for name, annotations := range map[string]pairs{
		"less": {"gpu-fraction": "0.01", "gpu-fraction-num-devices": "1"}, "another word": {"gpu-memory": "1"}, "none": {}, "invalid": {"gpu-fraction": "x"},
	} {
		got, _ := Claims(bound(annotations))
		if len(got) != 1 || len(got[0].Parts) != 1 || !got[0].Parts[0].Known || got[0].Parts[0].Part.Memory != 40000 {
			t.Errorf("%s: got %+v", name, got)
		}
	}
}

// TestKAIMembership: what KAI's labels and annotations say of a pod's gang.
func TestKAIMembership(t *testing.T) {
	p := kaiPod(pairs{"pod-group-name": "pg", "kai.scheduler/preemption-delay": "5m"})
	p.Labels[KAISubgroup], p.Labels[kaiPriorityClass] = "decode", "build"
	m, err := MembershipOf(p)
	if err != nil || m.Key != "kai/team/pg" || m.Subgroup != "decode" || m.PriorityClass != "build" || m.PreemptionDelay != 5*time.Minute || m.Queue != "team-a" || m.PreemptBelow != nonPreemptible {
		t.Errorf("got %+v, %v", m, err)
	}
	p.Labels[kaiPreemptibility] = "non-preemptible"
	if m, err := MembershipOf(p); err != nil || m.Preemptible || m.PreemptBelow != 0 {
		t.Errorf("got %+v, %v", m, err)
	}
	for field, change := range map[string]func(*v1.Pod){
		"metadata.labels[kai.scheduler/preemptibility]":        func(p *v1.Pod) { p.Labels[kaiPreemptibility] = "semi-preemptible" },
		"metadata.annotations[kai.scheduler/preemption-delay]": func(p *v1.Pod) { p.Annotations[kaiPreemptionDelay] = "soon" },
		"metadata.annotations[kai.scheduler/segment-size]":     func(p *v1.Pod) { p.Annotations["kai.scheduler/segment-size"] = "4" },
		"metadata.annotations[kai.scheduler/batch-min-member]": func(p *v1.Pod) { p.Annotations[kaiMinMember] = "0" },
	} {
		bad := p.DeepCopy()
		change(bad)
		if _, err := MembershipOf(bad); err == nil || !strings.Contains(err.Error(), field) {
			t.Errorf("%s: got %v", field, err)
		}
	}
	// The word has no prefix: in other pods it means something else.
	other := podWith(nil, pairs{"pod-group-name": "pg"}, nil)
	if m, err := MembershipOf(other); err != nil || m.Key != "" {
		t.Errorf("got %+v, %v", m, err)
	}
	// The label project counts for KAI's schedulers alone.
	other.Labels = pairs{"project": "x"}
	if NamedQueue(other) != "" {
		t.Error("project is a queue for another scheduler")
	}
	if other.Spec.SchedulerName = names.KAISchedulerName; NamedQueue(other) != "x" {
		t.Error("project is no queue for KAI's scheduler")
	}
}

// TestKAIOwner: what the workload says counts for its pods, where they say nothing.
func TestKAIOwner(t *testing.T) {
	job := parsed(t, `{apiVersion: batch/v1, kind: Job, metadata: {labels: {kai.scheduler/queue: q, priorityClassName: train, kai.scheduler/preemptibility: preemptible},
  annotations: {kai.scheduler/topology: t, kai.scheduler/topology-required-placement: topology.kubernetes.io/rack, kai.scheduler/batch-min-member: "3"}},
  spec: {parallelism: 8, completions: 8}, status: {succeeded: 6}}`)
	m := Membership{Preemptible: true, PreemptBelow: nonPreemptible}
	if err := m.Adopt(job, names.KAISchedulerName, topology.DefaultLevels()); err != nil || m.Queue != "q" || m.PriorityClass != "train" || m.Require.Name != "rack" || m.PreemptBelow != 0 {
		t.Errorf("got %+v, %v", m, err)
	}
	if m = (Membership{Queue: "own"}); m.Adopt(job, names.KAISchedulerName, topology.DefaultLevels()) != nil || m.Queue != "own" {
		t.Errorf("got %+v", m)
	}
	if n := SizeOf(job); n != 2 {
		t.Errorf("%d start together, want the 2 that are left", n)
	}
	job.SetAnnotations(map[string]string{kaiMinMember: "x"})
	if err := m.Adopt(job, names.KAISchedulerName, nil); err == nil || !strings.Contains(err.Error(), kaiMinMember) {
		t.Errorf("got %v", err)
	}
}

// TestKAIGroup: subgroups, minimums and levels of KAI's PodGroups.
func TestKAIGroup(t *testing.T) {
	read := func(spec string) (Group, error) {
		return GroupOf(parsed(t, `{apiVersion: scheduling.run.ai/v2alpha2, kind: PodGroup, spec: `+spec+`}`), topology.DefaultLevels())
	}
	g, err := read(`{minMember: 4, queue: q, priorityClassName: train, preemptibility: non-preemptible, preemptionDelay: 5m, minSubGroup: 1,
  topologyConstraint: {topology: t, requiredTopologyLevel: topology.kubernetes.io/zone, preferredTopologyLevel: rack},
  subGroups: [{name: prefill, minSubGroup: 1}, {name: p0, parent: prefill, minMember: 2, topologyConstraint: {requiredTopologyLevel: topology.kubernetes.io/rack}}, {name: decode}]}`)
	if err != nil || g.Min != 4 || g.Queue != "q" || g.Priority != "train" || *g.Preemptible || g.PreemptionDelay != 5*time.Minute || g.MinGroups != 1 || g.Require.Name != "zone" || g.Prefer.Name != "rack" {
		t.Fatalf("got %+v, %v", g, err)
	}
	if got := fmt.Sprintf("%v", g.Subgroups); len(g.Subgroups) != 3 || g.Subgroups[1].Parent != "prefill" || g.Subgroups[1].Min != 2 || g.Subgroups[1].Require.Name != "rack" || g.Subgroups[2].Min != 1 || g.Subgroups[0].MinGroups != 1 {
		t.Errorf("got %s", got)
	}
	for spec, field := range map[string]string{
		`{topologyConstraint: {requiredTopologyLevel: row}}`:                         `spec.topologyConstraint.requiredTopologyLevel: "row" is not the label of a level`,
		`{preemptibility: semi-preemptible}`:                                         `spec.preemptibility: "semi-preemptible" is not supported`,
		`{preemptionDelay: soon}`:                                                    `spec.preemptionDelay: "soon"`,
		`{subGroups: [{name: a, parent: b}]}`:                                        `spec.subGroups[0].parent`,
		`{subGroups: [{name: a}, {name: a}]}`:                                        `spec.subGroups[1].name`,
		`{subGroups: [{name: a, topologyConstraint: {requiredTopologyLevel: row}}]}`: `spec.subGroups[0].topologyConstraint.requiredTopologyLevel`,
		`{minSubGroup: 3, subGroups: [{name: a}]}`:                                   `minSubGroup: 3`,
		`{subGroups: [{name: 7}]}`:                                                   `spec.subGroups[0].name`,
	} {
		if _, err := read(spec); err == nil || !strings.Contains(err.Error(), field) {
			t.Errorf("%s: got %v, want %s", spec, err, field)
		}
	}
}

// TestKAIQueue: KAI's queues as queues of the tree.
func TestKAIQueue(t *testing.T) {
	read := func(spec string) (arbiter.Queue, error) {
		return KAIQueueOf(parsed(t, `{apiVersion: scheduling.run.ai/v2, kind: Queue, metadata: {name: team-a}, spec: `+spec+`}`))
	}
	q, err := read(`{parentQueue: dep, priority: 150, preemptMinRuntime: 5m, reclaimMinRuntime: 10m, resources: {
  cpu: {quota: 4000, limit: -1, overQuotaWeight: 2}, memory: {quota: 1048576, limit: 2097152, overQuotaWeight: 2}, gpu: {quota: 2.5, limit: 8, overQuotaWeight: 2}}}`)
	gpu := engine.GPU(model.NVIDIA)
	if err != nil || q.Parent != "dep" || q.Priority != 50 || q.Weight != 2 || q.MinRuntime != 10*time.Minute || !q.Reclaimable {
		t.Fatalf("got %+v, %v", q, err)
	}
	if q.Deserved[gpu] != 2500 || q.Capability[gpu] != 8000 || q.Deserved[engine.CPU] != 4000 || q.Deserved[engine.Memory] != 1_000_000 || q.Capability[engine.Memory] != 2_000_000 {
		t.Errorf("got %+v", q)
	}
	if _, limited := q.Capability[engine.CPU]; limited {
		t.Error("a limit of -1 limits")
	}
	if q, err = read(`{resources: {gpu: {quota: -1, limit: -1}}}`); err != nil || len(q.Deserved)+len(q.Capability) > 0 || q.Priority != 0 || q.Weight != 1 {
		t.Errorf("got %+v, %v", q, err)
	}
	if q, err = read(`{resources: {gpu: {quota: 4}}}`); err != nil || q.Capability[gpu] != 4000 || q.Deserved[gpu] != 4000 {
		t.Errorf("without a limit: got %+v, %v", q, err)
	}
	if q, err = read(`{resources: {gpu: {quota: 8, limit: 4}}}`); err != nil || q.Capability[gpu] != 4000 || q.Deserved[gpu] != 4000 {
		t.Errorf("limit below quota: got %+v, %v", q, err)
	}
	if _, problems := arbiter.Usable([]arbiter.Queue{q}); len(problems) > 0 {
		t.Error(problems)
	}
	for spec, field := range map[string]string{
		`{resources: {gpu: {quota: -2}}}`:                                     `spec.resources.gpu.quota: -2`,
		`{resources: {gpu: {quota: many}}}`:                                   `spec.resources.gpu.quota: many is not a number`,
		`{resources: {gpu: {limit: 1.0e300}}}`:                                `spec.resources.gpu.limit`,
		`{resources: {gpu: {overQuotaWeight: 0.5}}}`:                          `spec.resources.gpu.overQuotaWeight: 0.5`,
		`{resources: {gpu: {overQuotaWeight: 2}, cpu: {overQuotaWeight: 3}}}`: `spec.resources.cpu.overQuotaWeight: 3`,
		`{preemptMinRuntime: soon}`:                                           `spec.preemptMinRuntime: "soon"`,
	} {
		if _, err := read(spec); err == nil || !strings.Contains(err.Error(), field) {
			t.Errorf("%s: got %v, want %s", spec, err, field)
		}
	}
}
