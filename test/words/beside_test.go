package words

import (
	"context"
	"fmt"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tangram-dev/tangram/api/names"
	"github.com/tangram-dev/tangram/lab/operators"
)

// TestSideBySide: what users of KAI, Volcano, HAMi, Koordinator and Kueue apply runs
// unchanged on one cluster, in one tree of queues of both kinds, and no device is given
// twice.
func TestSideBySide(t *testing.T) {
	w := ownWorld(t, manifest(t, "crds.yaml"))
	w.kueue(t)
	w.apply(t, manifest(t, "queues.yaml"))
	for _, user := range []string{"kai", "volcano", "hami", "koordinator", "kueue"} {
		w.apply(t, manifest(t, user+".yaml"))
	}
	queueOf := func(pods []v1.Pod, want string) {
		t.Helper()
		for _, p := range pods {
			if got := p.Annotations[names.AnnotationCharged]; got != want {
				t.Errorf("%s is charged to queue %q, want %q", p.Name, got, want)
			}
		}
	}
	queueOf(w.bound(t, "default", "half-", 2), "team-a")
	queueOf(w.bound(t, "default", "memory-on-two", 1), "team-a")
	queueOf(w.bound(t, "default", "kai-train-", 4), "team-a")
	queueOf(w.bound(t, "default", "volcano-train-", 3), "lab")
	queueOf(w.bound(t, "default", "hami-share", 1), "default")
	queueOf(w.bound(t, "default", "koord-", 3), "lab")
	inOneRack(t, w, w.bound(t, "default", "kueue-train-", 3))
	if got := w.never(t); got != 17 {
		t.Errorf("%d pods have a record, want 17", got)
	}
	for _, p := range w.bound(t, "default", "koord-share", 1) {
		if p.Annotations["scheduling.koordinator.sh/device-allocated"] == "" {
			t.Error("Koordinator's agent is not told the device")
		}
	}

	// team-a has a limit of 8 GPUs: 4 are the Job's, the shares take 1 and a little of two.
	for i := range 4 {
		w.apply(t, fmt.Appendf(nil, `{apiVersion: v1, kind: Pod, metadata: {name: more-%d, namespace: default, labels: {kai.scheduler/queue: team-a}},
  spec: {schedulerName: kai-scheduler, containers: [{name: c, image: x, resources: {limits: {nvidia.com/gpu: 1}}}]}}`, i))
	}
	w.bound(t, "default", "more-", 2)
	waits := ""
	for _, p := range w.pods(t, "default", "more-") {
		if p.Spec.NodeName == "" {
			waits = p.Name
		}
	}
	w.says(t, "default", waits, "team-a")
	w.never(t)
}

// kueueQueues let the Job of Kueue's user in, in one rack.
const kueueQueues = `
apiVersion: kueue.x-k8s.io/v1beta2
kind: Topology
metadata: {name: racks}
spec: {levels: [{nodeLabel: topology.kubernetes.io/rack}, {nodeLabel: kubernetes.io/hostname}]}
---
apiVersion: kueue.x-k8s.io/v1beta2
kind: ResourceFlavor
metadata: {name: racks}
spec: {nodeLabels: {kubernetes.io/os: linux}, topologyName: racks}
---
apiVersion: kueue.x-k8s.io/v1beta2
kind: ClusterQueue
metadata: {name: research}
spec:
  namespaceSelector: {}
  resourceGroups:
  - coveredResources: [cpu, nvidia.com/gpu]
    flavors: [{name: racks, resources: [{name: cpu, nominalQuota: 64}, {name: nvidia.com/gpu, nominalQuota: 64}]}]
---
apiVersion: kueue.x-k8s.io/v1beta2
kind: LocalQueue
metadata: {name: user-queue, namespace: default}
spec: {clusterQueue: research}
`

// kueue runs Kueue itself beside Tangram, with a queue.
func (w *world) kueue(t *testing.T) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	if _, err := operators.Run(ctx, "kueue", operators.Options{Cluster: w.Cluster.Cluster, Bin: w.Bin, Config: "integrations: {frameworks: [batch/job]}"}); err != nil {
		t.Fatal(err)
	}
	w.apply(t, []byte(kueueQueues))
}

// inOneRack checks that pods share a rack.
func inOneRack(t *testing.T, w *world, pods []v1.Pod) {
	t.Helper()
	racks := map[string]bool{}
	for _, p := range pods {
		n, err := w.Client.CoreV1().Nodes().Get(t.Context(), p.Spec.NodeName, metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		racks[n.Labels["topology.kubernetes.io/rack"]] = true
	}
	if len(racks) != 1 {
		t.Errorf("%d pods are in racks %v", len(pods), racks)
	}
}
