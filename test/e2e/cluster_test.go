package e2e

import (
	"context"
	"fmt"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tangram-dev/tangram/api/names"
	"github.com/tangram-dev/tangram/api/v1alpha1"
	"github.com/tangram-dev/tangram/config"
)

// TestBareCluster: no CRD of ours, no agent. Labels and allocatable are enough;
// and when the CRD and GPUNodes come later, they are noticed.
func TestBareCluster(t *testing.T) {
	t.Parallel()
	w := newWorld(t, false)
	const fleet = `pools: [{name: v100, count: 2, gpu: {model: V100-32GB, count: 4}}]`
	w.bareNodes(fleet)
	w.scheduler(nil)
	w.create(pod("a", 3, func(p *v1.Pod) { p.Annotations[names.AnnotationUseModel] = "V100" }))
	node, rec := w.bound("a")
	if d := rec.Containers[0].Devices; len(d) != 3 || d[0].UUID != "" {
		t.Errorf("devices %+v", d)
	}
	w.create(pod("b", 1))
	if n, _ := w.bound("b"); n != node {
		t.Errorf("b should fill %s, went to %s", node, n)
	}
	w.create(pod("c", 1, func(p *v1.Pod) { p.Annotations[names.AnnotationUseModel] = "A100" }))
	w.waits("c", "2 have too few GPUs of model a100 (0 of 1)")

	if err := w.ApplyManifests(context.Background(), config.CRDs()); err != nil {
		t.Fatal(err)
	}
	w.fleet(fleet) // the same nodes, now with GPUNodes
	w.create(pod("d", 1, func(p *v1.Pod) { p.Annotations[names.AnnotationUseUUID] = w.uuid("v100-1", 2) }))
	// The watch is tried again with pauses of up to half a minute.
	w.eventually("d is placed by UUID", time.Minute, func() (bool, string) {
		p := w.get("d")
		return p.Spec.NodeName == "v100-1", waitsFor(p)
	})
}

// TestWaitingPodsWake: a pod that waits starts when, and only when, something
// gives it room: another ends, a device recovers, a node comes or changes.
func TestWaitingPodsWake(t *testing.T) {
	t.Parallel()
	w := newWorld(t, true)
	w.fleet(`pools: [{name: a100, count: 1, gpu: {model: A100-80GB, count: 4}}]`)
	w.scheduler(nil)
	w.create(pod("first", 3))
	w.bound("first")
	w.create(pod("second", 4))
	w.waits("second", "1 has too few free GPUs (1 of 4)")

	// Deletion with a finalizer: the pod is terminating, its devices are not free.
	first := w.get("first")
	first.Finalizers = []string{"tangram.dev/test"}
	if _, err := w.client.CoreV1().Pods("default").Update(context.Background(), first, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	w.gone("first")
	w.create(pod("third", 2))
	w.waits("third", "too few free GPUs (1 of 2)")
	w.gone("third")
	first = w.get("first")
	if first.DeletionTimestamp == nil {
		t.Fatal("first should be terminating")
	}
	first.Finalizers = nil
	if _, err := w.client.CoreV1().Pods("default").Update(context.Background(), first, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	w.bound("second")

	// A pod that finishes gives its devices back.
	w.create(pod("fourth", 4))
	w.waits("fourth", "too few free GPUs (0 of 4)")
	second := w.get("second")
	second.Status.Phase = v1.PodSucceeded
	if _, err := w.client.CoreV1().Pods("default").UpdateStatus(context.Background(), second, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	w.bound("fourth")

	// A device fails and recovers: GPUNodes are followed too.
	w.gone("fourth")
	w.health("a100-0", 2, v1alpha1.Failed)
	w.eventually("the failed device is kept back", 20*time.Second, func() (bool, string) {
		name := fmt.Sprintf("try-%d", time.Now().UnixNano())
		w.create(pod(name, 4))
		time.Sleep(200 * time.Millisecond)
		p := w.get(name)
		w.gone(name)
		return p.Spec.NodeName == "" && waitsFor(p) != "", waitsFor(p)
	})
	w.create(pod("fifth", 4))
	w.waits("fifth", "1 has too few healthy GPUs (3 of 4)")
	w.health("a100-0", 2, v1alpha1.Healthy)
	w.bound("fifth")

	// A new node.
	w.create(pod("sixth", 8))
	w.waits("sixth", "1 has too few GPUs in all (4 of 8)")
	w.fleet(`pools: [{name: h100, count: 1, gpu: {model: H100-80GB, count: 8}}]`)
	if node, _ := w.bound("sixth"); node != "h100-0" {
		t.Errorf("sixth went to %s", node)
	}
}

// TestWakeUps: what only kube-scheduler can see keeps a pod waiting; what then helps
// it must wake it, though some node "fits" all the time.
func TestWakeUps(t *testing.T) {
	t.Parallel()
	w := newWorld(t, true)
	w.fleet(`
pools:
- {name: tainted, count: 2, gpu: {model: H100-80GB, count: 8}, taints: [{key: keep, value: out, effect: NoSchedule}]}
- {name: failed, count: 1, gpu: {model: H100-80GB, count: 1}}
- {name: v100, count: 1, gpu: {model: V100-32GB, count: 4}}
`)
	w.health("failed-0", 0, v1alpha1.Failed)
	w.scheduler(nil)
	h100 := func(p *v1.Pod) { p.Annotations[names.AnnotationUseModel] = "H100" }
	w.create(pod("a", 1, h100))
	w.waits("a", "untolerated taint")
	w.health("failed-0", 0, v1alpha1.Healthy)
	if node, _ := w.bound("a"); node != "failed-0" {
		t.Errorf("a went to %s", node)
	}

	// A pod's own wishes may be edited while it waits.
	w.create(pod("b", 1, func(p *v1.Pod) { p.Annotations[names.AnnotationUseModel] = "B999" }))
	w.waits("b", "too few GPUs of model b999 (0 of 1)")
	b := w.get("b")
	b.Annotations[names.AnnotationUseModel] = "V100"
	if _, err := w.client.CoreV1().Pods("default").Update(context.Background(), b, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	w.bound("b")
}

// TestSoftTaints: a node that would rather not have pods gets none while another
// will do, and gets them when none other will.
func TestSoftTaints(t *testing.T) {
	t.Parallel()
	w := newWorld(t, true)
	w.fleet(`
pools:
- {name: a, count: 1, gpu: {model: H100-80GB, count: 2}, taints: [{key: rather, value: not, effect: PreferNoSchedule}]}
- {name: b, count: 1, gpu: {model: H100-80GB, count: 2}}
`)
	w.scheduler(nil)
	for i, want := range []string{"b-0", "b-0", "a-0", "a-0"} {
		name := fmt.Sprintf("p-%d", i)
		w.create(pod(name, 1))
		if node, _ := w.bound(name); node != want {
			t.Errorf("%s went to %s, want %s", name, node, want)
		}
	}
}

// TestPreemption: kube-scheduler's own preemption works over devices: an
// important pod gets room, taken from as few as needed.
func TestPreemption(t *testing.T) {
	t.Parallel()
	w := newWorld(t, true)
	w.fleet(`pools: [{name: a100, count: 1, gpu: {model: A100-80GB, count: 4}}]`)
	w.scheduler(nil)
	for name, value := range map[string]int32{"low": 1, "high": 1000} {
		_, err := w.client.SchedulingV1().PriorityClasses().Create(context.Background(), &schedulingv1.PriorityClass{ObjectMeta: metav1.ObjectMeta{Name: name}, Value: value}, metav1.CreateOptions{})
		if err != nil {
			t.Fatal(err)
		}
	}
	class := func(name string) func(*v1.Pod) {
		return func(p *v1.Pod) {
			p.Spec.PriorityClassName = name
			now := int64(0)
			p.Spec.TerminationGracePeriodSeconds = &now
		}
	}
	for i := range 4 {
		w.create(pod(fmt.Sprintf("low-%d", i), 1, class("low")))
		w.bound(fmt.Sprintf("low-%d", i))
	}
	w.create(pod("equal", 1, class("low")))
	w.waits("equal", "too few free GPUs (0 of 1)")
	w.create(pod("important", 2, class("high")))
	w.bound("important")
	left := 0
	for _, p := range w.pods() {
		if p.Spec.NodeName != "" {
			left++
		}
	}
	if left != 3 {
		t.Errorf("want important and two of the four others, %d pods are bound", left)
	}
	w.checkRecords()
}

// TestSeedConfiguration: seed 003's configuration loads as written, but for the
// API version, and places pods with records.
func TestSeedConfiguration(t *testing.T) {
	t.Parallel()
	w := newWorld(t, true)
	w.fleet(`
pools:
- {name: v100, count: 1, gpu: {model: V100-32GB, count: 8}}
- {name: h100, count: 1, gpu: {model: H100-80GB, count: 8}}
`)
	w.scheduler([]byte(`
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
	w.create(pod("p", 4))
	if node, rec := w.bound("p"); node != "v100-0" || len(rec.Containers[0].Devices) != 4 {
		t.Errorf("p went to %s with %+v", node, rec)
	}
	// The profile hands out no H100.
	w.create(pod("q", 8))
	w.waits("q", "1 has too few free GPUs (4 of 8)", "1 has too few GPUs of model v100|a100|t4|3080|3090 (0 of 8)")
}
