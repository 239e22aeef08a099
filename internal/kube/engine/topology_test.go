package engine

import (
	"strings"
	"sync"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	apiwatch "k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	cachetesting "k8s.io/client-go/tools/cache/testing"

	"github.com/tangram-dev/tangram/api/names"
	"github.com/tangram-dev/tangram/api/v1alpha1"
	"github.com/tangram-dev/tangram/core/explain"
	"github.com/tangram-dev/tangram/core/model"
	"github.com/tangram-dev/tangram/core/topology"
	"github.com/tangram-dev/tangram/internal/dialect"
	"github.com/tangram-dev/tangram/internal/kube/observe"
	"github.com/tangram-dev/tangram/internal/kube/report"
	"github.com/tangram-dev/tangram/internal/kube/watch"
)

// absent is an API server that does not serve a kind until told to.
type absent struct {
	*cachetesting.FakeControllerSource
	mu     sync.Mutex
	serves bool
}

func (a *absent) refuses() error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.serves {
		return nil
	}
	return apierrors.NewNotFound(v1alpha1.GPUNodes.GroupResource(), "")
}

func (a *absent) List(o metav1.ListOptions) (runtime.Object, error) {
	if err := a.refuses(); err != nil {
		return nil, err
	}
	return a.FakeControllerSource.List(o)
}

func (a *absent) Watch(o metav1.ListOptions) (apiwatch.Interface, error) {
	if err := a.refuses(); err != nil {
		return nil, err
	}
	return a.FakeControllerSource.Watch(o)
}

func (a *absent) serve() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.serves = true
}

// live is an engine over a fake API server's informers, with one node.
func live(t *testing.T, gpus int64, from watch.Sources) *setup {
	t.Helper()
	factory := informers.NewSharedInformerFactory(fake.NewClientset(testNode("n", gpus)), 0)
	e, err := New(Config{Factory: factory, Sources: from, Observer: observe.New(), Reporter: func(report.Complaint) {}})
	must(t, err)
	e.Run(t.Context())
	factory.Start(t.Context().Done())
	if !e.WaitForSync(t.Context()) {
		t.Fatal("not in sync")
	}
	return &setup{Engine: e, t: t}
}

// TestStartsWithoutGPUNodes: a cluster without the CRD syncs, and takes GPUNodes up when
// they come.
func TestStartsWithoutGPUNodes(t *testing.T) {
	late := &absent{FakeControllerSource: cachetesting.NewFakeControllerSource()}
	defer late.Shutdown()
	s := live(t, 1, watch.Sources{GPUNodes: late})
	r := request(t, testPod("p", 1))
	if s.room(r) != 1 {
		t.Error("not derived from allocatable, or not in the ledger when in sync")
	}
	late.Add(&v1alpha1.GPUNode{ObjectMeta: metav1.ObjectMeta{Name: "n"}, Spec: v1alpha1.GPUNodeSpec{Devices: []v1alpha1.Device{
		{Index: 0, Vendor: "nvidia", Model: "T4", MemoryMiB: 1},
	}}, Status: v1alpha1.GPUNodeStatus{Devices: []v1alpha1.DeviceStatus{{Index: 0, Health: v1alpha1.Failed}}}})
	late.serve()
	s.eventually("the GPUNode counts", func() bool { return s.room(r) == 0 })
}

// TestStartsWithoutNodeTopologies: their CRD may be missing, and may come.
func TestStartsWithoutNodeTopologies(t *testing.T) {
	late, gpuNodes := &absent{FakeControllerSource: cachetesting.NewFakeControllerSource()}, cachetesting.NewFakeControllerSource()
	defer late.Shutdown()
	defer gpuNodes.Shutdown()
	s := live(t, 4, watch.Sources{GPUNodes: gpuNodes, NodeTopologies: late})
	three := request(t, testPod("three", 3))
	if s.room(three) != 1 {
		t.Error("without a policy the node takes the pod")
	}
	late.Add(nodeTopology("n", "single-numa-node"))
	late.serve()
	s.eventually("the policy counts once the CRD is there", func() bool { return s.room(three) == 0 })
}

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
// said, and no longer; a pod that waited for it starts.
func TestFollowsNodeTopologies(t *testing.T) {
	s := newSetup(t, 0)
	s.addNode(testNode("n", 4))
	three := request(t, testPod("three", 3))
	if s.room(three) != 1 {
		t.Fatal("the node is not there")
	}
	s.topologies.Add(nodeTopology("n", "single-numa-node"))
	s.eventually("three GPUs are never on one NUMA node", func() bool {
		refusal := s.Fit(three, "n", nil)
		return refusal != nil && refusal.Code == explain.Apart
	})
	if _, err := s.Check(); err != nil {
		t.Error(err)
	}
	pod := s.member("three", "", 0, 3)
	s.add(pod)
	if turn := s.Step(); len(turn.Activate) > 0 {
		t.Fatal("it does not fit")
	}
	s.topologies.Modify(nodeTopology("n", "restricted"))
	s.eventually("restricted takes two NUMA nodes where one would never do, and the pod starts", func() bool { s.Step(); return s.gate.Released(pod) })
	s.topologies.Modify(nodeTopology("n", "strict"))
	s.eventually("an invalid policy is reported", func() bool {
		s.Sync()
		return s.said() != "" && !strings.Contains(s.said(), "\n")
	})
	s.topologies.Delete(nodeTopology("n", "strict"))
	s.eventually("no policy", func() bool {
		d, ok := s.inventory.Describe("n")
		return ok && d.Node.NUMA == model.AnyNUMA
	})
}

// TestLevels: the levels of domains are configured; a node is where its labels of
// those levels say.
func TestLevels(t *testing.T) {
	s := newSetup(t, 0)
	node := testNode("n", 4)
	node.Labels = map[string]string{"example.com/row": "7"}
	s.addNode(node)
	pod := testPod("p", 1)
	pod.Annotations = map[string]string{names.AnnotationTopology: "required=row"}
	if _, err := s.Request(pod); err == nil {
		t.Error("rows are not configured")
	}
	s.setLevels(topology.Levels{{Name: "row", Label: "example.com/row"}})
	r, err := s.Request(pod)
	must(t, err)
	if s.room(r) != 1 {
		t.Error("the node is not in a row")
	}
	s.setLevels(topology.Levels{{Name: "row", Label: "example.com/other"}})
	r, err = s.Request(pod)
	must(t, err)
	if refusal := s.Fit(r, "n", nil); refusal == nil || refusal.String() != "no row (label example.com/other)" {
		t.Errorf("got %v", refusal)
	}
}
