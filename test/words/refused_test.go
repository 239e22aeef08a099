package words

import (
	"fmt"
	"strings"
	"testing"
)

// TestRefused: what a word asks for and cannot be given is said on the pod, by the field;
// the pod waits.
func TestRefused(t *testing.T) {
	w := sharedWorld(t)
	w.namespace(t, "refused")
	w.apply(t, []byte(`
apiVersion: scheduling.volcano.sh/v1beta1
kind: PodGroup
metadata: {name: row, namespace: refused}
spec: {minMember: 1, networkTopology: {mode: hard, highestTierName: row}}
---
apiVersion: scheduling.run.ai/v2alpha2
kind: PodGroup
metadata: {name: semi, namespace: refused}
spec: {minMember: 1, preemptibility: semi-preemptible}
---
apiVersion: scheduling.run.ai/v2alpha2
kind: PodGroup
metadata: {name: row, namespace: refused}
spec: {minMember: 1, subGroups: [{name: a, minMember: 1, topologyConstraint: {requiredTopologyLevel: example.com/row}}]}
`))
	gpu := "resources: {limits: {nvidia.com/gpu: 1}}"
	for name, tt := range map[string]struct {
		labels, annotations, container, scheduler, want string
	}{
		"kai-fraction":      {"", `gpu-fraction: "1.5"`, "", "kai-scheduler", "metadata.annotations[gpu-fraction]"},
		"kai-both":          {"", `gpu-fraction: "0.5"`, gpu, "kai-scheduler", "metadata.annotations[gpu-fraction]: two vocabularies in one container"},
		"kai-memory":        {"", `gpu-memory: 2Gi`, "", "kai-scheduler", "metadata.annotations[gpu-memory]"},
		"kai-devices":       {"", `gpu-fraction: "0.5", gpu-fraction-num-devices: many`, "", "kai-scheduler", "metadata.annotations[gpu-fraction-num-devices]"},
		"kai-container":     {"", `gpu-fraction: "0.5", gpu-fraction-container-name: x`, "", "kai-scheduler", "metadata.annotations[gpu-fraction-container-name]"},
		"kai-limit":         {"", `gpu-fraction: "0.5", gpu-fraction.limit: "0.9"`, "", "kai-scheduler", "metadata.annotations[gpu-fraction.limit]"},
		"kai-preemptible":   {"kai.scheduler/preemptibility: semi-preemptible", "", gpu, "kai-scheduler", "metadata.labels[kai.scheduler/preemptibility]"},
		"kai-delay":         {"", "kai.scheduler/preemption-delay: soon", gpu, "kai-scheduler", "metadata.annotations[kai.scheduler/preemption-delay]"},
		"kai-segments":      {"", `kai.scheduler/segment-size: "4"`, gpu, "kai-scheduler", "metadata.annotations[kai.scheduler/segment-size]"},
		"kai-level":         {"", "kai.scheduler/topology-required-placement: example.com/row", gpu, "kai-scheduler", "metadata.annotations[kai.scheduler/topology-required-placement]"},
		"kai-group":         {"", "pod-group-name: semi", gpu, "kai-scheduler", "PodGroup refused/semi: spec.preemptibility"},
		"kai-subgroup":      {"", "pod-group-name: row", gpu, "kai-scheduler", "PodGroup refused/row: spec.subGroups[0].topologyConstraint.requiredTopologyLevel"},
		"kai-queue":         {"kai.scheduler/queue: nowhere", "", gpu, "kai-scheduler", "nowhere"},
		"volcano-tier-name": {"", "scheduling.k8s.io/group-name: row", gpu, "volcano", "PodGroup refused/row: spec.networkTopology.highestTierName"},
		"volcano-mode":      {"", "volcano.sh/network-topology-mode: firm", gpu, "volcano", "metadata.annotations[volcano.sh/network-topology-mode]"},
		"kueue-level":       {"", "kueue.x-k8s.io/podset-required-topology: example.com/row", gpu, "gpu-scheduler", "metadata.annotations[kueue.x-k8s.io/podset-required-topology]"},
		"kueue-slices":      {"", "kueue.x-k8s.io/podset-slice-required-topology: topology.kubernetes.io/rack", gpu, "gpu-scheduler", "metadata.annotations[kueue.x-k8s.io/podset-slice-required-topology]"},
		"koord-core":        {"", "", "resources: {limits: {koordinator.sh/gpu-core: 50}}", "koord-scheduler", "spec.containers[0].resources.requests[koordinator.sh/gpu-core]"},
		"koord-joint":       {"", `scheduling.koordinator.sh/device-joint-allocate: "{}"`, "resources: {limits: {koordinator.sh/gpu: 100}}", "koord-scheduler", "metadata.annotations[scheduling.koordinator.sh/device-joint-allocate]"},
		"koord-gang":        {"", "gang.scheduling.koordinator.sh/name: g", gpu, "koord-scheduler", "metadata.annotations[gang.scheduling.koordinator.sh/min-available]"},
		"job-id":            {"job-id: train", "", gpu, "custom-scheduler", "metadata.labels[tangram.dev/gang-size]"},
	} {
		w.apply(t, fmt.Appendf(nil, `{apiVersion: v1, kind: Pod, metadata: {name: %s, namespace: refused, labels: {%s}, annotations: {%s}},
  spec: {schedulerName: %s, containers: [{name: c, image: x, %s}]}}`, name, tt.labels, tt.annotations, tt.scheduler, strings.TrimSpace(tt.container)))
		t.Run(name, func(t *testing.T) { w.says(t, "refused", name, tt.want) })
	}
	// They keep no other pod from starting.
	w.apply(t, []byte(`{apiVersion: v1, kind: Pod, metadata: {name: fine, namespace: refused, annotations: {gpu-fraction: "0.25"}}, spec: {schedulerName: kai-scheduler, containers: [{name: c, image: x}]}}`))
	w.bound(t, "refused", "fine", 1)
}
