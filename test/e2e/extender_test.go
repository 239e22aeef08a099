package e2e

import (
	"context"
	"fmt"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tangram-dev/tangram/api/names"
	"github.com/tangram-dev/tangram/config"
	"github.com/tangram-dev/tangram/internal/local"
	"github.com/tangram-dev/tangram/test/cluster"
)

// TestExtender: a stock kube-scheduler with gpu-extender beside it gives pods their
// devices, shares cards, says why not, and preempts where that helps.
func TestExtender(t *testing.T) {
	t.Parallel()
	w := newWorld(t, true)
	w.fleet(`
pools:
- {name: a100, count: 2, gpu: {model: A100-80GB, count: 4}}
- {name: v100, count: 1, gpu: {model: V100-32GB, count: 4}}
`)
	for _, n := range []string{"a100-0", "a100-1"} {
		w.publish(n, map[string]string{"nvidia.com/gpu": "40"}, nil)
	}
	url := w.extender()
	stock := func(p *v1.Pod) { p.Spec.SchedulerName = "default-scheduler" }
	device := func(name string) (string, int) {
		node, rec := w.bound(name)
		return node, rec.Containers[0].Devices[0].Index
	}

	a100 := func(p *v1.Pod) { p.Annotations[names.AnnotationUseModel] = "A100" }
	w.create(pod("whole", 4, stock, a100))
	full, _ := device("whole")
	third := map[string]string{"nvidia.com/gpu": "1", "nvidia.com/gpumem": "25000"}
	for i := range 3 {
		name := fmt.Sprintf("share-%d", i)
		w.create(pod(name, 0, stock, a100, asking(third)))
		if node, index := device(name); node == full || index != 0 {
			t.Errorf("%s is on device %d of %s", name, index, node)
		}
	}
	w.create(pod("large", 4, stock, a100))
	w.waits("large", "too few free GPUs (3 of 4)", "too few free GPUs (0 of 4)")
	w.create(pod("bad", 0, stock, asking(map[string]string{"nvidia.com/gpu": "1", "nvidia.com/gpucores": "101"})))
	w.waits("bad", "resources.requests[nvidia.com/gpucores]: 101")

	// GPUs by ResourceClaim are refused by field, and what a claim holds is not given out.
	w.apply(`{apiVersion: resource.k8s.io/v1, kind: DeviceClass, metadata: {name: gpus}, spec: {selectors: [{cel: {expression: 'device.driver == "gpu.tangram.dev"'}}]}}`)
	w.apply(`{apiVersion: resource.k8s.io/v1, kind: ResourceClaim, metadata: {name: claim, namespace: default}, spec: {devices: {requests: [{name: r, exactly: {deviceClassName: gpus}}]}}}`)
	w.apply(`{apiVersion: resource.k8s.io/v1, kind: ResourceSlice, metadata: {name: a100-1}, spec: {driver: gpu.tangram.dev, nodeName: a100-1, pool: {name: a100-1, generation: 1, resourceSliceCount: 1}, devices: [{name: gpu-9, attributes: {type: {string: gpu}, uuid: {string: GPU-9}}}]}}`)
	w.create(pod("claims", 1, stock, a100, func(p *v1.Pod) {
		claim := "claim"
		p.Spec.ResourceClaims = []v1.PodResourceClaim{{Name: "c", ResourceClaimName: &claim}}
	}))
	w.waits("claims", "spec.resourceClaims[0]: asks for GPUs by ResourceClaim, which gpu-extender does not place")
	w.gone("claims")

	// Preemption. The scheduler sees a shortage by its own count of nvidia.com/gpu, or
	// it does not preempt: on nodes that publish shared cards many times it never will.
	v100 := func(p *v1.Pod) { p.Annotations[names.AnnotationUseModel] = "V100" }
	for i := range 4 {
		w.create(pod(fmt.Sprintf("low-%d", i), 1, stock, v100))
		w.bound(fmt.Sprintf("low-%d", i))
	}
	if _, err := w.client.SchedulingV1().PriorityClasses().Create(context.Background(), &schedulingv1.PriorityClass{ObjectMeta: metav1.ObjectMeta{Name: "high"}, Value: 1000}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	w.eventually("the API server knows the priority", 30*time.Second, func() (bool, string) {
		probe := pod("probe", 0, stock, func(p *v1.Pod) { p.Spec.PriorityClassName = "high" })
		_, err := w.client.CoreV1().Pods("default").Create(context.Background(), probe, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		return err == nil, fmt.Sprint(err)
	})
	w.create(pod("important", 2, stock, v100, func(p *v1.Pod) { p.Spec.PriorityClassName = "high" }))
	w.eventually("somebody makes room for important", 30*time.Second, func() (bool, string) {
		for _, p := range w.pods() {
			if p.DeletionTimestamp != nil {
				// Nobody plays kubelet here.
				w.gone(p.Name)
			}
		}
		p := w.get("important")
		return p.Spec.NodeName != "", waitsFor(p)
	})
	if left := w.checkRecords(); left != 4+1+2+2 { // whole, the shared card, important, two of the four
		t.Errorf("%d devices are held", left)
	}

	// Nonsense is answered, not obeyed.
	for path, body := range map[string]string{"/filter": "{", "/prioritize": "{}", "/preempt": "{}"} {
		res, err := http.Post(url+path, "application/json", strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		if res.Body.Close(); res.StatusCode != http.StatusBadRequest {
			t.Errorf("%s %s: %s", path, body, res.Status)
		}
	}
}

// extender starts gpu-extender and a stock kube-scheduler that asks it, and returns
// the extender's URL.
func (w *world) extender() string {
	w.t.Helper()
	bin := cluster.Bin(w.t, "gpu-extender", "kube-scheduler")
	port, err := local.FreePort()
	if err != nil {
		w.t.Fatal(err)
	}
	url := fmt.Sprintf("http://127.0.0.1:%d", port)
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if err := w.ApplyManifests(ctx, config.ExtenderRBAC()); err != nil {
		w.t.Fatal(err)
	}
	own, err := w.KubeconfigFor("system:tangram:gpu-extender")
	if err != nil {
		w.t.Fatal(err)
	}
	_, err = w.Run(ctx, local.Program{
		Name: "gpu-extender", Path: filepath.Join(bin, "gpu-extender"),
		Args: []string{"--kubeconfig=" + own, fmt.Sprintf("--listen=127.0.0.1:%d", port)},
		Ready: func(ctx context.Context) error {
			req, err := http.NewRequestWithContext(ctx, http.MethodGet, url+"/healthz", nil)
			if err != nil {
				return err
			}
			res, err := http.DefaultClient.Do(req)
			if err != nil {
				return err
			}
			return res.Body.Close()
		},
	})
	if err != nil {
		w.t.Fatal(err)
	}
	if _, err := w.StockScheduler(ctx, "kube-scheduler", schedulerUser, strings.Replace(string(config.Extender()), "http://127.0.0.1:8888", url, 1)); err != nil {
		w.t.Fatal(err)
	}
	return url
}
