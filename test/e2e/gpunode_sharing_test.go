package e2e

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/tangram-dev/tangram/api/names"
	"github.com/tangram-dev/tangram/api/record"
	"github.com/tangram-dev/tangram/api/v1alpha1"
)

// patchGPUNode changes a GPUNode, or its status, by a merge patch.
func (w *world) patchGPUNode(name, patch string, sub ...string) {
	w.t.Helper()
	if _, err := w.dynamic.Resource(v1alpha1.GPUNodes).Patch(context.Background(), name, types.MergePatchType, []byte(patch), metav1.PatchOptions{}, sub...); err != nil {
		w.t.Fatal(err)
	}
}

// sells sets what a node's device plugin publishes.
func (w *world) sells(node string, amounts map[string]string) {
	w.t.Helper()
	n, err := w.client.CoreV1().Nodes().Get(context.Background(), node, metav1.GetOptions{})
	if err != nil {
		w.t.Fatal(err)
	}
	for name, value := range amounts {
		q := resource.MustParse(value)
		n.Status.Capacity[v1.ResourceName(name)], n.Status.Allocatable[v1.ResourceName(name)] = q, q
	}
	if _, err := w.client.CoreV1().Nodes().UpdateStatus(context.Background(), n, metav1.UpdateOptions{}); err != nil {
		w.t.Fatal(err)
	}
}

// devicesOf are the indexes in a pod's record.
func devicesOf(rec record.Record) (out []int) {
	for _, c := range rec.Containers {
		for _, d := range c.Devices {
			out = append(out, d.Index)
		}
	}
	return out
}

// TestGPUNodeTurns: requirement document 001 as our agent serves it (4 replicas, still
// called nvidia.com/gpu, failRequestsGreaterThanOne). No label says so; the GPUNode does.
func TestGPUNodeTurns(t *testing.T) {
	t.Parallel()
	w := newWorld(t, true)
	w.fleet(`pools: [{name: n, count: 1, gpu: {model: A100-80GB, count: 2}}]`)
	w.patchGPUNode("n-0", `{"spec":{"agent":{"mode":"Serving","version":"test"},"sharing":{"strategy":"TimeSlicing","replicas":4,"onePerContainer":true}}}`)
	w.sells("n-0", map[string]string{names.ResourceNVIDIA: "8"})
	w.scheduler(nil)
	tenants := map[int]int{}
	for i := range 8 {
		name := fmt.Sprintf("p-%d", i)
		w.create(pod(name, 1))
		_, rec := w.bound(name)
		d := rec.Containers[0].Devices
		if len(d) != 1 || !d[0].Turn {
			t.Fatalf("%s was given %+v, not a turn", name, d)
		}
		tenants[d[0].Index]++
	}
	if tenants[0] != 4 || tenants[1] != 4 {
		t.Errorf("turns given: %v", tenants)
	}
	w.create(pod("ninth", 1))
	w.waits("ninth", "too few free GPUs (0 of 1)")
	w.create(pod("two-turns", 2))
	w.waits("two-turns", "too few GPUs in all (0 of 2)")
	w.create(pod("share", 0, asking(map[string]string{"nvidia.com/gpu": "1", "nvidia.com/gpumem": "1000"})))
	w.waits("share", "too few GPUs that ever have 1000 MiB free")
	w.gone("p-3")
	w.bound("ninth")
}

// TestGPUNodeRenamedTurns: turns under their own name. Nobody gets a GPU whole there.
func TestGPUNodeRenamedTurns(t *testing.T) {
	t.Parallel()
	w := newWorld(t, true)
	w.fleet(`pools: [{name: n, count: 1, gpu: {model: A100-80GB, count: 1}}]`)
	w.patchGPUNode("n-0", `{"spec":{"agent":{"mode":"Serving"},"sharing":{"strategy":"MPS","replicas":2,"renamed":true}}}`)
	w.sells("n-0", map[string]string{names.ResourceNVIDIA: "0", "nvidia.com/gpu.shared": "2"})
	w.scheduler(nil)
	turn := asking(map[string]string{"nvidia.com/gpu.shared": "1"})
	w.create(pod("a", 0, turn))
	w.create(pod("b", 0, turn))
	w.bound("a")
	w.bound("b")
	w.create(pod("c", 0, turn))
	w.waits("c", "a turn free")
	w.create(pod("whole", 1))
	w.waits("whole", "0/1 nodes fit")
	w.gone("a")
	w.bound("c")
}

// TestGPUNodeCordon: an operator keeps new pods off a device, by index and by UUID. The
// pod that runs there stays, a waiting one is told of the cordon, and a slip in the list
// is reported.
func TestGPUNodeCordon(t *testing.T) {
	t.Parallel()
	w := newWorld(t, true)
	w.fleet(`pools: [{name: n, count: 1, gpu: {model: A100-80GB, count: 4}}]`)
	w.scheduler(nil)
	w.create(pod("runs", 1))
	_, rec := w.bound("runs")
	taken := devicesOf(rec)[0]
	w.patchGPUNode("n-0", fmt.Sprintf(`{"spec":{"cordoned":["%d",%q]}}`, taken, w.uuid("n-0", (taken+1)%4)))
	w.create(pod("waits", 3))
	w.waits("waits", "1 has too few GPUs that are not cordoned (2 of 3)")
	w.create(pod("fits", 2))
	if _, rec := w.bound("fits"); strings.Contains(fmt.Sprint(devicesOf(rec)), fmt.Sprint((taken+1)%4)) {
		t.Errorf("a cordoned device was given: %v", devicesOf(rec))
	}
	if p := w.get("runs"); p.DeletionTimestamp != nil {
		t.Error("the pod on the cordoned device has to go")
	}
	w.gone("fits")
	w.patchGPUNode("n-0", fmt.Sprintf(`{"spec":{"cordoned":["%d","GPU-of-another-node"]}}`, taken))
	w.bound("waits")
	w.event("GPUNode", "n-0", "spec.cordoned[1]", "GPU-of-another-node")
}

// TestGPUNodeOwnInstances: an agent that serves lists the MIG instances it made for a pod.
// The device is still cut on demand; one that somebody else cut is not.
func TestGPUNodeOwnInstances(t *testing.T) {
	t.Parallel()
	w := newWorld(t, true)
	w.fleet(`pools: [{name: n, count: 1, gpu: {model: A100-80GB, count: 1, mig: true}}]`)
	w.patchGPUNode("n-0", `{"spec":{"agent":{"mode":"Serving"}}}`)
	w.sells("n-0", map[string]string{"nvidia.com/mig-1g.10gb": "7", "nvidia.com/mig-3g.40gb": "2"})
	w.scheduler(nil)
	slice := func(profile string) func(*v1.Pod) {
		return asking(map[string]string{"nvidia.com/mig-" + profile: "1"})
	}
	w.create(pod("a", 0, slice("1g.10gb")))
	_, rec := w.bound("a")
	at := rec.Containers[0].Devices[0].Start
	instance := func(owned bool) string {
		return fmt.Sprintf(`[{"op":"add","path":"/spec/devices/0/mig/instances","value":[{"profile":"1g.10gb","start":%d,"uuid":"MIG-1","owned":%v}]}]`, at, owned)
	}
	edit := func(patch string) {
		if _, err := w.dynamic.Resource(v1alpha1.GPUNodes).Patch(context.Background(), "n-0", types.JSONPatchType, []byte(patch), metav1.PatchOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	edit(instance(true))
	w.create(pod("b", 0, slice("3g.40gb")))
	w.bound("b")
	w.gone("a")
	w.gone("b")
	w.create(pod("whole", 1)) // the agent removes its instance before this one starts
	w.bound("whole")
	w.gone("whole")
	edit(instance(false))
	w.create(pod("c", 0, slice("3g.40gb")))
	w.waits("c", "too few GPUs that ever have room for MIG 3g.40gb (0 of 1)")
	w.create(pod("d", 1))
	w.waits("d", "0/1 nodes fit")
}

// TestGPUNodeSwap: kubelet gave two pods each other's devices. The agent corrects their
// records, one after the other and slowly. Each correction counts at once; no pod is told
// to go, and nothing is reported.
func TestGPUNodeSwap(t *testing.T) {
	t.Parallel()
	w := newWorld(t, true)
	w.fleet(`pools: [{name: n, count: 1, gpu: {model: A100-80GB, count: 3}}]`)
	w.patchGPUNode("n-0", `{"spec":{"agent":{"mode":"Observing"}}}`)
	w.scheduler(nil)
	records := map[string]string{}
	for _, name := range []string{"older", "younger"} {
		w.create(pod(name, 1))
		w.bound(name)
		records[name] = w.get(name).Annotations[names.AnnotationDevices]
		time.Sleep(1100 * time.Millisecond) // the API has the time of binding in whole seconds
	}
	devices := func(name string) string {
		rec, err := record.Decode(w.get(name).Annotations[names.AnnotationDevices])
		if err != nil {
			t.Fatal(err)
		}
		return fmt.Sprint(devicesOf(rec))
	}
	w.annotate("older", names.AnnotationDevices, records["younger"])
	time.Sleep(4 * time.Second)
	// Between the two, a pod may be given the device that younger really has. Kubelet
	// gives it the one that is free, and the agent corrects that, too.
	w.create(pod("meanwhile", 1))
	w.bound("meanwhile")
	w.annotate("younger", names.AnnotationDevices, records["older"])
	time.Sleep(4 * time.Second)
	if devices("meanwhile") == devices("younger") {
		free := 3 - decoded(t, records["older"])[0] - decoded(t, records["younger"])[0]
		w.annotate("meanwhile", names.AnnotationDevices, fmt.Sprintf(
			`{"version":1,"node":"n-0","containers":[{"name":"main","resource":"nvidia.com/gpu","devices":[{"index":%d,"uuid":%q}]}]}`, free, w.uuid("n-0", free)))
	}
	time.Sleep(8 * time.Second) // more than one step of the scheduler
	for _, name := range []string{"older", "younger", "meanwhile"} {
		if p := w.find("default", name); p == nil || p.DeletionTimestamp != nil {
			t.Fatalf("%s has to go", name)
		}
		if notes := strings.Join(w.notesOn("Pod", name), "; "); strings.Contains(notes, "Contested") {
			t.Errorf("%s: %s", name, notes)
		}
	}
	if used := w.checkRecords(); used != 3 {
		t.Errorf("%d devices are used", used)
	}
	w.create(pod("last", 1))
	w.waits("last", "too few free GPUs (0 of 1)")
	w.gone("older")
	w.bound("last")
	if got := devices("last"); got != fmt.Sprint(decoded(t, records["younger"])) {
		t.Errorf("last got %s, but older gave back %s", got, records["younger"])
	}
}

func decoded(t *testing.T, text string) []int {
	t.Helper()
	rec, err := record.Decode(text)
	if err != nil {
		t.Fatal(err)
	}
	return devicesOf(rec)
}

// TestGPUNodeStaleTelemetry: what an agent measured counts until it is too old.
func TestGPUNodeStaleTelemetry(t *testing.T) {
	t.Parallel()
	w := newWorld(t, true)
	w.fleet(`pools: [{name: cool, count: 1, gpu: {model: A100-80GB, count: 4}}, {name: warm, count: 1, gpu: {model: A100-80GB, count: 4}}]`)
	measure := func(node string, celsius int, at string) {
		var devices []string
		for i := range 4 {
			devices = append(devices, fmt.Sprintf(`{"index":%d,"health":"Healthy","temperatureCelsius":%d}`, i, celsius))
		}
		w.patchGPUNode(node, fmt.Sprintf(`{"status":{%s"devices":[%s]}}`, at, strings.Join(devices, ",")), "status")
	}
	now := func() string { return fmt.Sprintf(`"measuredAt":%q,`, time.Now().UTC().Format(time.RFC3339)) }
	measure("warm-0", 60, "") // better than unknown, worse than cool; does not say when
	measure("cool-0", 30, now())
	w.scheduler([]byte(`
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- schedulerName: gpu-scheduler
  plugins: {filter: {enabled: [{name: GPUFilter}]}, score: {enabled: [{name: GPUScore, weight: 10}]}}
  pluginConfig:
  - {name: GPUScore, args: {weights: {fragmentation: 1, temperature: 100}, telemetryMaxAge: 20s}}
`))
	measure("cool-0", 30, now())
	goes := func(name string) string {
		w.create(pod(name, 1))
		node, _ := w.bound(name)
		w.gone(name)
		return node
	}
	tried := 0
	to := func(node string) func() (bool, string) {
		return func() (bool, string) {
			tried++
			got := goes(fmt.Sprintf("try-%d", tried))
			return got == node, got
		}
	}
	w.eventually("pods go where it is cool", 10*time.Second, to("cool-0"))
	w.eventually("old telemetry does not count", 60*time.Second, to("warm-0"))
	measure("cool-0", 31, now())
	w.eventually("new telemetry counts", 10*time.Second, to("cool-0"))
}
