package dialect

import (
	"maps"
	"slices"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tangram-dev/tangram/api/names"
	"github.com/tangram-dev/tangram/core/ledger"
	"github.com/tangram-dev/tangram/core/model"
)

// amountsOf spells a list of resources, sorted: "cpu=1 nvidia.com/gpu=500m".
func amountsOf(list v1.ResourceList) string {
	var out []string
	for _, name := range slices.Sorted(maps.Keys(list)) {
		q := list[name]
		out = append(out, string(name)+"="+q.String())
	}
	return strings.Join(out, " ")
}

// TestCharge: what a placed pod is charged, as a Queue's status shows it, in every
// vocabulary. Parts of a device are charged with their part.
func TestCharge(t *testing.T) {
	hamiNode := nodeOf(nil, "nvidia.com/gpu=10")
	hamiNode.Annotations = map[string]string{hamiRegister: `[{"id":"GPU-a","index":0,"count":10,"devmem":15360,"type":"Tesla T4","health":true}]`}
	vNode := nodeOf(nil, "volcano.sh/vgpu-number=10")
	vNode.Annotations = map[string]string{volcanoRegister: "GPU-a,10,32768,V100,true,hami-core:"}
	shared := nodeOf(map[string]string{replicasLabel: "4"}, "nvidia.com/gpu.shared=8")
	tests := []struct {
		name     string
		node     *v1.Node
		requests string
		want     string // without pods=1
	}{
		{"whole", nodeOf(nil, "nvidia.com/gpu=8"), "nvidia.com/gpu=2 cpu=500m memory=1Gi", "cpu=500m memory=1Gi nvidia.com/gpu=2"},
		{"half a T4, HAMi", hamiNode, "nvidia.com/gpu=1 nvidia.com/gpumem=7680", "gpu.tangram.dev/t4=500m nvidia.com/gpu=500m nvidia.com/gpumem=7680"},
		{"half a T4 in percent, HAMi", hamiNode, "nvidia.com/gpu=1 nvidia.com/gpumem-percentage=50 nvidia.com/gpucores=20", "gpu.tangram.dev/t4=500m nvidia.com/gpu=500m nvidia.com/gpucores=20 nvidia.com/gpumem-percentage=50"},
		{"more compute than memory, HAMi", hamiNode, "nvidia.com/gpu=1 nvidia.com/gpumem=1024 nvidia.com/gpucores=70", "gpu.tangram.dev/t4=700m nvidia.com/gpu=700m nvidia.com/gpucores=70 nvidia.com/gpumem=1024"},
		{"Volcano vGPU", vNode, "volcano.sh/vgpu-number=1 volcano.sh/vgpu-memory=8192", "gpu.tangram.dev/v100=250m nvidia.com/gpu=250m volcano.sh/vgpu-memory=8192 volcano.sh/vgpu-number=1"},
		{"Volcano share", nodeOf(nil, "volcano.sh/gpu-number=2 volcano.sh/gpu-memory=65536"), "volcano.sh/gpu-memory=8192", "nvidia.com/gpu=250m volcano.sh/gpu-memory=8192"},
		{"Volcano number", nodeOf(nil, "volcano.sh/gpu-number=4 volcano.sh/gpu-memory=65536"), "volcano.sh/gpu-number=2", "nvidia.com/gpu=2 volcano.sh/gpu-number=2"},
		{"cGPU", nodeOf(nil, "aliyun.com/gpu-count=2 aliyun.com/gpu-mem=32"), "aliyun.com/gpu-mem=4", "aliyun.com/gpu-mem=4 nvidia.com/gpu=250m"},
		{"a turn, renamed", shared, "nvidia.com/gpu.shared=1", "nvidia.com/gpu=250m nvidia.com/gpu.shared=1"},
		{"a turn under the name of a GPU", timeSliced(), "nvidia.com/gpu=1", "gpu.tangram.dev/a100=1 nvidia.com/gpu=1"},
		{"static MIG", nodeOf(nil, "nvidia.com/mig-3g.20gb=2"), "nvidia.com/mig-3g.20gb=2", "nvidia.com/gpu=1 nvidia.com/mig-3g.20gb=2"},
		{"static MIG, the most that the name can be", nodeOf(nil, "nvidia.com/mig-1g.10gb=2"), "nvidia.com/mig-1g.10gb=1", "nvidia.com/gpu=250m nvidia.com/mig-1g.10gb=1"},
		{"other resources", nodeOf(nil, "nvidia.com/gpu=8 rdma/hca=4"), "nvidia.com/gpu=1 rdma/hca=2 ephemeral-storage=10Gi", "ephemeral-storage=10737418240 nvidia.com/gpu=1 rdma/hca=2"},
		{"AMD", nodeOf(nil, "amd.com/gpu=8"), "amd.com/gpu=3", "amd.com/gpu=3"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			inv, err := Inventory(tt.node, nil)
			if err != nil {
				t.Fatal(err)
			}
			p := podOf(container("a", tt.requests))
			p = placeOn(t, p, tt.node)
			got := Quantities(Charge(p, inv))
			if pods := got[v1.ResourcePods]; pods.Value() != 1 {
				t.Errorf("counted as %s pods", pods.String())
			}
			delete(got, v1.ResourcePods)
			if text := amountsOf(got); text != tt.want {
				t.Errorf("got  %s\nwant %s", text, tt.want)
			}
		})
	}
}

// TestChargeCounting: init containers and sidecars are counted as Kubernetes counts
// them; without a node or a record a part costs the most that it can be.
func TestChargeCounting(t *testing.T) {
	always := v1.ContainerRestartPolicyAlways
	sidecar := container("side", "rdma/hca=1 nvidia.com/gpu=1")
	sidecar.RestartPolicy = &always
	p := podOf(container("a", "rdma/hca=1 nvidia.com/gpu=1"))
	p.Spec.InitContainers = []v1.Container{sidecar, container("init", "rdma/hca=4 nvidia.com/gpu=4")}
	got := Charge(p, nil)
	if got["resource/rdma/hca"] != 5 || got["gpu/nvidia"] != 5000 {
		t.Errorf("got %v", got)
	}
	for requests, want := range map[string]int64{
		"nvidia.com/gpumem=1": 1000, "nvidia.com/gpumem-percentage=30": 300, "nvidia.com/gpucores=30 nvidia.com/gpumem-percentage=10": 300,
		"nvidia.com/gpu.shared=1": 1000, "nvidia.com/mig-7g.80gb=1": 1000, "nvidia.com/mig-1g.9gb=1": 1000,
	} {
		if got := Charge(podOf(container("a", requests)), nil); got["gpu/nvidia"] != want {
			t.Errorf("%s: got %v, want %d", requests, got, want)
		}
	}
	// A pod that Tangram would have refused is charged with what it holds.
	if got := Charge(bound("", container("a", "nvidia.com/gpu=1 nvidia.com/gpucores=101")), nil); got["gpu/nvidia"] != 1000 {
		t.Errorf("refused: got %v", got)
	}
	model := podOf(container("a", "nvidia.com/gpu=2"))
	model.Annotations[names.AnnotationUseModel] = "H100"
	if got := Charge(model, nil); got["model/h100"] != 2000 {
		t.Errorf("one model: got %v", got)
	}
}

// TestLimitsCountEverything: a limit in any resource is read into the name and unit that
// pods are charged in.
func TestLimitsCountEverything(t *testing.T) {
	const list = "nvidia.com/mig-1g.10gb: 4, huawei.com/Ascend310P: 2, rdma/hca: 8, nvidia.com/gpumem: 40960, nvidia.com/gpu: 1500m, pods: 10"
	q, err := QueueOf(parsed(t, "{metadata: {name: q}, spec: {capability: {"+list+"}, deserved: {"+list+"}, guarantee: {resource: {"+list+"}}}}"))
	if err != nil {
		t.Fatal(err)
	}
	ns := &v1.Namespace{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{names.AnnotationQuota: strings.ReplaceAll(list, ": ", "=")}}}
	quota, err := QuotaOf(ns)
	if err != nil {
		t.Fatal(err)
	}
	for where, got := range map[string]map[string]int64{"capability": plain(q.Capability), "deserved": plain(q.Deserved), "guarantee": plain(q.Guarantee), "quota": plain(quota)} {
		want := map[string]int64{
			"resource/nvidia.com/mig-1g.10gb": 4, "resource/huawei.com/Ascend310P": 2, "resource/rdma/hca": 8, "resource/nvidia.com/gpumem": 40960,
			"gpu/nvidia": 1500, "resource/pods": 10,
		}
		if !maps.Equal(got, want) {
			t.Errorf("%s: got %v", where, got)
		}
	}
	for text, want := range map[string]string{"gpus=1": "is not cpu, memory, an extended resource", "a b/c=1": "is not the name of a resource", "/x=1": "is not the name of a resource"} {
		ns.Annotations[names.AnnotationQuota] = text
		if _, err := QuotaOf(ns); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v", text, err)
		}
	}
}

func plain[R ~string](m map[R]int64) map[string]int64 {
	out := map[string]int64{}
	for r, n := range m {
		out[string(r)] = n
	}
	return out
}

// TestFraction: the largest of a part's parts of memory, compute and turns, rounded up.
func TestFraction(t *testing.T) {
	t4 := &model.Device{Memory: 15360, Tenants: 3}
	for _, tt := range []struct {
		part model.Part
		want int
	}{
		{model.Part{Kind: model.Share, Memory: 5120}, 334},
		{model.Part{Kind: model.Share, Memory: 1, Milli: 10}, 10},
		{model.Part{Kind: model.Share, Turn: true}, 334},
		{model.Part{Kind: model.Share, MemoryMilli: 330}, 330},
		{model.Part{Kind: model.Share, Memory: 99999}, 1000},
		{model.Part{}, 1000},
	} {
		if got := ledger.Fraction(tt.part, t4); got != tt.want {
			t.Errorf("%+v: got %d, want %d", tt.part, got, tt.want)
		}
	}
}
