package state

import (
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	cachetesting "k8s.io/client-go/tools/cache/testing"

	"github.com/tangram-dev/tangram/api/names"
	"github.com/tangram-dev/tangram/core/explain"
	"github.com/tangram-dev/tangram/core/model"
	"github.com/tangram-dev/tangram/core/topology"
	"github.com/tangram-dev/tangram/internal/dialect"
)

// nodeTopology is a NodeResourceTopology of two NUMA nodes with two GPUs each.
func nodeTopology(name, policy string) *unstructured.Unstructured {
	zone := map[string]any{"type": "Node", "resources": []any{map[string]any{"name": names.ResourceNVIDIA, "capacity": "2"}}}
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": dialect.NodeTopologies.GroupVersion().String(), "kind": "NodeResourceTopology",
		"metadata":   map[string]any{"name": name},
		"attributes": []any{map[string]any{"name": "topologyManagerPolicy", "value": policy}},
		"zones":      []any{zone, zone},
	}}
}

// TestFollowsNodeTopologies: what a NodeResourceTopology says counts as soon as it is
// said, and no longer; a pod that waited for it is woken.
func TestFollowsNodeTopologies(t *testing.T) {
	s := newSetup(t, nil)
	s.addNode(testNode("n", 4))
	three := request(t, testPod("three", 3))
	s.eventually("the node is there", func() bool { return s.room(three) == 1 })
	s.topologies.Add(nodeTopology("n", "single-numa-node"))
	s.eventually("three GPUs are never on one NUMA node", func() bool {
		refusal := s.Fit(three, "n", nil)
		return refusal != nil && refusal.Code == explain.Apart
	})
	if _, err := s.Check(); err != nil {
		t.Error(err)
	}
	pod := testPod("three", 3)
	s.addPod(pod)
	s.eventually("the pod is known to wait", func() bool {
		s.Wait(pod, three)
		s.Cluster.mu.RLock()
		defer s.Cluster.mu.RUnlock()
		return len(s.waits) == 1
	})
	s.topologies.Modify(nodeTopology("n", "restricted"))
	s.eventually("restricted takes two NUMA nodes where one would never do", func() bool { return s.room(three) == 1 })
	s.eventually("the pod is woken", func() bool {
		s.mu.Lock()
		defer s.mu.Unlock()
		return s.woken > 0
	})
	s.topologies.Modify(nodeTopology("n", "strict"))
	s.eventually("nonsense is reported", func() bool {
		s.mu.Lock()
		defer s.mu.Unlock()
		return len(s.reports) == 1
	})
	s.topologies.Delete(nodeTopology("n", "strict"))
	s.eventually("no policy", func() bool {
		s.Cluster.mu.RLock()
		defer s.Cluster.mu.RUnlock()
		v, ok := s.ledger.View("n")
		return ok && v.Node.NUMA == model.AnyNUMA
	})
}

// TestStartsWithoutNodeTopologies: their CRD may be missing, and may come.
func TestStartsWithoutNodeTopologies(t *testing.T) {
	late := &absent{FakeControllerSource: cachetesting.NewFakeControllerSource()}
	gpuNodes := cachetesting.NewFakeControllerSource()
	client := fake.NewClientset(testNode("n", 4))
	factory := informers.NewSharedInformerFactory(client, 0)
	c, err := New(t.Context(), factory, Sources{GPUNodes: gpuNodes, NodeTopologies: late},
		func(*v1.ObjectReference, string, string) {}, func(*Cluster, model.NodeID) {})
	if err != nil {
		t.Fatal(err)
	}
	factory.Start(t.Context().Done())
	t.Cleanup(func() { late.Shutdown(); gpuNodes.Shutdown() })
	if !c.WaitForSync(t.Context()) {
		t.Fatal("not in sync")
	}
	s := &setup{Cluster: c, t: t}
	three := request(t, testPod("three", 3))
	if s.room(three) != 1 {
		t.Error("without a policy the node takes the pod")
	}
	late.Add(nodeTopology("n", "single-numa-node"))
	late.mu.Lock()
	late.serves = true
	late.mu.Unlock()
	s.eventually("the policy counts once the CRD is there", func() bool { return s.room(three) == 0 })
}

// TestLevels: the levels of domains are configured; a node is where its labels of
// those levels say.
func TestLevels(t *testing.T) {
	s := newSetup(t, nil)
	node := testNode("n", 4)
	node.Labels = map[string]string{"example.com/row": "7"}
	s.addNode(node)
	pod := testPod("p", 1)
	pod.Annotations = map[string]string{names.AnnotationTopology: "required=row"}
	if _, err := s.Request(pod, Profile{}); err == nil {
		t.Error("nobody has configured rows")
	}
	s.SetLevels(topology.Levels{{Name: "row", Label: "example.com/row"}})
	r, err := s.Request(pod, Profile{})
	if err != nil {
		t.Fatal(err)
	}
	s.eventually("the node is in a row", func() bool { return s.room(r) == 1 })
	s.SetLevels(topology.Levels{{Name: "row", Label: "example.com/other"}})
	if r, err = s.Request(pod, Profile{}); err != nil {
		t.Fatal(err)
	}
	if refusal := s.Fit(r, "n", nil); refusal == nil || refusal.String() != "no row (label example.com/other)" {
		t.Errorf("got %v", refusal)
	}
}
