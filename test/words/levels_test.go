package words

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tangram-dev/tangram/api/names"
	"github.com/tangram-dev/tangram/config"
)

// group is a Volcano PodGroup with pods of 8 GPUs.
func group(name, namespace, topology string, size int) []byte {
	var b strings.Builder
	fmt.Fprintf(&b, "{apiVersion: scheduling.volcano.sh/v1beta1, kind: PodGroup, metadata: {name: %s, namespace: %s}, spec: {minMember: %d, networkTopology: %s}}\n", name, namespace, size, topology)
	for i := range size {
		fmt.Fprintf(&b, "---\n{apiVersion: v1, kind: Pod, metadata: {name: %s-%d, namespace: %s, annotations: {scheduling.k8s.io/group-name: %s}}, spec: {schedulerName: volcano, containers: [{name: c, image: x, resources: {limits: {nvidia.com/gpu: 8}}}]}}\n", name, i, namespace, name)
	}
	return []byte(b.String())
}

// TestTiers: HyperNodes define tiers that nodes' labels know nothing of; a PodGroup's
// highestTierAllowed is kept, before and after they change.
func TestTiers(t *testing.T) {
	t.Parallel()
	w := ownWorld(t, manifest(t, "crds.yaml"))
	w.namespace(t, "tiers")
	// Without HyperNodes tier 1 is unknown.
	w.apply(t, group("early", "tiers", "{mode: hard, highestTierAllowed: 1}", 3))
	w.says(t, "tiers", "early-0", "PodGroup tiers/early: spec.networkTopology.highestTierAllowed: 1, but the cluster has no HyperNodes")

	// Racks are n-0 and n-1, n-2 and n-3, ...; these switches are across them.
	w.apply(t, []byte(`
apiVersion: topology.volcano.sh/v1alpha1
kind: HyperNode
metadata: {name: s0}
spec: {tier: 1, members: [{type: Node, selector: {exactMatch: {name: n-0}}}, {type: Node, selector: {exactMatch: {name: n-2}}}, {type: Node, selector: {exactMatch: {name: n-4}}}]}
---
apiVersion: topology.volcano.sh/v1alpha1
kind: HyperNode
metadata: {name: s1}
spec: {tier: 1, members: [{type: Node, selector: {regexMatch: {pattern: "^n-(1|3)$"}}}]}
---
apiVersion: topology.volcano.sh/v1alpha1
kind: HyperNode
metadata: {name: spine}
spec: {tier: 2, members: [{type: HyperNode, selector: {regexMatch: {pattern: "^s"}}}]}
`))
	nodesOf := func(prefix string, count int) string {
		names := map[string]bool{}
		for _, p := range w.bound(t, "tiers", prefix, count) {
			names[p.Spec.NodeName] = true
		}
		return fmt.Sprint(names)
	}
	if got, want := nodesOf("early-", 3), "map[n-0:true n-2:true n-4:true]"; got != want {
		t.Errorf("three nodes of one tier 1: got %s, want %s", got, want)
	}
	w.apply(t, group("wide", "tiers", "{mode: hard, highestTierAllowed: 1}", 3))
	w.says(t, "tiers", "wide-0", "tier-1")
	w.clear(t, "tiers")

	w.apply(t, group("spined", "tiers", "{mode: hard, highestTierAllowed: 2}", 5))
	if got, want := nodesOf("spined-", 5), "map[n-0:true n-1:true n-2:true n-3:true n-4:true]"; got != want {
		t.Errorf("five nodes of one tier 2: got %s, want %s", got, want)
	}
	w.never(t)
}

// TestTopologyObject: levels of a Topology object of KAI's need no configuration: a gang
// that requires one of them keeps it, and an object that cannot be read is told so.
func TestTopologyObject(t *testing.T) {
	t.Parallel()
	w := ownWorld(t, manifest(t, "crds.yaml"))
	w.namespace(t, "rows")
	for i := range 8 {
		patch := fmt.Sprintf(`{"metadata":{"labels":{"example.com/row":"r%d"}}}`, i%2)
		if _, err := w.Client.CoreV1().Nodes().Patch(t.Context(), fmt.Sprintf("n-%d", i), "application/merge-patch+json", []byte(patch), metav1.PatchOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	w.apply(t, []byte(`{apiVersion: kai.scheduler/v1alpha1, kind: Topology, metadata: {name: cluster}, spec: {levels: [{nodeLabel: example.com/row}, {nodeLabel: kubernetes.io/hostname}]}}
---
{apiVersion: kai.scheduler/v1alpha1, kind: Topology, metadata: {name: broken}, spec: {levels: [{}]}}
---
{apiVersion: batch/v1, kind: Job, metadata: {name: row, namespace: rows, labels: {kai.scheduler/queue: default}, annotations: {kai.scheduler/batch-min-member: "3", kai.scheduler/topology: cluster, kai.scheduler/topology-required-placement: example.com/row}},
  spec: {parallelism: 3, completions: 3, template: {spec: {schedulerName: kai-scheduler, restartPolicy: Never, containers: [{name: c, image: x, resources: {limits: {nvidia.com/gpu: 8}}}]}}}}`))
	rows := map[string]bool{}
	for _, p := range w.bound(t, "rows", "row-", 3) {
		n, err := w.Client.CoreV1().Nodes().Get(t.Context(), p.Spec.NodeName, metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		rows[n.Labels["example.com/row"]] = true
	}
	if len(rows) != 1 {
		t.Errorf("the gang is in rows %v", rows)
	}
	w.eventually(t, "the broken object is told", func() (bool, string) {
		list, err := w.Client.EventsV1().Events("").List(t.Context(), metav1.ListOptions{})
		if err != nil {
			return false, err.Error()
		}
		for _, e := range list.Items {
			if e.Reason == "InvalidTopology" && e.Regarding.Name == "broken" && strings.Contains(e.Note, "spec.levels[0].nodeLabel") {
				return true, ""
			}
		}
		return false, fmt.Sprintf("%d events", len(list.Items))
	})
}

// TestWithoutKAI: on a cluster without KAI's kinds its pods run all the same, and its queues
// count as soon as they exist. A name that Volcano's Queue has, too, is told.
func TestWithoutKAI(t *testing.T) {
	t.Parallel()
	w := ownWorld(t)
	w.namespace(t, "bare")
	pod := func(name, queue string) []byte {
		return fmt.Appendf(nil, `{apiVersion: v1, kind: Pod, metadata: {name: %s, namespace: bare, labels: {kai.scheduler/queue: %s}, annotations: {gpu-fraction: "0.5"}}, spec: {schedulerName: kai-scheduler, containers: [{name: c, image: x}]}}`, name, queue)
	}
	w.apply(t, pod("first", "default"))
	w.bound(t, "bare", "first", 1)
	w.apply(t, pod("second", "team-x"))
	w.says(t, "bare", "second", "team-x")
	w.apply(t, manifest(t, "crds.yaml"))
	w.apply(t, []byte(`{apiVersion: scheduling.run.ai/v2, kind: Queue, metadata: {name: team-x}, spec: {resources: {gpu: {quota: 1, limit: 1}}}}
---
{apiVersion: scheduling.volcano.sh/v1beta1, kind: Queue, metadata: {name: twice}, spec: {weight: 1}}
---
{apiVersion: scheduling.run.ai/v2, kind: Queue, metadata: {name: twice}, spec: {resources: {gpu: {quota: 0, limit: 0}}}}`))
	w.bound(t, "bare", "second", 1)
	w.apply(t, pod("third", "team-x"))
	w.bound(t, "bare", "third", 1)
	w.apply(t, pod("fourth", "team-x")) // 0.5 and 0.5 of a limit of 1 are used
	w.says(t, "bare", "fourth", "team-x")
	w.apply(t, pod("of-volcano", "twice")) // which has no limit
	w.bound(t, "bare", "of-volcano", 1)
	w.eventually(t, "the queue without effect is told", func() (bool, string) {
		list, err := w.Client.EventsV1().Events("").List(t.Context(), metav1.ListOptions{})
		if err != nil {
			return false, err.Error()
		}
		for _, e := range list.Items {
			if e.Reason == "InvalidQueue" && e.Regarding.Name == "twice" && strings.HasPrefix(e.Regarding.APIVersion, "scheduling.run.ai/") {
				return true, ""
			}
		}
		return false, fmt.Sprintf("%d events", len(list.Items))
	})
	w.never(t)
}

// TestTranslated: with config/admission/kai.yaml KAI's annotations become resources that
// kubelet allocates; what cannot be translated is left to the scheduler, which refuses it.
func TestTranslated(t *testing.T) {
	t.Parallel()
	w := ownWorld(t, config.KAIAdmission())
	w.namespace(t, "parts")
	pod := func(name, annotations, rest string) []byte {
		return fmt.Appendf(nil, `{apiVersion: v1, kind: Pod, metadata: {name: %s, namespace: parts, annotations: {%s}}, spec: {schedulerName: kai-scheduler, containers: [{name: a, image: x}, {name: b, image: x%s}]}}`, name, annotations, rest)
	}
	amounts := func(name string, container int) string {
		p, err := w.Client.CoreV1().Pods("parts").Get(t.Context(), name, metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		var out []string
		for _, list := range []v1.ResourceList{p.Spec.Containers[container].Resources.Limits, p.Spec.Containers[container].Resources.Requests} {
			for _, r := range slices.Sorted(maps.Keys(list)) {
				if q := list[r]; strings.HasPrefix(string(r), "nvidia.com/") {
					out = append(out, strings.TrimPrefix(string(r), "nvidia.com/")+"="+q.String())
				}
			}
		}
		return strings.Join(out, " ")
	}
	// The API server learns of the policy by a watch.
	w.eventually(t, "the policy is in force", func() (bool, string) {
		w.apply(t, pod("probe", `gpu-fraction: "0.5"`, ""))
		got := amounts("probe", 0)
		if got == "" {
			now := int64(0)
			_ = w.Client.CoreV1().Pods("parts").Delete(t.Context(), "probe", metav1.DeleteOptions{GracePeriodSeconds: &now})
		}
		return got == "gpu=1 gpumem-percentage=50 gpu=1 gpumem-percentage=50", got
	})
	w.apply(t, pod("memory", `gpu-memory: "2000", gpu-fraction-num-devices: "2", gpu-fraction-container-name: b, gpu-sm-percentage: "30"`, ", resources: {limits: {cpu: 1}}"))
	if got, want := amounts("memory", 1), "gpu=2 gpucores=30 gpumem=2k gpu=2 gpucores=30 gpumem=2k"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	w.apply(t, pod("wrong", `gpu-fraction: "1.5"`, ""))
	w.says(t, "parts", "wrong", "metadata.annotations[gpu-fraction]")
	for _, name := range []string{"probe", "memory"} {
		for _, p := range w.bound(t, "parts", name, 1) {
			if !strings.Contains(p.Annotations[names.AnnotationDevices], names.ResourceNVIDIA) {
				t.Errorf("%s: the record is %s", name, p.Annotations[names.AnnotationDevices])
			}
		}
	}
	w.never(t)
}
