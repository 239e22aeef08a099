package e2e

import (
	"context"
	"fmt"
	"strings"
	"syscall"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/tangram-dev/tangram/api/v1alpha1"
	"github.com/tangram-dev/tangram/config"
	"github.com/tangram-dev/tangram/internal/agent/device"
	"github.com/tangram-dev/tangram/internal/agent/kubeapi"
	"github.com/tangram-dev/tangram/internal/agent/publish"
	"github.com/tangram-dev/tangram/lab/local"
	"github.com/tangram-dev/tangram/test/cluster"
)

// publisher publishes what a test says of a node, until the test ends or stop is called.
func (w *world) publisher(node string, mode v1alpha1.AgentMode) (p *publish.Publisher, stop func()) {
	w.T.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	client, err := kubeapi.New(w.RESTConfig())
	w.Must(err)
	recorder := client.NewRecorder(ctx, publish.Manager)
	p = publish.New(publish.Options{Node: node, API: publish.NewAPI(client.Nodes(), w.Dynamic), Events: recorder, Version: "test", Mode: mode})
	done := make(chan struct{})
	go func() { p.Run(ctx); close(done) }()
	stop = func() { cancel(); <-done }
	w.T.Cleanup(stop)
	return p, stop
}

// plainNode creates a node of which nothing is known but what every kubelet says. Of one
// that is created empty, the API server does not note who writes what.
func (w *world) plainNode(name string) *v1.Node {
	w.T.Helper()
	n, err := w.Client.CoreV1().Nodes().Create(context.Background(), &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{v1.LabelHostname: name}}}, metav1.CreateOptions{})
	w.Must(err)
	return n
}

func h200s(n int) *device.Inventory {
	inv := &device.Inventory{Driver: "580.159.03", CUDA: "13.0"}
	var all []int
	for i := range n {
		all = append(all, i)
		inv.Devices = append(inv.Devices, device.Device{Index: i, UUID: fmt.Sprintf("GPU-%d", i), Vendor: "nvidia", Model: "NVIDIA H200", MemoryMiB: 143771, SMs: 132, NUMA: -1, ComputeCapability: "9.0"})
	}
	if n > 1 {
		inv.Links = []device.Link{{Between: all, Class: "NVSwitch"}}
	}
	return inv
}

// published waits until a GPUNode is as a test wants it.
func (w *world) published(what, name string, holds func(*v1alpha1.GPUNode) bool) (gn v1alpha1.GPUNode) {
	w.T.Helper()
	w.Eventually(what, func() (bool, string) {
		o, err := w.Dynamic.Resource(v1alpha1.GPUNodes).Get(context.Background(), name, metav1.GetOptions{})
		if err != nil {
			return false, err.Error()
		}
		gn = v1alpha1.GPUNode{}
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(o.Object, &gn); err != nil {
			return false, err.Error()
		}
		return holds(&gn), fmt.Sprintf("%+v %+v", gn.Spec, gn.Status)
	})
	return gn
}

// TestAgentPublishes: inventory, health, telemetry, labels and events of one node, on a
// real API server: with what operators and others write beside it, through an outage, and
// until the node is gone.
func TestAgentPublishes(t *testing.T) {
	t.Parallel()
	w := startWorld(t, local.Options{ControllerManager: true, KeepRestarting: true}, config.RBAC(), config.CRDs())
	node := w.plainNode("n-0")
	// An administrator has labelled the node, and so has GPU Feature Discovery.
	if _, err := w.Client.CoreV1().Nodes().Patch(context.Background(), "n-0", types.MergePatchType,
		[]byte(`{"metadata":{"labels":{"accelerator":"our-best","nvidia.com/gpu.count":"9"}}}`), metav1.PatchOptions{FieldManager: "nfd-master"}); err != nil {
		t.Fatal(err)
	}
	p, _ := w.publisher("n-0", v1alpha1.Observing)
	p.SetInventory(h200s(2), nil)
	gn := w.published("the GPUNode is there", "n-0", func(gn *v1alpha1.GPUNode) bool { return len(gn.Status.Conditions) == 2 && len(gn.Status.Devices) == 2 })
	if len(gn.OwnerReferences) != 1 || gn.OwnerReferences[0].UID != node.UID || gn.Spec.Driver.CUDA != "13.0" || gn.Spec.Links[0].Class != "NVSwitch" {
		t.Errorf("%+v", gn)
	}
	labels := func(what string, want map[string]string) {
		t.Helper()
		w.Eventually(what, func() (bool, string) {
			n, err := w.Client.CoreV1().Nodes().Get(context.Background(), "n-0", metav1.GetOptions{})
			if err != nil {
				return false, err.Error()
			}
			for key, value := range want {
				if n.Labels[key] != value {
					return false, fmt.Sprint(n.Labels)
				}
			}
			return true, ""
		})
	}
	labels("labels", map[string]string{"accelerator": "our-best", "nvidia.com/gpu.count": "9", "gpu-count": "2", "nvidia.com/gpu.product": "NVIDIA-H200", "feature.node.kubernetes.io/pci-10de.present": "true"})

	// An operator's cordon meets a write of the agent, and stays.
	w.patchGPUNode("n-0", `{"spec":{"cordoned":["1"]}}`)
	p.SetHealth([]publish.Health{{UUID: "GPU-0", State: v1alpha1.Failed, Reason: "XID 79: fell off the bus", Since: time.Now(), LastXID: 79}})
	p.SetInventory(h200s(3), nil)
	gn = w.published("both", "n-0", func(gn *v1alpha1.GPUNode) bool {
		return len(gn.Spec.Devices) == 3 && len(gn.Status.Devices) == 3 && gn.Status.Devices[0].Health == v1alpha1.Failed
	})
	if len(gn.Spec.Cordoned) != 1 {
		t.Error("the cordon is gone")
	}
	w.Event("Node", "n-0", "GPU 0 (GPU-0) was Healthy and is Failed", "XID 79")
	// The API server knows who set a label: ours follow the hardware.
	labels("labels that follow", map[string]string{"accelerator": "our-best", "nvidia.com/gpu.count": "9", "gpu-count": "3"})

	// An outage: the newest state is written afterwards.
	server := w.Process("kube-apiserver")
	w.Must(syscall.Kill(server.Pid(), syscall.SIGKILL))
	for i := range 20 {
		p.SetHealth([]publish.Health{{UUID: "GPU-0", State: v1alpha1.Suspect, Reason: fmt.Sprint("reason ", i)}})
		time.Sleep(50 * time.Millisecond)
	}
	p.SetInventory(h200s(1), nil)
	p.SetSamples([]device.Sample{{UUID: "GPU-0", At: time.Now(), Values: map[device.Field]float64{device.Utilization: 77, device.Temperature: 50}}})
	w.Eventually("the API server serves again", func() (bool, string) {
		_, err := w.Client.Discovery().ServerVersion()
		return err == nil, fmt.Sprint(err)
	})
	gn = w.published("the newest state", "n-0", func(gn *v1alpha1.GPUNode) bool {
		return len(gn.Spec.Devices) == 1 && len(gn.Status.Devices) == 1 && gn.Status.Devices[0].Reason == "reason 19" && gn.Status.Devices[0].UtilizationPercent != nil
	})
	if *gn.Status.Devices[0].UtilizationPercent != 77 || gn.Status.MeasuredAt == nil || len(gn.Spec.Cordoned) != 1 {
		t.Errorf("%+v", gn)
	}

	// With its node, the GPUNode goes, and is not written again.
	w.Remove(cluster.Nodes, "n-0")
	w.Eventually("the GPUNode goes with its node", func() (bool, string) {
		_, err := w.Dynamic.Resource(v1alpha1.GPUNodes).Get(context.Background(), "n-0", metav1.GetOptions{})
		return apierrors.IsNotFound(err), fmt.Sprint(err)
	})
	p.SetHealth(nil)
	time.Sleep(3 * time.Second)
	if _, err := w.Dynamic.Resource(v1alpha1.GPUNodes).Get(context.Background(), "n-0", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("a GPUNode without a node: %v", err)
	}
}

// TestAgentOfAnOlderVersion: a newer CRD and a newer agent know fields that this one does
// not. It keeps them, while it brings its own up to date.
func TestAgentOfAnOlderVersion(t *testing.T) {
	t.Parallel()
	w := newWorld(t, true)
	crds := w.Dynamic.Resource(schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"})
	field := `{"type":"object","x-kubernetes-preserve-unknown-fields":true}`
	root := "/spec/versions/0/schema/openAPIV3Schema/properties"
	if _, err := crds.Patch(context.Background(), "gpunodes.tangram.dev", types.JSONPatchType, []byte(fmt.Sprintf(
		`[{"op":"add","path":"%[1]s/spec/properties/future","value":%[2]s},{"op":"add","path":"%[1]s/spec/properties/devices/items/properties/future","value":%[2]s},
		{"op":"add","path":"%[1]s/status/properties/devices/items/properties/future","value":%[2]s}]`, root, field)), metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	w.plainNode("n-0")
	p, stop := w.publisher("n-0", v1alpha1.Serving)
	p.SetInventory(h200s(2), nil)
	w.published("published", "n-0", func(gn *v1alpha1.GPUNode) bool { return len(gn.Status.Devices) == 2 })
	stop()
	write := func(patch string, sub ...string) func() (bool, string) {
		return func() (bool, string) { // the API server takes a moment to know the new fields
			o, err := w.Dynamic.Resource(v1alpha1.GPUNodes).Patch(context.Background(), "n-0", types.JSONPatchType, []byte(patch), metav1.PatchOptions{}, sub...)
			if err != nil {
				return false, err.Error()
			}
			return strings.Contains(fmt.Sprint(o.Object), "newer"), fmt.Sprint(o.Object)
		}
	}
	w.Eventually("a newer agent writes", write(`[{"op":"add","path":"/spec/future","value":{"by":"newer"}},{"op":"add","path":"/spec/devices/0/future","value":{"by":"newer"}}]`))
	w.Eventually("also the status", write(`[{"op":"add","path":"/status/devices/1/future","value":{"by":"newer"}}]`, "status"))
	p, _ = w.publisher("n-0", v1alpha1.Serving)
	newer := h200s(2)
	newer.Driver = "590.1"
	p.SetInventory(newer, nil)
	p.SetHealth([]publish.Health{{UUID: "GPU-1", State: v1alpha1.Degraded, Reason: "slow"}})
	w.published("brought up to date", "n-0", func(gn *v1alpha1.GPUNode) bool {
		return gn.Spec.Driver.Version == "590.1" && gn.Status.Devices[1].Health == v1alpha1.Degraded
	})
	o := w.gpuNode("n-0")
	devices, _, _ := unstructured.NestedSlice(o.Object, "spec", "devices")
	status, _, _ := unstructured.NestedSlice(o.Object, "status", "devices")
	future, _, _ := unstructured.NestedString(o.Object, "spec", "future", "by")
	if future != "newer" || !strings.Contains(fmt.Sprint(devices[0]), "newer") || !strings.Contains(fmt.Sprint(status[1]), "newer") {
		t.Errorf("a newer agent's fields are gone: %v", o.Object)
	}
}

// TestAgentWithABrokenDriver: whatever a driver reports, the API server takes what is made
// of it, and an event says what was left out.
func TestAgentWithABrokenDriver(t *testing.T) {
	t.Parallel()
	w := newWorld(t, true)
	w.plainNode("n-0")
	p, _ := w.publisher("n-0", v1alpha1.Serving)
	long := strings.Repeat("é", 300)
	inv := &device.Inventory{Driver: long, CUDA: "\xff", Links: []device.Link{{Between: []int{0, 77}, Class: "NVLink"}, {Between: []int{0, 5, 5}, Class: "NVLink", Count: 1 << 40}, {Between: []int{0, 5}, Class: "?"}}}
	for i := range 20 {
		inv.Devices = append(inv.Devices, device.Device{Index: i, UUID: fmt.Sprint("GPU-", i), Vendor: "nvidia", Model: long, MemoryMiB: 1 << 50, SMs: -3, NUMA: 4000, PCIBusID: long, ComputeCapability: long, Fabric: long,
			MIG: &device.MIG{Profiles: []device.Profile{{ID: 1, Name: long, Size: 1, Starts: []int{0, 1 << 40}}, {ID: -2}}, Instances: []device.Instance{{Profile: long, Start: 7, UUID: "a b"}, {Profile: "x", Start: 9}}}})
	}
	inv.Devices[1].Vendor, inv.Devices[2].UUID, inv.Devices[3].Index, inv.Devices[4].Model, inv.Devices[4].MemoryMiB = "ACME", "GPU-0", 0, "", -1
	p.SetInventory(inv, nil)
	p.SetHealth([]publish.Health{{UUID: "GPU-0", State: "On fire", Reason: long + long + long + long}})
	p.SetSamples([]device.Sample{{UUID: "GPU-0", At: time.Now(), Values: map[device.Field]float64{device.Utilization: 1e9, device.Power: -1, device.MemoryUsed: -1, device.Temperature: 1e12}}})
	gn := w.published("what can be said of it", "n-0", func(gn *v1alpha1.GPUNode) bool {
		return len(gn.Status.Devices) > 0 && gn.Status.Devices[0].Health == v1alpha1.Failed
	})
	if len(gn.Spec.Devices) != 13 || len(gn.Status.Devices) != 13 {
		t.Errorf("%d devices", len(gn.Spec.Devices))
	}
	w.Event("Node", "n-0", `"ACME" is not a vendor`, "a GPUNode has devices 0 to 15")
}
