package e2e

import (
	"bytes"
	"context"
	"fmt"
	"testing"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tangram-dev/tangram/api/names"
	"github.com/tangram-dev/tangram/config"
	"github.com/tangram-dev/tangram/test/cluster"
	"github.com/tangram-dev/tangram/test/scenario"
)

// near asks that a pod's GPUs be close.
func near(value string) func(*v1.Pod) {
	return func(p *v1.Pod) { p.Annotations[names.AnnotationTopology] = value }
}

// devices waits until a pod is placed and returns where, and on which devices.
func (w *world) devices(name string) string {
	w.T.Helper()
	node, rec := w.Placed(name)
	var indexes []int
	for _, c := range rec.Containers {
		for _, d := range c.Devices {
			indexes = append(indexes, d.Index)
		}
	}
	return fmt.Sprint(node, " ", indexes)
}

// TestTopologyLinkedFour: on a node of two NVLink halves, one of them broken by a
// single pod, a pod of four gets exactly the other half; one that insists on links
// waits rather than span both.
func TestTopologyLinkedFour(t *testing.T) {
	t.Parallel()
	w := newWorld(t, true)
	w.Fleet(`
pools:
- name: v100
  count: 1
  gpu:
    model: V100-32GB
    count: 8
    links:
    - {between: [0, 1, 2, 3], class: NVLink, count: 2}
    - {between: [4, 5, 6, 7], class: NVLink, count: 2}
`)
	s := w.Scheduler(nil)
	w.Create(pod("single", 1, func(p *v1.Pod) { p.Annotations[names.AnnotationUseIndex] = "1" }))
	if got := w.devices("single"); got != "v100-0 [1]" {
		t.Errorf("single: got %s", got)
	}
	w.Create(pod("four", 4))
	if got := w.devices("four"); got != "v100-0 [4 5 6 7]" {
		t.Errorf("four: got %s, want the unbroken half", got)
	}
	w.Delete("four")
	w.Create(pod("other", 1, func(p *v1.Pod) { p.Annotations[names.AnnotationUseIndex] = "5" }))
	w.Placed("other")
	w.Create(pod("linked", 4, near("required=nvlink")))
	w.Waits("linked", "1 has too few free GPUs joined by NVLink (3 of 4)")
	w.Create(pod("never", 5, near("required=nvlink")))
	w.Waits("never", "1 has too few GPUs joined by NVLink (4 of 5)")
	w.Delete("other")
	if got := w.devices("linked"); got != "v100-0 [4 5 6 7]" {
		t.Errorf("linked: got %s", got)
	}
	w.selfCheck(s, 2)
}

// TestTopologyLevelsOfTheConfiguration: the levels of domains come from GPUFilter's
// arguments and replace the default ones.
func TestTopologyLevelsOfTheConfiguration(t *testing.T) {
	t.Parallel()
	w := newWorld(t, true)
	w.Fleet(`pools: [{name: n, count: 2, gpu: {model: A10, count: 1}}]`)
	node := cluster.Read[v1.Node](w.World, cluster.Nodes, "n-1")
	node.Labels["example.com/row"] = "7"
	if _, err := w.Client.CoreV1().Nodes().Update(context.Background(), node, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	levels := []byte("  - name: GPUFilter\n    args:\n      topologyLevels: [{name: row, label: example.com/row}]\n  - name: GPUScore\n")
	w.Scheduler(bytes.Replace(config.Scheduler(), []byte("  - name: GPUScore\n    args"), append(levels, "    args"...), 1))
	w.Create(pod("in-a-row", 1, near("required=row")))
	if got := w.devices("in-a-row"); got != "n-1 [0]" {
		t.Errorf("got %s", got)
	}
	w.Create(pod("next", 1, near("required=row")))
	w.Waits("next", "1 has no row (label example.com/row)", "1 has too few free GPUs (0 of 1)")
	w.Create(pod("racked", 1, near("required=rack")))
	w.Waits("racked", `"rack" is not one of row, node, numa`)
}

// TestTopologyOfKubelets: a NodeResourceTopology counts, also when its CRD is
// installed while the scheduler runs.
func TestTopologyOfKubelets(t *testing.T) {
	t.Parallel()
	w := fleetWorld(t, `pools: [{name: n, count: 1, gpu: {model: A10, count: 4, numaNodes: 2}}]`)
	w.Create(pod("first", 3))
	w.Placed("first")
	w.Delete("first")
	for _, doc := range [][]byte{scenario.NodeTopologyCRD, []byte(nodeTopology)} {
		w.Must(w.ApplyManifests(context.Background(), doc))
	}
	// The scheduler looks for the CRD with growing pauses of up to half a minute.
	attempt := 0
	w.Eventually("three GPUs refused", func() (bool, string) {
		attempt++
		name := fmt.Sprintf("three-%d", attempt)
		w.Create(pod(name, 3))
		w.Eventually(name+" answered", func() (bool, string) {
			p := w.Get(name)
			return p.Spec.NodeName != "" || cluster.Waiting(p) != "no PodScheduled condition", cluster.Waiting(p)
		})
		p := w.Get(name)
		w.Delete(name)
		return p.Spec.NodeName == "", p.Spec.NodeName
	})
	w.Create(pod("three", 3))
	w.Waits("three", "too few GPUs on one NUMA node as kubelet's policy single-numa-node demands (2 of 3)")
	w.Create(pod("two", 2))
	if got := w.devices("two"); got != "n-0 [0 1]" {
		t.Errorf("got %s", got)
	}
}

const nodeTopology = `
apiVersion: topology.node.k8s.io/v1alpha2
kind: NodeResourceTopology
metadata: {name: n-0}
attributes:
- {name: topologyManagerPolicy, value: single-numa-node}
- {name: topologyManagerScope, value: pod}
zones:
- {name: node-0, type: Node, resources: [{name: nvidia.com/gpu, capacity: "2", allocatable: "2", available: "2"}]}
- {name: node-1, type: Node, resources: [{name: nvidia.com/gpu, capacity: "2", allocatable: "2", available: "2"}]}
`
