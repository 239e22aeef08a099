package controller

import (
	"fmt"
	"maps"
	"slices"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"
	scheduling "volcano.sh/apis/pkg/apis/scheduling/v1beta1"

	"github.com/tangram-dev/tangram/api/names"
	"github.com/tangram-dev/tangram/api/v1alpha1"
)

func noCharges() *charges {
	return newCharges(cache.NewStore(cache.MetaNamespaceKeyFunc), cache.NewStore(cache.MetaNamespaceKeyFunc))
}

// placedPod is a running pod on node t4.
func placedPod(name, record string, requests v1.ResourceList) *v1.Pod {
	return &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, UID: types.UID(name), ResourceVersion: "1", Annotations: map[string]string{names.AnnotationDevices: record}},
		Spec: v1.PodSpec{NodeName: "t4", SchedulerName: names.SchedulerName, Containers: []v1.Container{{
			Name: "main", Resources: v1.ResourceRequirements{Requests: requests},
		}}},
		Status: v1.PodStatus{Phase: v1.PodRunning},
	}
}

func spell(list v1.ResourceList) string {
	out := ""
	for _, name := range slices.Sorted(maps.Keys(list)) {
		q := list[name]
		out += fmt.Sprintf("%s=%s ", name, q.String())
	}
	return out
}

// TestAllocatedIsWhatIsCharged: half a T4 is half a GPU in the status of its queue, and
// other requests appear under their own resource names.
func TestAllocatedIsWhatIsCharged(t *testing.T) {
	c := noCharges()
	_ = c.nodes.Add(&v1.Node{ObjectMeta: metav1.ObjectMeta{Name: "t4", ResourceVersion: "1"}, Status: v1.NodeStatus{Allocatable: v1.ResourceList{"nvidia.com/gpu": resource.MustParse("2")}}})
	gn := &v1alpha1.GPUNode{ObjectMeta: metav1.ObjectMeta{Name: "t4", ResourceVersion: "1"}, Spec: v1alpha1.GPUNodeSpec{Devices: []v1alpha1.Device{
		{Index: 0, UUID: "GPU-a", Vendor: "nvidia", Model: "Tesla T4", MemoryMiB: 15360},
	}}}
	_ = c.gpuNodes.Add(gn)
	half := placedPod("half", `{"version":1,"node":"t4","containers":[{"name":"main","resource":"nvidia.com/gpu","devices":[{"index":0,"uuid":"GPU-a","memoryMiB":7680}]}]}`,
		v1.ResourceList{"nvidia.com/gpu": resource.MustParse("1"), "nvidia.com/gpumem": resource.MustParse("7680")})
	half.Labels = map[string]string{names.LabelQueue: "team"}
	slice := placedPod("slice", "", v1.ResourceList{"nvidia.com/mig-3g.40gb": resource.MustParse("1"), "rdma/hca": resource.MustParse("2")})
	slice.Annotations[names.AnnotationVolcanoJobQueue] = "team"
	all := queuesOf("root default team<root")
	const want = "gpu.tangram.dev/t4=500m nvidia.com/gpu=1 nvidia.com/gpumem=7680 nvidia.com/mig-3g.40gb=1 pods=2 rdma/hca=2 "
	pods := []*v1.Pod{half, slice}
	for _, name := range []string{"team", "root"} {
		if got := spell(statusOf(all, pods, c)[name].Allocated); got != want {
			t.Errorf("%s: got  %s\nwant %s", name, got, want)
		}
	}
	// The amounts are kept until the pod or its node changes.
	gn = gn.DeepCopy()
	gn.ResourceVersion, gn.Spec.Devices[0].MemoryMiB = "2", 30720
	_ = c.gpuNodes.Update(gn)
	if q := statusOf(all, pods, c)["team"].Allocated["nvidia.com/gpu"]; q.String() != "750m" {
		t.Errorf("after the node changed: %s GPUs, want 750m", q.String())
	}
	if statusOf(all, pods[:1], c); len(c.pods) != 1 {
		t.Errorf("%d pods are remembered, want 1", len(c.pods))
	}
}

// TestQueueOfStatus: the queue is found by the scheduler's rule. If a PodGroup names
// none, its pods' queue counts; without any, it is the default queue.
func TestQueueOfStatus(t *testing.T) {
	gpu := v1.ResourceList{"nvidia.com/gpu": resource.MustParse("1")}
	named, plain, foreign, cpu := placedPod("named", "", gpu), placedPod("plain", "", gpu), placedPod("foreign", "", gpu), placedPod("cpu", "", nil)
	named.Annotations[scheduling.KubeGroupNameAnnotationKey], named.Labels = "g", map[string]string{names.LabelQueue: "team"}
	foreign.Spec.SchedulerName, cpu.Spec.SchedulerName = "default-scheduler", "default-scheduler"
	groups := []*scheduling.PodGroup{{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "g"}}}
	got, _ := queuesOf("root default team<root").status(groups, []*v1.Pod{named, plain, foreign, cpu}, noCharges())
	for name, want := range map[string]string{"team": "nvidia.com/gpu=1 pods=1 ", "default": "nvidia.com/gpu=2 pods=2 ", "root": "nvidia.com/gpu=3 pods=3 "} {
		if text := spell(got[name].Allocated); text != want {
			t.Errorf("%s: got %s, want %s", name, text, want)
		}
	}
}

// TestQueueOfOtherNamespaces: pods of a namespace that a queue, or one above it, does not
// take are charged to the root alone, as in the scheduler, whatever they name.
func TestQueueOfOtherNamespaces(t *testing.T) {
	gpu := v1.ResourceList{"nvidia.com/gpu": resource.MustParse("1")}
	mine, others := placedPod("mine", "", gpu), placedPod("others", "", gpu)
	others.Namespace = "elsewhere"
	for _, p := range []*v1.Pod{mine, others} {
		p.Labels = map[string]string{names.LabelQueue: "team"}
	}
	all := queuesOf("root default dept<root team<dept")
	all["dept"].Annotations = map[string]string{"tangram.dev/namespaces": "other, ns"}
	got, _ := all.status(nil, []*v1.Pod{mine, others}, noCharges())
	for name, want := range map[string]string{"team": "nvidia.com/gpu=1 pods=1 ", "dept": "nvidia.com/gpu=1 pods=1 ", "default": "", "root": "nvidia.com/gpu=2 pods=2 "} {
		if text := spell(got[name].Allocated); text != want {
			t.Errorf("%s: got %s, want %s", name, text, want)
		}
	}
}

// statusOf is the status of all queues, without PodGroups.
func statusOf(t tree, pods []*v1.Pod, c *charges) map[string]*scheduling.QueueStatus {
	out, _ := t.status(nil, pods, c)
	return out
}
