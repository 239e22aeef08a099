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
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tangram-dev/tangram/config"
	"github.com/tangram-dev/tangram/lab/local"
	"github.com/tangram-dev/tangram/test/cluster"
)

// TestExtender: a stock kube-scheduler with gpu-extender beside it gives pods their
// devices, shares cards, says why not, and preempts where that helps.
func TestExtender(t *testing.T) {
	t.Parallel()
	w := newWorld(t, true)
	w.Fleet(`
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
		node, rec := w.Placed(name)
		return node, rec.Containers[0].Devices[0].Index
	}

	a100 := cluster.Model("A100")
	w.Create(pod("whole", 4, stock, a100))
	full, _ := device("whole")
	third := map[string]string{"nvidia.com/gpu": "1", "nvidia.com/gpumem": "25000"}
	for i := range 3 {
		name := fmt.Sprintf("share-%d", i)
		w.Create(pod(name, 0, stock, a100, asking(third)))
		if node, index := device(name); node == full || index != 0 {
			t.Errorf("%s is on device %d of %s", name, index, node)
		}
	}
	w.Create(pod("large", 4, stock, a100))
	w.Waits("large", "too few free GPUs (3 of 4)", "too few free GPUs (0 of 4)")
	w.Create(pod("bad", 0, stock, asking(map[string]string{"nvidia.com/gpu": "1", "nvidia.com/gpucores": "101"})))
	w.Waits("bad", "resources.requests[nvidia.com/gpucores]: 101")

	// GPUs by ResourceClaim are refused by field, and what a claim holds is not given out.
	w.Apply(`{apiVersion: resource.k8s.io/v1, kind: DeviceClass, metadata: {name: gpus}, spec: {selectors: [{cel: {expression: 'device.driver == "gpu.tangram.dev"'}}]}}`)
	w.Apply(`{apiVersion: resource.k8s.io/v1, kind: ResourceClaim, metadata: {name: claim, namespace: default}, spec: {devices: {requests: [{name: r, exactly: {deviceClassName: gpus}}]}}}`)
	w.Apply(`{apiVersion: resource.k8s.io/v1, kind: ResourceSlice, metadata: {name: a100-1}, spec: {driver: gpu.tangram.dev, nodeName: a100-1, pool: {name: a100-1, generation: 1, resourceSliceCount: 1}, devices: [{name: gpu-9, attributes: {type: {string: gpu}, uuid: {string: GPU-9}}}]}}`)
	w.Create(pod("claims", 1, stock, a100, func(p *v1.Pod) {
		claim := "claim"
		p.Spec.ResourceClaims = []v1.PodResourceClaim{{Name: "c", ResourceClaimName: &claim}}
	}))
	w.Waits("claims", "spec.resourceClaims[0]: asks for GPUs by ResourceClaim, which gpu-extender does not place")
	w.Delete("claims")

	// Preemption. The scheduler sees a shortage by its own count of nvidia.com/gpu, or
	// it does not preempt: on nodes that publish shared cards many times it never will.
	v100 := cluster.Model("V100")
	for i := range 4 {
		w.Create(pod(fmt.Sprintf("low-%d", i), 1, stock, v100))
		w.Placed(fmt.Sprintf("low-%d", i))
	}
	w.AddPriorityClass("high", 1000)
	w.Eventually("the API server knows the priority", func() (bool, string) {
		probe := pod("probe", 0, stock, cluster.Priority("high"))
		_, err := w.Client.CoreV1().Pods("default").Create(context.Background(), probe, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		return err == nil, fmt.Sprint(err)
	})
	w.Create(pod("important", 2, stock, v100, cluster.Priority("high")))
	w.Eventually("victims make room for important", func() (bool, string) {
		for _, p := range w.AllPods() {
			if p.DeletionTimestamp != nil {
				// There is no kubelet to end it.
				w.Delete(p.Name)
			}
		}
		p := w.Get("important")
		return p.Spec.NodeName != "", cluster.Waiting(p)
	})
	if left := w.CheckRecords(); left != 4+1+2+2 { // whole, the shared card, important, two of the four
		t.Errorf("%d devices are held", left)
	}

	// Nonsense is answered, not obeyed.
	for path, body := range map[string]string{"/filter": "{", "/prioritize": "{}", "/preempt": "{}"} {
		res, err := http.Post(url+path, "application/json", strings.NewReader(body))
		w.Must(err)
		if res.Body.Close(); res.StatusCode != http.StatusBadRequest {
			t.Errorf("%s %s: %s", path, body, res.Status)
		}
	}
}

// extender starts gpu-extender and a stock kube-scheduler that asks it, and returns
// the extender's URL.
func (w *world) extender() string {
	w.T.Helper()
	bin := cluster.Bin(w.T, "gpu-extender", "kube-scheduler")
	port, err := local.FreePort()
	w.Must(err)
	url := fmt.Sprintf("http://127.0.0.1:%d", port)
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	w.Must(w.ApplyManifests(ctx, config.ExtenderRBAC()))
	own, err := w.KubeconfigFor("system:tangram:gpu-extender")
	w.Must(err)
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
	w.Must(err)
	if _, err := w.StockScheduler(ctx, "kube-scheduler", cluster.SchedulerUser, strings.Replace(string(config.Extender()), "http://127.0.0.1:8888", url, 1)); err != nil {
		w.T.Fatal(err)
	}
	return url
}
