package e2e

import (
	"context"
	"fmt"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tangram-dev/tangram/api/names"
	"github.com/tangram-dev/tangram/api/record"
	"github.com/tangram-dev/tangram/api/v1alpha1"
)

// asking makes a pod's only container ask for something else than whole GPUs.
func asking(amounts map[string]string) func(*v1.Pod) {
	return func(p *v1.Pod) {
		limits := v1.ResourceList{}
		for name, value := range amounts {
			limits[v1.ResourceName(name)] = resource.MustParse(value)
		}
		p.Spec.Containers[0].Resources = v1.ResourceRequirements{Limits: limits}
	}
}

// publish adds to what a node offers and says of itself, as a device plugin does.
func (w *world) publish(node string, allocatable, annotations map[string]string) {
	w.T.Helper()
	nodes := w.Client.CoreV1().Nodes()
	n, err := nodes.Get(context.Background(), node, metav1.GetOptions{})
	w.Must(err)
	if n.Annotations == nil {
		n.Annotations = map[string]string{}
	}
	for k, v := range annotations {
		n.Annotations[k] = v
	}
	if n, err = nodes.Update(context.Background(), n, metav1.UpdateOptions{}); err != nil {
		w.T.Fatal(err)
	}
	for k, v := range allocatable {
		n.Status.Allocatable[v1.ResourceName(k)] = resource.MustParse(v)
		n.Status.Capacity[v1.ResourceName(k)] = resource.MustParse(v)
	}
	if _, err := nodes.UpdateStatus(context.Background(), n, metav1.UpdateOptions{}); err != nil {
		w.T.Fatal(err)
	}
}

// TestOneCardSharedByThree: three pods share a card, a fourth opens the next one, a
// whole-GPU pod gets neither, and one that asks for all compute is alone.
func TestOneCardSharedByThree(t *testing.T) {
	t.Parallel()
	w := newWorld(t, true)
	w.Fleet(`pools: [{name: a100, count: 1, gpu: {model: A100-80GB, count: 4}}]`)
	w.health("a100-0", 3, v1alpha1.Failed)
	// A device plugin that shares cards offers each several times.
	w.publish("a100-0", map[string]string{"nvidia.com/gpu": "40"}, nil)
	w.Scheduler(nil)
	third := map[string]string{"nvidia.com/gpu": "1", "nvidia.com/gpumem": "25000", "nvidia.com/gpucores": "30"}
	device := func(name string) record.Device {
		_, rec := w.Placed(name)
		return rec.Containers[0].Devices[0]
	}
	for i, want := range []int{0, 0, 0, 1} {
		name := fmt.Sprintf("share-%d", i)
		w.Create(pod(name, 0, asking(third)))
		if d := device(name); d.Index != want || d.MemoryMiB != 25000 || d.ComputeMilli != 300 {
			t.Errorf("%s got %+v, want device %d", name, d, want)
		}
	}
	w.Create(pod("whole", 1))
	if d := device("whole"); d.Index != 2 || d.MemoryMiB != 0 {
		t.Errorf("whole got %+v: a whole GPU is never shared, a failed one never given", d)
	}
	w.Create(pod("alone", 0, asking(map[string]string{"nvidia.com/gpu": "1", "nvidia.com/gpucores": "100", "nvidia.com/gpumem": "1000"})))
	w.Waits("alone", "too few GPUs with 1000 MiB and 100% of compute free (0 of 1)")
	w.Delete("whole")
	if d := device("alone"); d.Index != 2 {
		t.Errorf("alone got %+v", d)
	}
	w.Create(pod("huge", 0, asking(map[string]string{"nvidia.com/gpu": "1", "nvidia.com/gpumem": "90000"})))
	w.Waits("huge", "too few GPUs that ever have 90000 MiB free (0 of 1)")
	w.Create(pod("spread", 0, asking(third), func(p *v1.Pod) { p.Annotations[names.AnnotationPlacement] = "spread" }))
	if d := device("spread"); d.Index != 1 {
		t.Errorf("spread got %+v, the emptiest card with room is 1", d)
	}
}

// TestSlices: MIG instances are cut where large ones stay possible, and never
// beside a whole use of the card.
func TestSlices(t *testing.T) {
	t.Parallel()
	w := newWorld(t, true)
	w.Fleet(`pools: [{name: a100, count: 1, gpu: {model: A100-80GB, count: 2, mig: true}}]`)
	s := w.Scheduler(nil)
	slice := func(name, profile string) record.Device {
		w.Create(pod(name, 0, asking(map[string]string{"nvidia.com/mig-" + profile: "1"})))
		_, rec := w.Placed(name)
		return rec.Containers[0].Devices[0]
	}
	if d := slice("small", "1g.10gb"); d.Index != 0 || d.MIG != "1g.10gb" || d.Start != 6 {
		t.Errorf("small got %+v: it belongs at the top", d)
	}
	if d := slice("large", "4g.40gb"); d.Index != 0 || d.Start != 0 {
		t.Errorf("large got %+v: the small one must have left it room", d)
	}
	w.Create(pod("whole", 1))
	if _, rec := w.Placed("whole"); rec.Containers[0].Devices[0].Index != 1 {
		t.Errorf("whole got %+v", rec)
	}
	w.Create(pod("second", 0, asking(map[string]string{"nvidia.com/mig-4g.40gb": "1"})))
	w.Waits("second", "too few GPUs with room for MIG 4g.40gb (0 of 1)")
	w.Create(pod("unknown", 0, asking(map[string]string{"nvidia.com/mig-9g.99gb": "1"})))
	w.Waits("unknown", "too few GPUs that ever have room for MIG 9g.99gb (0 of 1)")
	w.selfCheck(s, 3)
}

// TestOtherDevicePlugins: nodes registered by HAMi, Volcano and cGPU device plugins
// are used as they are, and pods carry what those plugins read.
func TestOtherDevicePlugins(t *testing.T) {
	t.Parallel()
	w := newWorld(t, false)
	w.bareNodes(`pools: [{name: n, count: 3, cpu: 32, memory: 128Gi}]`)
	w.publish("n-0", map[string]string{"nvidia.com/gpu": "20"}, map[string]string{
		"hami.io/node-nvidia-register": `[{"id":"GPU-a","index":0,"count":10,"devmem":24576,"type":"NVIDIA-NVIDIA A10","mode":"hami-core","health":true},{"id":"GPU-b","index":1,"count":10,"devmem":24576,"type":"NVIDIA-NVIDIA A10","mode":"hami-core","health":false}]`,
	})
	w.publish("n-1", map[string]string{"volcano.sh/vgpu-number": "10", "volcano.sh/vgpu-memory": "32768", "volcano.sh/vgpu-cores": "100"}, map[string]string{
		"volcano.sh/node-vgpu-register": "GPU-v,10,32768,NVIDIA-Tesla V100,true,hami-core:",
	})
	w.publish("n-2", map[string]string{"aliyun.com/gpu-count": "2", "aliyun.com/gpu-mem": "32"}, nil)
	w.Scheduler(nil)
	for _, tt := range []struct {
		name, node string
		amounts    map[string]string
		want       map[string]string
	}{
		{"hami", "n-0", map[string]string{"nvidia.com/gpu": "1", "nvidia.com/gpumem": "3000", "nvidia.com/gpucores": "30"},
			map[string]string{"hami.io/vgpu-devices-to-allocate": "GPU-a,NVIDIA,3000,30:;", "hami.io/vgpu-node": "n-0", "hami.io/bind-phase": "allocating"}},
		{"volcano", "n-1", map[string]string{"volcano.sh/vgpu-number": "1", "volcano.sh/vgpu-memory": "4096"},
			map[string]string{"volcano.sh/vgpu-ids-new": "GPU-v,NVIDIA,4096,0:", "volcano.sh/vgpu-node": "n-1", "volcano.sh/bind-phase": "allocating"}},
		{"cgpu", "n-2", map[string]string{"aliyun.com/gpu-mem": "8"},
			map[string]string{"ALIYUN_COM_GPU_MEM_IDX": "0", "ALIYUN_COM_GPU_MEM_POD": "8", "ALIYUN_COM_GPU_MEM_DEV": "16", "ALIYUN_COM_GPU_MEM_ASSIGNED": "false"}},
	} {
		w.Create(pod(tt.name, 0, asking(tt.amounts)))
		if node, _ := w.Placed(tt.name); node != tt.node {
			t.Errorf("%s went to %s", tt.name, node)
		}
		for key, want := range tt.want {
			if got := w.Get(tt.name).Annotations[key]; got != want {
				t.Errorf("%s: %s is %q, want %q", tt.name, key, got, want)
			}
		}
	}
	// The second card of n-0 is unhealthy.
	w.Create(pod("two", 0, asking(map[string]string{"nvidia.com/gpu": "2", "nvidia.com/gpumem": "1"})))
	w.Waits("two", "too few healthy GPUs (1 of 2)")
	w.Create(pod("mps", 0, asking(map[string]string{"nvidia.com/gpu": "1", "nvidia.com/gpumem": "1"}), func(p *v1.Pod) { p.Annotations["nvidia.com/vgpu-mode"] = "mps" }))
	w.Waits("mps", "no label nvidia.com/vgpu-mode=mps")
	w.Create(pod("mixed", 0, asking(map[string]string{"volcano.sh/gpu-memory": "1", "aliyun.com/gpu-mem": "1"})))
	w.Waits("mixed", "two vocabularies in one container")
}
