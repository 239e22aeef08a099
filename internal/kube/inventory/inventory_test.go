package inventory

import (
	"slices"
	"sync"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/cache"
	cachetesting "k8s.io/client-go/tools/cache/testing"

	"github.com/tangram-dev/tangram/api/names"
	"github.com/tangram-dev/tangram/api/v1alpha1"
	"github.com/tangram-dev/tangram/core/topology"
	"github.com/tangram-dev/tangram/internal/kube/watch"
)

// TestDescribe: a node is what its objects say when it is asked about; the object that
// is wrong is named, and what can be used of it counts.
func TestDescribe(t *testing.T) {
	nodes := cache.NewIndexer(cache.MetaNamespaceKeyFunc, cache.Indexers{})
	source := cachetesting.NewFakeControllerSource()
	defer source.Shutdown()
	var mu sync.Mutex
	var changed []string
	i, err := New(corelisters.NewNodeLister(nodes), watch.Sources{GPUNodes: source}, func(node string) {
		mu.Lock()
		defer mu.Unlock()
		changed = append(changed, node)
	}, func() {})
	if err != nil {
		t.Fatal(err)
	}
	i.Run(t.Context())
	eventually := func(what string, holds func() bool) {
		t.Helper()
		for deadline := time.Now().Add(time.Minute); !holds(); time.Sleep(time.Millisecond) {
			if time.Now().After(deadline) {
				t.Fatalf("not within a minute: %s", what)
			}
		}
	}
	eventually("synced", i.Synced)
	if _, ok := i.Describe("n"); ok || len(i.All()) > 0 {
		t.Error("a node that is not there is described")
	}
	node := &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n", Labels: map[string]string{"example.com/row": "7"}}, Status: v1.NodeStatus{Allocatable: v1.ResourceList{
		names.ResourceNVIDIA: *resource.NewQuantity(2, resource.DecimalSI)}}}
	if err := nodes.Add(node); err != nil {
		t.Fatal(err)
	}
	d, ok := i.Describe("n")
	if !ok || d.Problem != nil || d.About.Kind != "Node" || len(d.Node.Devices) != 2 || d.Object != node || len(i.All()) != 1 {
		t.Errorf("got %+v, %v", d, ok)
	}
	busy := int32(90)
	source.Add(&v1alpha1.GPUNode{ObjectMeta: metav1.ObjectMeta{Name: "n"},
		Spec:   v1alpha1.GPUNodeSpec{Devices: []v1alpha1.Device{{Index: 0, UUID: "a", Vendor: "nvidia", Model: "T4", MemoryMiB: 15360}, {Index: 1, UUID: "a", Vendor: "nvidia", Model: "T4", MemoryMiB: 15360}}},
		Status: v1alpha1.GPUNodeStatus{Devices: []v1alpha1.DeviceStatus{{Health: v1alpha1.Healthy, UtilizationPercent: &busy}}}})
	eventually("the GPUNode is told", func() bool { mu.Lock(); defer mu.Unlock(); return slices.Contains(changed, "n") })
	if d, _ = i.Describe("n"); d.Problem == nil || d.About.Kind != "GPUNode" || d.Node == nil || len(d.Telemetry) == 0 {
		t.Errorf("two devices of one UUID: got %+v", d)
	}
	if got := i.Levels(); len(got) != len(topology.DefaultLevels()) {
		t.Errorf("levels %v", got)
	}
	i.SetLevels(topology.Levels{{Name: "row", Label: "example.com/row"}})
	if d, _ = i.Describe("n"); !slices.Equal(d.Node.Domains, []string{"7"}) {
		t.Errorf("domains %v", d.Node.Domains)
	}
	if i.SetLevels(nil); i.Levels() == nil || len(i.Levels()) > 0 {
		t.Errorf("none is not the default: %v", i.Levels())
	}
}
