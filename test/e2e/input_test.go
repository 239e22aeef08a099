package e2e

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"github.com/tangram-dev/tangram/api/names"
	"github.com/tangram-dev/tangram/api/v1alpha1"
	"github.com/tangram-dev/tangram/test/cluster"
)

// TestBadConfiguration: the scheduler does not start, and says which field is to
// blame.
func TestBadConfiguration(t *testing.T) {
	t.Parallel()
	bin := cluster.Bin(t, "gpu-scheduler")
	const head = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\nprofiles:\n- schedulerName: gpu-scheduler\n  plugins: {score: {enabled: [{name: GPUScore}]}, filter: {enabled: [{name: GPUFilter}]}}\n  pluginConfig:\n"
	tests := []struct {
		name, args string
		want       []string
	}{
		{"unknown argument", "  - name: GPUFilter\n    args: {gpuTypez: [T4]}\n", []string{"GPUFilter", `unknown field "gpuTypez"`}},
		{"unknown weight", "  - name: GPUScore\n    args: {weights: {utilisation: 1}}\n", []string{"GPUScore", `weights.utilisation: no such objective`}},
		{"negative weight", "  - name: GPUScore\n    args: {weights: {utilization: -40, topology: 30}}\n", []string{"GPUScore", "weights.utilization: -40"}},
		{"all weights zero", "  - name: GPUScore\n    args: {weights: {}}\n", []string{"GPUScore", "weights: all are 0"}},
		{"wrong type", "  - name: GPUScore\n    args: {weights: {topology: much}}\n", []string{"GPUScore", "weights.topology"}},
		{"no model", "  - name: GPUFilter\n    args: {gpuTypes: [T4, nvidia]}\n", []string{"GPUFilter", `gpuTypes[1]: "nvidia"`}},
		{"argument for a plugin without", "  - name: GPUReserve\n    args: {x: 1}\n", []string{"GPUReserve", `unknown field "x"`}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			dir := t.TempDir()
			file := filepath.Join(dir, "scheduler.yaml")
			kubeconfig := filepath.Join(dir, "kubeconfig")
			for path, text := range map[string]string{
				file:       head + tt.args,
				kubeconfig: "apiVersion: v1\nkind: Config\nclusters: [{name: c, cluster: {server: 'https://127.0.0.1:1'}}]\ncontexts: [{name: c, context: {cluster: c}}]\ncurrent-context: c\n",
			} {
				if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			out, err := exec.Command(filepath.Join(bin, "gpu-scheduler"), "--config", file, "--kubeconfig", kubeconfig, "--leader-elect=false", "--secure-port=0").CombinedOutput()
			if err == nil {
				t.Fatal("the scheduler should not have started")
			}
			said := strings.ReplaceAll(string(out), `\"`, `"`)
			for _, want := range tt.want {
				if !strings.Contains(said, want) {
					t.Errorf("want %q in:\n%s", want, said)
				}
			}
			if strings.Contains(said, "panic") {
				t.Errorf("panicked:\n%s", said)
			}
		})
	}
}

// TestBadPods: each nonsensical pod is refused by name; none stops the others.
func TestBadPods(t *testing.T) {
	t.Parallel()
	w := fleetWorld(t, `pools: [{name: a100, count: 2, gpu: {model: A100-80GB, count: 8}}]`)
	limits := func(p *v1.Pod) v1.ResourceList { return p.Spec.Containers[0].Resources.Limits }

	half := pod("half", 1, func(p *v1.Pod) { limits(p)[names.ResourceNVIDIA] = resource.MustParse("1500m") })
	_, err := w.Client.CoreV1().Pods("default").Create(context.Background(), half, metav1.CreateOptions{})
	if err == nil || !strings.Contains(err.Error(), "spec.containers[0].resources.limits[nvidia.com/gpu]") {
		t.Errorf("1.5 GPUs: got %v", err)
	}

	bad := map[string]struct {
		change func(*v1.Pod)
		want   []string
	}{
		"two-vendors": {func(p *v1.Pod) { limits(p)[names.ResourceAMD] = resource.MustParse("1") },
			[]string{"spec.containers[0].resources.requests[amd.com/gpu]", "two vendors"}},
		"two-vendors-apart": {func(p *v1.Pod) {
			c := *p.Spec.Containers[0].DeepCopy()
			c.Name = "other"
			c.Resources.Limits = v1.ResourceList{names.ResourceIntel: resource.MustParse("1")}
			p.Spec.Containers = append(p.Spec.Containers, c)
		}, []string{"spec.containers[1].resources.requests[gpu.intel.com/i915]", "two vendors"}},
		"memory-alone": {func(p *v1.Pod) {
			delete(limits(p), names.ResourceNVIDIA)
			limits(p)[names.ResourceNVIDIA] = resource.MustParse("0")
			limits(p)[names.ResourceGPUMemory] = resource.MustParse("16Gi")
			c := *p.Spec.Containers[0].DeepCopy()
			c.Name = "other"
			c.Resources.Limits = v1.ResourceList{names.ResourceNVIDIA: resource.MustParse("1")}
			p.Spec.Containers = append(p.Spec.Containers, c)
		}, []string{"spec.containers[0].resources.requests[nvidia.com/gpu-memory]", "no nvidia.com/gpu"}},
		"tiny-memory": {func(p *v1.Pod) { limits(p)[names.ResourceGPUMemory] = resource.MustParse("16") },
			[]string{"resources.requests[nvidia.com/gpu-memory]", "32Gi"}},
		"bad-index": {func(p *v1.Pod) { p.Annotations[names.AnnotationUseIndex] = "0,x" },
			[]string{"metadata.annotations[volcano.sh/gpu-index]", `"x"`}},
		"no-model": {cluster.Model("A100,,T4"),
			[]string{"metadata.annotations[nvidia.com/use-gputype]", "empty entry"}},
	}
	// Every vocabulary refuses by the field what it cannot mean.
	at := func(resource string) string { return "spec.containers[0].resources.requests[" + resource + "]: " }
	for name, b := range map[string]struct {
		amounts map[string]string
		want    string
	}{
		"amd-too-many":      {map[string]string{"amd.com/gpu": "65"}, at("amd.com/gpu") + "65"},
		"intel-too-many":    {map[string]string{"gpu.intel.com/i915": "65"}, at("gpu.intel.com/i915") + "65"},
		"hami-over-100":     {map[string]string{"nvidia.com/gpu": "1", "nvidia.com/gpucores": "101"}, at("nvidia.com/gpucores") + "101"},
		"hami-zero":         {map[string]string{"nvidia.com/gpu": "1", "nvidia.com/gpumem": "0"}, at("nvidia.com/gpumem") + "0"},
		"hami-and-memory":   {map[string]string{"nvidia.com/gpu": "1", "nvidia.com/gpumem": "1", "nvidia.com/gpu-memory": "1Gi"}, at("nvidia.com/gpu-memory") + "memory of whole GPUs"},
		"mig-form":          {map[string]string{"nvidia.com/mig-huge": "1"}, at("nvidia.com/mig-huge") + `"huge" is not a MIG profile`},
		"mig-and-whole":     {map[string]string{"nvidia.com/mig-1g.10gb": "1", "nvidia.com/gpu": "1"}, at("nvidia.com/mig-1g.10gb") + "two vocabularies"},
		"shared-and-vgpu":   {map[string]string{"nvidia.com/gpu.shared": "1", "nvidia.com/vgpu": "1"}, at("nvidia.com/vgpu") + "two vocabularies"},
		"volcano-absurd":    {map[string]string{"volcano.sh/gpu-memory": "1Ti"}, at("volcano.sh/gpu-memory") + "1Ti"},
		"volcano-number":    {map[string]string{"volcano.sh/gpu-number": "65"}, at("volcano.sh/gpu-number") + "65"},
		"volcano-over-100":  {map[string]string{"volcano.sh/vgpu-number": "1", "volcano.sh/vgpu-cores": "200"}, at("volcano.sh/vgpu-cores") + "200"},
		"volcano-no-cards":  {map[string]string{"volcano.sh/vgpu-number": "0", "volcano.sh/vgpu-memory": "1"}, at("volcano.sh/vgpu-number") + "0 cards"},
		"cgpu-over-100":     {map[string]string{"aliyun.com/gpu-mem": "1", "aliyun.com/gpu-core.percentage": "150"}, at("aliyun.com/gpu-core.percentage") + "150%"},
		"cgpu-core-alone":   {map[string]string{"aliyun.com/gpu-core": "50"}, at("aliyun.com/gpu-core") + "given without"},
		"ascend-over-100":   {map[string]string{"huawei.com/npu-core": "101"}, at("huawei.com/npu-core") + "101"},
		"ascend-zero":       {map[string]string{"huawei.com/Ascend910": "1", "huawei.com/Ascend910-memory": "0"}, at("huawei.com/Ascend910-memory") + "0"},
		"ascend-and-nvidia": {map[string]string{"huawei.com/Ascend910": "1", "nvidia.com/gpu": "1"}, at("huawei.com/Ascend910") + "GPUs of two vendors"},
	} {
		bad[name] = struct {
			change func(*v1.Pod)
			want   []string
		}{asking(b.amounts), []string{b.want}}
	}
	for name, b := range bad {
		w.Create(pod(name, 1, b.change))
	}
	for name, b := range bad {
		w.Waits(name, b.want...)
		w.Event("Pod", name, b.want...)
	}
	w.Create(pod("good", 8))
	w.Placed("good")
	// A gang's member is refused for the same reasons, and the others wait for it.
	for i, gpus := range []int{65, 1} {
		w.Create(pod(fmt.Sprintf("member-%d", i), gpus, func(p *v1.Pod) {
			p.Labels = map[string]string{names.LabelGang: "g", names.LabelGangSize: "2"}
		}))
	}
	w.Waits("member-0", at("nvidia.com/gpu")+"65 GPUs")
	w.Event("Pod", "member-1", "waits for members: 1 of 2 exist")
}

// TestForgedRecords: records that cannot be proved are reported, and the pods
// they are on are counted by what they asked for.
func TestForgedRecords(t *testing.T) {
	t.Parallel()
	w := newWorld(t, true)
	w.Fleet(`pools: [{name: a100, count: 1, gpu: {model: A100-80GB, count: 8}}]`)
	bind := func(name string, gpus int, annotation string) {
		w.Create(pod(name, gpus, func(p *v1.Pod) {
			p.Spec.SchedulerName = "other-scheduler"
			p.Annotations[names.AnnotationDevices] = annotation
		}))
		w.Must(w.Bind(name, "a100-0", nil))
	}
	bind("malformed", 1, `{"version":1,"node":`)
	bind("greedy", 1, `{"version":1,"node":"a100-0","containers":[{"name":"main","resource":"nvidia.com/gpu","devices":[{"index":0},{"index":1},{"index":2},{"index":3},{"index":4},{"index":5},{"index":6},{"index":7}]}]}`)
	bind("elsewhere", 1, `{"version":1,"node":"other","containers":[{"name":"main","resource":"nvidia.com/gpu","devices":[{"index":3}]}]}`)
	w.Scheduler(nil)
	w.Event("Pod", "malformed", names.AnnotationDevices)
	w.Event("Pod", "greedy", "was given 8 devices, but asks for 1")
	w.Event("Pod", "elsewhere", `node: "other"`)
	bind("first", 1, `{"version":1,"node":"a100-0","containers":[{"name":"main","resource":"nvidia.com/gpu","devices":[{"index":7}]}]}`)
	time.Sleep(1100 * time.Millisecond) // times of the API are in seconds, and the order of bindings counts
	bind("thief", 1, `{"version":1,"node":"a100-0","containers":[{"name":"main","resource":"nvidia.com/gpu","devices":[{"index":7}]}]}`)
	w.Event("Pod", "thief", "device 7 is held by pods that had it first")
	w.Delete("first")
	w.Delete("thief")
	w.Create(pod("six", 6))
	w.Waits("six", "too few free GPUs (5 of 6)")
	w.Create(pod("five", 5))
	w.Placed("five")
}

// TestContradictingGPUNodes: what the CRD's rules can see is refused at the door;
// what only the scheduler can see is reported, and the rest counts: a sick device is
// not used.
func TestContradictingGPUNodes(t *testing.T) {
	t.Parallel()
	w := newWorld(t, true)
	w.Fleet(`pools: [{name: a100, count: 1, gpu: {model: A100-80GB, count: 4}}]`)
	gpuNodes := w.Dynamic.Resource(v1alpha1.GPUNodes)
	refused := map[string]string{
		`{devices: [{index: 0, uuid: a, vendor: nvidia, model: T4, memoryMiB: 1}, {index: 1, uuid: a, vendor: nvidia, model: T4, memoryMiB: 1}]}`:                        "two devices have the same uuid",
		`{devices: [{index: 0, vendor: nvidia, model: T4, memoryMiB: 1}, {index: 0, vendor: nvidia, model: T4, memoryMiB: 1}]}`:                                          "spec.devices[1]",
		`{devices: [{index: 0, vendor: nvidia, model: T4, memoryMiB: 1}], links: [{between: [0, 5], class: NVLink}]}`:                                                    "between names an index that is not in spec.devices",
		`{devices: [{index: 0, vendor: acme, model: T4, memoryMiB: 1}]}`:                                                                                                 "spec.devices[0].vendor",
		`{devices: [{index: 0, vendor: nvidia, model: T4, memoryMiB: 0}]}`:                                                                                               "spec.devices[0].memoryMiB",
		`{devices: [{index: 0, vendor: nvidia, model: T4, memoryMiB: 1}], links: [{between: [0], class: NVLink}]}`:                                                       "spec.links[0].between",
		`{devices: [{index: 99, vendor: nvidia, model: T4, memoryMiB: 1}]}`:                                                                                              "spec.devices[0].index",
		`{devices: [{index: 0, vendor: nvidia, model: T4, memoryMiB: 1}, {index: 1, vendor: nvidia, model: T4, memoryMiB: 1}], links: [{between: [0, 1], class: Rope}]}`: "spec.links[0].class",
	}
	for spec, want := range refused {
		object := &unstructured.Unstructured{Object: map[string]any{"apiVersion": v1alpha1.GroupVersion.String(), "kind": "GPUNode", "metadata": map[string]any{"name": "bad"}}}
		var body map[string]any
		w.Must(yaml.Unmarshal([]byte(spec), &body))
		object.Object["spec"] = body
		if _, err := gpuNodes.Create(context.Background(), object, metav1.CreateOptions{}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s:\ngot  %v\nwant %s", spec, err, want)
		}
	}

	gn, err := gpuNodes.Get(context.Background(), "a100-0", metav1.GetOptions{})
	w.Must(err)
	gn.Object["status"] = map[string]any{"devices": []any{map[string]any{"index": int64(9), "health": "Failed"}, map[string]any{"index": int64(0), "health": "Failed"}}}
	if _, err := gpuNodes.UpdateStatus(context.Background(), gn, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	w.Scheduler(nil)
	w.Event("GPUNode", "a100-0", "contradicts itself", "status.devices[0].index")
	w.Create(pod("p", 3))
	if _, rec := w.Placed("p"); len(rec.Containers[0].Devices) != 3 || rec.Containers[0].Devices[0].Index != 1 || rec.Containers[0].Devices[0].UUID == "" {
		t.Errorf("all but the failed device should be used: %+v", rec)
	}
	w.Create(pod("q", 1))
	w.Waits("q", "too few free GPUs (0 of 1)")
}
