package v1alpha1_test

import (
	"fmt"
	"reflect"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/cache"

	"github.com/tangram-dev/tangram/api/v1alpha1"
	"github.com/tangram-dev/tangram/internal/kube/inventory"
)

// sample is a valid GPUNode without an empty field. A field counts only beside certain values
// of others, so there are variants: each field has an effect in one of them.
func sample() *v1alpha1.GPUNode {
	gn := &v1alpha1.GPUNode{ObjectMeta: metav1.ObjectMeta{Name: "n"}, Spec: v1alpha1.GPUNodeSpec{
		Devices: []v1alpha1.Device{
			{Index: 1, UUID: "GPU-a", Vendor: "nvidia", Model: "NVIDIA A100-SXM4-80GB", MemoryMiB: 81920, MIG: &v1alpha1.MIG{
				Profiles:  []v1alpha1.MIGProfile{{Name: "1g.10gb", ID: 19, MemoryMiB: 9728, Starts: []int32{1, 2}, Size: 1}},
				Instances: []v1alpha1.MIGInstance{{Profile: "1g.10gb", ProfileID: new(int32), Start: 1, UUID: "MIG-a", Owned: true}},
			}},
			{Index: 2, UUID: "GPU-b", Vendor: "nvidia", Model: "NVIDIA A100-SXM4-80GB", MemoryMiB: 81920},
		},
		Links:    []v1alpha1.Link{{Between: []int32{1, 2}, Class: "NVLink"}},
		Agent:    &v1alpha1.Agent{Mode: v1alpha1.Serving},
		Sharing:  &v1alpha1.Sharing{Strategy: v1alpha1.MPS, Replicas: 4},
		Cordoned: []string{"GPU-b"},
	}, Status: v1alpha1.GPUNodeStatus{Devices: []v1alpha1.DeviceStatus{{Index: 1, UUID: "GPU-a", Health: v1alpha1.Degraded}}}}
	*gn.Spec.Devices[0].MIG.Instances[0].ProfileID = 19
	eachField(gn, true, func(_ string, leaf reflect.Value) {
		if leaf.IsZero() {
			change(leaf)
		}
	})
	return gn
}

var variants = []func(*v1alpha1.GPUNode){
	func(*v1alpha1.GPUNode) {},
	func(gn *v1alpha1.GPUNode) { gn.Spec.Sharing = nil },
	func(gn *v1alpha1.GPUNode) { gn.Spec.Sharing.MaxShares, gn.Spec.Sharing.OnePerContainer = 0, false },
	func(gn *v1alpha1.GPUNode) {
		gn.Spec.Sharing = &v1alpha1.Sharing{Strategy: v1alpha1.TimeSlicing, Replicas: 4}
	},
	func(gn *v1alpha1.GPUNode) { gn.Spec.Sharing = &v1alpha1.Sharing{Strategy: v1alpha1.MPS, MaxShares: 4} },
	func(gn *v1alpha1.GPUNode) { gn.Spec.Devices[0].MIG.Instances[0].Owned = false },
	func(gn *v1alpha1.GPUNode) {
		gn.Spec.Devices[0].MIG.Instances[0].Owned, gn.Spec.Devices[0].MIG.Instances[0].ProfileID = false, nil
	},
	func(gn *v1alpha1.GPUNode) {
		gn.Spec.Agent.Mode, gn.Spec.Devices[0].MIG.Instances = v1alpha1.Observing, nil
	},
}

// seen is what the scheduler makes of a GPUNode.
func seen(t *testing.T, gn *v1alpha1.GPUNode) string {
	t.Helper()
	nodes := cache.NewIndexer(cache.MetaNamespaceKeyFunc, nil)
	node := &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n"}, Status: v1.NodeStatus{Allocatable: v1.ResourceList{"nvidia.com/gpu": resource.MustParse("8")}}}
	if err := nodes.Add(node); err != nil {
		t.Fatal(err)
	}
	inv, err := inventory.Fixed(corelisters.NewNodeLister(nodes), inventory.Objects{GPUNodes: []*v1alpha1.GPUNode{gn}})
	if err != nil {
		t.Fatal(err)
	}
	d, _ := inv.Describe("n")
	return fmt.Sprintf("%+v %+v %v %v %v %v", *d.Node, d.Telemetry, d.MeasuredAt, d.Agent, d.Problem, inv.Troubles("n"))
}

// TestScheduler: a change of a field changes what the scheduler sees, where the table says so.
func TestScheduler(t *testing.T) {
	read := map[string]bool{}
	for _, variant := range variants {
		before := sample()
		variant(before)
		was := seen(t, before)
		for _, path := range paths() {
			gn := sample()
			variant(gn)
			eachField(gn, false, func(at string, leaf reflect.Value) {
				if at == path {
					change(leaf)
				}
			})
			read[path] = read[path] || seen(t, gn) != was
		}
	}
	for _, path := range paths() {
		switch by := fields[path].reader; {
		case by == scheduler && !read[path]:
			t.Errorf("%s is not read by the scheduler (internal/dialect/gpunode.go, internal/kube/inventory)", path)
		case by != scheduler && read[path]:
			t.Errorf("%s is read by the scheduler; the table says that it is read by %s", path, by)
		}
	}
}
