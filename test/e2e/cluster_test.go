package e2e

import (
	"context"
	"fmt"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/tangram-dev/tangram/api/names"
	"github.com/tangram-dev/tangram/api/v1alpha1"
	"github.com/tangram-dev/tangram/config"
	"github.com/tangram-dev/tangram/test/cluster"
)

// TestBareCluster: no CRD of ours, no agent. Labels and allocatable are enough;
// and when the CRD and GPUNodes come later, they are noticed.
func TestBareCluster(t *testing.T) {
	t.Parallel()
	w := newWorld(t, false)
	const fleet = `pools: [{name: v100, count: 2, gpu: {model: V100-32GB, count: 4}}]`
	w.bareNodes(fleet)
	w.Scheduler(nil)
	w.Create(pod("a", 3, cluster.Model("V100")))
	node, rec := w.Placed("a")
	if d := rec.Containers[0].Devices; len(d) != 3 || d[0].UUID != "" {
		t.Errorf("devices %+v", d)
	}
	w.Create(pod("b", 1))
	if n, _ := w.Placed("b"); n != node {
		t.Errorf("b should fill %s, went to %s", node, n)
	}
	w.Create(pod("c", 1, cluster.Model("A100")))
	w.Waits("c", "2 have too few GPUs of model a100 (0 of 1)")

	w.Must(w.ApplyManifests(context.Background(), config.CRDs()))
	w.Fleet(fleet) // the same nodes, now with GPUNodes
	w.Create(pod("d", 1, func(p *v1.Pod) { p.Annotations[names.AnnotationUseUUID] = w.uuid("v100-1", 2) }))
	// The watch is tried again with pauses of up to half a minute.
	w.Eventually("d is placed by UUID", func() (bool, string) {
		p := w.Get("d")
		return p.Spec.NodeName == "v100-1", cluster.Waiting(p)
	})
}

// TestWaitingPodsWake: a pod that waits starts when, and only when, something
// gives it room: another ends, a device recovers, a node comes or changes.
func TestWaitingPodsWake(t *testing.T) {
	t.Parallel()
	w := fleetWorld(t, `pools: [{name: a100, count: 1, gpu: {model: A100-80GB, count: 4}}]`)
	w.Create(pod("first", 3))
	w.Placed("first")
	w.Create(pod("second", 4))
	w.Waits("second", "1 has too few free GPUs (1 of 4)")

	// Deletion with a finalizer: the pod is terminating, its devices are not free.
	first := w.Get("first")
	first.Finalizers = []string{"tangram.dev/test"}
	w.Update(first)
	w.Delete("first")
	w.Create(pod("third", 2))
	w.Waits("third", "too few free GPUs (1 of 2)")
	w.Delete("third")
	first = w.Get("first")
	if first.DeletionTimestamp == nil {
		t.Fatal("first should be terminating")
	}
	first.Finalizers = nil
	w.Update(first)
	w.Placed("second")

	// A pod that finishes gives its devices back.
	w.Create(pod("fourth", 4))
	w.Waits("fourth", "too few free GPUs (0 of 4)")
	second := w.Get("second")
	second.Status.Phase = v1.PodSucceeded
	w.UpdateStatus(second)
	w.Placed("fourth")

	// A device fails and recovers: GPUNodes are followed too.
	w.Delete("fourth")
	w.health("a100-0", 2, v1alpha1.Failed)
	w.Eventually("the failed device is kept back", func() (bool, string) {
		name := fmt.Sprintf("try-%d", time.Now().UnixNano())
		w.Create(pod(name, 4))
		defer w.Delete(name)
		var p *v1.Pod
		w.Eventually("the scheduler has answered", func() (bool, string) {
			p = w.Get(name)
			return p.Spec.NodeName != "" || cluster.Scheduled(p).Message != "", cluster.Waiting(p)
		})
		return p.Spec.NodeName == "", cluster.Waiting(p)
	})
	w.Create(pod("fifth", 4))
	w.Waits("fifth", "1 has too few healthy GPUs (3 of 4)")
	w.health("a100-0", 2, v1alpha1.Healthy)
	w.Placed("fifth")

	// A new node.
	w.Create(pod("sixth", 8))
	w.Waits("sixth", "1 has too few GPUs in all (4 of 8)")
	w.Fleet(`pools: [{name: h100, count: 1, gpu: {model: H100-80GB, count: 8}}]`)
	if node, _ := w.Placed("sixth"); node != "h100-0" {
		t.Errorf("sixth went to %s", node)
	}
}

// TestWakeUps: what only kube-scheduler can see keeps a pod waiting; what then helps
// it must wake it, though some node "fits" all the time.
func TestWakeUps(t *testing.T) {
	t.Parallel()
	w := newWorld(t, true)
	w.Fleet(`
pools:
- {name: tainted, count: 2, gpu: {model: H100-80GB, count: 8}, taints: [{key: keep, value: out, effect: NoSchedule}]}
- {name: failed, count: 1, gpu: {model: H100-80GB, count: 1}}
- {name: v100, count: 1, gpu: {model: V100-32GB, count: 4}}
`)
	w.health("failed-0", 0, v1alpha1.Failed)
	w.Scheduler(nil)
	h100 := cluster.Model("H100")
	w.Create(pod("a", 1, h100))
	w.Waits("a", "untolerated taint")
	w.health("failed-0", 0, v1alpha1.Healthy)
	if node, _ := w.Placed("a"); node != "failed-0" {
		t.Errorf("a went to %s", node)
	}

	// A pod's own wishes may be edited while it waits.
	w.Create(pod("b", 1, cluster.Model("B999")))
	w.Waits("b", "too few GPUs of model b999 (0 of 1)")
	b := w.Get("b")
	b.Annotations[names.AnnotationUseModel] = "V100"
	w.Update(b)
	w.Placed("b")
}

// TestSoftTaints: a node that would rather not have pods gets none while another
// will do, and gets them when none other will.
func TestSoftTaints(t *testing.T) {
	t.Parallel()
	w := fleetWorld(t, `
pools:
- {name: a, count: 1, gpu: {model: H100-80GB, count: 2}, taints: [{key: rather, value: not, effect: PreferNoSchedule}]}
- {name: b, count: 1, gpu: {model: H100-80GB, count: 2}}
`)
	for i, want := range []string{"b-0", "b-0", "a-0", "a-0"} {
		name := fmt.Sprintf("p-%d", i)
		w.Create(pod(name, 1))
		if node, _ := w.Placed(name); node != want {
			t.Errorf("%s went to %s, want %s", name, node, want)
		}
	}
}

// TestPreemption: kube-scheduler's own preemption works over devices: an
// important pod gets room, taken from as few as needed.
func TestPreemption(t *testing.T) {
	t.Parallel()
	w := fleetWorld(t, `pools: [{name: a100, count: 1, gpu: {model: A100-80GB, count: 4}}]`)
	w.AddPriorityClass("low", 1)
	w.AddPriorityClass("high", 1000)
	for i := range 4 {
		w.Create(pod(fmt.Sprintf("low-%d", i), 1, cluster.Priority("low"), cluster.Immediate))
		w.Placed(fmt.Sprintf("low-%d", i))
	}
	w.Create(pod("equal", 1, cluster.Priority("low"), cluster.Immediate))
	w.Waits("equal", "too few free GPUs (0 of 1)")
	w.Create(pod("important", 2, cluster.Priority("high"), cluster.Immediate))
	w.Placed("important")
	left := 0
	for _, p := range w.AllPods() {
		if p.Spec.NodeName != "" {
			left++
		}
	}
	if left != 3 {
		t.Errorf("want important and two of the four others, %d pods are bound", left)
	}
	w.CheckRecords()
}

// TestSeedConfiguration: seed 003's configuration loads as written, but for the
// API version, and places pods with records.
func TestSeedConfiguration(t *testing.T) {
	t.Parallel()
	w := newWorld(t, true)
	w.Fleet(`
pools:
- {name: v100, count: 1, gpu: {model: V100-32GB, count: 8}}
- {name: h100, count: 1, gpu: {model: H100-80GB, count: 8}}
`)
	w.Scheduler([]byte(`
# GPU 调度器配置
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- schedulerName: gpu-scheduler
  plugins:
    filter:
      enabled:
      - name: GPUFilter
    score:
      enabled:
      - name: GPUScore
  pluginConfig:
  - name: GPUFilter
    args:
      gpuTypes:
      - nvidia-tesla-v100
      - nvidia-tesla-a100
      - nvidia-tesla-t4
      - nvidia-rtx-3080
      - nvidia-rtx-3090
  - name: GPUScore
    args:
      weights:
        utilization: 40
        typeMatch: 30
        topology: 30
`))
	w.Create(pod("p", 4))
	if node, rec := w.Placed("p"); node != "v100-0" || len(rec.Containers[0].Devices) != 4 {
		t.Errorf("p went to %s with %+v", node, rec)
	}
	// The profile hands out no H100.
	w.Create(pod("q", 8))
	w.Waits("q", "1 has too few free GPUs (4 of 8)", "1 has too few GPUs of model v100|a100|t4|3080|3090 (0 of 8)")
}
