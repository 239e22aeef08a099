package dialect

import (
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/tangram-dev/tangram/api/names"
	"github.com/tangram-dev/tangram/api/record"
	"github.com/tangram-dev/tangram/core/engine"
	"github.com/tangram-dev/tangram/core/ledger"
	"github.com/tangram-dev/tangram/core/model"
	"github.com/tangram-dev/tangram/core/place"
)

// assumedClaim is the claim a pod has once it is given devices, before the API shows it.
func assumedClaim(pod *v1.Pod, r *model.Request, n *model.Node, g place.Grant) ledger.Claim {
	c := g.Claim(model.HolderID(pod.UID), r, n)
	c.Assumed = true
	return c
}

// TestVocabularies: every resource of the table is read, alone or with those that belong to
// it, and what it asks for is charged.
func TestVocabularies(t *testing.T) {
	share := func(memory model.MiB, percent, milli int) model.Part {
		return model.Part{Kind: model.Share, Memory: memory, MemoryMilli: percent * 10, Milli: milli}
	}
	slice := func(profile string) model.Part { return model.Part{Kind: model.Slice, Profile: profile} }
	turn := model.Part{Kind: model.Share, Turn: true}
	tests := []struct {
		name, requests string
		label          string
		vendor         model.Vendor
		count          int
		part           model.Part
	}{
		{"NVIDIA", "nvidia.com/gpu=2", "", model.NVIDIA, 2, model.Part{}},
		{"NVIDIA with memory", "nvidia.com/gpu=2 nvidia.com/gpu-memory=64Gi", "", model.NVIDIA, 2, model.Part{}},
		{"AMD", "amd.com/gpu=4", "", model.AMD, 4, model.Part{}},
		{"Intel", "gpu.intel.com/i915=1", "", model.Intel, 1, model.Part{}},
		{"HAMi memory", "nvidia.com/gpu=2 nvidia.com/gpumem=3000", "", model.NVIDIA, 2, share(3000, 0, 0)},
		{"HAMi memory and cores", "nvidia.com/gpu=1 nvidia.com/gpumem=3000 nvidia.com/gpucores=30", "", model.NVIDIA, 1, share(3000, 0, 300)},
		{"HAMi percent", "nvidia.com/gpu=1 nvidia.com/gpumem-percentage=50", "", model.NVIDIA, 1, share(0, 50, 0)},
		{"HAMi cores alone: all memory", "nvidia.com/gpu=1 nvidia.com/gpucores=50", "", model.NVIDIA, 1, share(0, 100, 500)},
		{"HAMi without a number: one card", "nvidia.com/gpumem=3000", "", model.NVIDIA, 1, share(3000, 0, 0)},
		{"MIG", "nvidia.com/mig-1g.10gb=2", "", model.NVIDIA, 2, slice("1g.10gb")},
		{"MIG with media", "nvidia.com/mig-1g.10gb.me=1", "", model.NVIDIA, 1, slice("1g.10gb.me")},
		{"time-sliced", "nvidia.com/gpu.shared=1", "", model.NVIDIA, 1, turn},
		{"vGPU", "nvidia.com/vgpu=1", "", model.NVIDIA, 1, turn},
		{"Volcano share", "volcano.sh/gpu-memory=4096", "", model.NVIDIA, 1, share(4096, 0, 0)},
		{"Volcano number", "volcano.sh/gpu-number=2", "", model.NVIDIA, 2, model.Part{}},
		{"Volcano vGPU", "volcano.sh/vgpu-number=2 volcano.sh/vgpu-memory=4096 volcano.sh/vgpu-cores=25", "", model.NVIDIA, 2, share(4096, 0, 250)},
		{"Volcano vGPU, percent", "volcano.sh/vgpu-number=2 volcano.sh/vgpu-memory-percentage=50", "", model.NVIDIA, 2, share(0, 50, 0)},
		{"Volcano vGPU without memory", "volcano.sh/vgpu-number=1", "", model.NVIDIA, 1, share(0, 100, 0)},
		{"cGPU", "aliyun.com/gpu-mem=8", "", model.NVIDIA, 1, share(8<<10, 0, 0)},
		{"cGPU and core, the seeds' word", "aliyun.com/gpu-mem=8 aliyun.com/gpu-core=50", "", model.NVIDIA, 1, share(8<<10, 0, 500)},
		{"cGPU and core, ACK's word", "aliyun.com/gpu-mem=8 aliyun.com/gpu-core.percentage=50", "", model.NVIDIA, 1, share(8<<10, 0, 500)},
		{"cGPU over two cards", "aliyun.com/gpu-mem=8 aliyun.com/gpu-core.percentage=120", "2", model.NVIDIA, 2, share(4<<10, 0, 600)},
		{"Ascend", "huawei.com/Ascend910=4", "", model.Ascend, 4, model.Part{}},
		{"Ascend memory: a template", "huawei.com/Ascend910B3=1 huawei.com/Ascend910B3-memory=16384", "", model.Ascend, 1, share(16384, 0, 250)},
		{"Ascend memory is rounded up to a template", "huawei.com/Ascend310P=1 huawei.com/Ascend310P-memory=4000", "", model.Ascend, 1, share(6144, 0, 250)},
		{"Ascend memory beyond the templates: a whole card", "huawei.com/Ascend310P=1 huawei.com/Ascend310P-memory=20000", "", model.Ascend, 1, model.Part{}},
		{"Ascend in lower case", "huawei.com/ascend310p=1 huawei.com/ascend310p-memory=3072", "", model.Ascend, 1, share(3072, 0, 125)},
		{"Ascend core: memory as it is", "huawei.com/Ascend310P=1 huawei.com/Ascend310P-memory=4000 huawei.com/Ascend310P-core=30", "", model.Ascend, 1, share(4000, 0, 300)},
		{"Ascend core alone: all memory", "huawei.com/ascend310p=1 huawei.com/ascend310p-core=30", "", model.Ascend, 1, share(0, 100, 300)},
		{"Ascend of an unknown kind: memory as it is", "huawei.com/Ascend950=1 huawei.com/Ascend950-memory=5000", "", model.Ascend, 1, share(5000, 0, 0)},
		{"Ascend cut beforehand", "huawei.com/Ascend310P-2c=1", "", model.Ascend, 1, model.Part{}},
		{"AI cores of a card", "huawei.com/npu-core=2", "", model.Ascend, 1, share(0, 0, 250)},
		{"AI cores of whole cards", "huawei.com/npu-core=16", "", model.Ascend, 2, model.Part{}},
		{"Koordinator", "koordinator.sh/gpu=200", "", model.NVIDIA, 2, model.Part{}},
		{"Koordinator compute and memory", "koordinator.sh/gpu-core=50 koordinator.sh/gpu-memory=8Gi", "", model.NVIDIA, 1, share(8<<10, 0, 500)},
		{"Koordinator shared", "koordinator.sh/gpu.shared=2 koordinator.sh/gpu-memory-ratio=100", "", model.NVIDIA, 2, share(0, 50, 0)},
	}
	var tried []string
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			p := podOf(container("main", tt.requests), container("idle", "cpu=1"))
			if tt.label != "" {
				p.Labels = map[string]string{cgpuCountLabel: tt.label}
			}
			r, err := Request(p)
			if err != nil || r == nil {
				t.Fatalf("%s is not read: %v", tt.requests, err)
			}
			if err := r.Validate(); err != nil {
				t.Fatal(err)
			}
			if c := r.Containers[0]; r.Vendor != tt.vendor || c.Count != tt.count || c.Part != tt.part || c.Resource == "" {
				t.Errorf("got %s %+v", r.Vendor, c)
			}
			if charged := Charge(p, nil)[engine.GPU(tt.vendor)]; charged == 0 || !Charged(p) {
				t.Errorf("charged with %d thousandths of %s, counts against queues: %v", charged, tt.vendor, Charged(p))
			}
			for word := range strings.FieldsSeq(tt.requests) {
				name, _, _ := strings.Cut(word, "=")
				tried = append(tried, name)
			}
		})
	}
	for _, f := range deviceFamilies {
		for _, w := range f.words {
			if w.Kind == Resource && w.Effect == Reads && w.Source != NodeOnly && !slices.ContainsFunc(tried, w.Matches) {
				t.Errorf("no case has %s, a word of %s: nothing shows that it is read", w.Name, f.name)
			}
		}
	}
}

// TestVocabularyRefusals: bad input in each vocabulary is refused by the field.
func TestVocabularyRefusals(t *testing.T) {
	at := func(field string) string { return "spec.containers[0].resources.requests[" + field + "]" }
	tests := []struct{ name, requests, annotation, want string }{
		{"HAMi over 100 %", "nvidia.com/gpu=1 nvidia.com/gpucores=101", "", at("nvidia.com/gpucores") + ": 101"},
		{"HAMi memory over 100 %", "nvidia.com/gpu=1 nvidia.com/gpumem-percentage=101", "", at("nvidia.com/gpumem-percentage") + ": 101"},
		{"HAMi zero memory", "nvidia.com/gpu=1 nvidia.com/gpumem=0", "", at("nvidia.com/gpumem") + ": 0"},
		{"HAMi both memories", "nvidia.com/gpu=1 nvidia.com/gpumem=1 nvidia.com/gpumem-percentage=1", "", at("nvidia.com/gpumem-percentage") + ": given beside"},
		{"HAMi no cards", "nvidia.com/gpu=0 nvidia.com/gpumem=1", "", at("nvidia.com/gpu") + ": 0 cards"},
		{"HAMi fraction", "nvidia.com/gpu=1 nvidia.com/gpumem=1500m", "", at("nvidia.com/gpumem") + ": 1500m"},
		{"HAMi negative", "nvidia.com/gpu=-1 nvidia.com/gpumem=1", "", at("nvidia.com/gpu") + ": -1"},
		{"HAMi more cards than a node has", "nvidia.com/gpu=65 nvidia.com/gpumem=1", "", at("nvidia.com/gpu") + ": 65"},
		{"HAMi zero percent", "nvidia.com/gpu=1 nvidia.com/gpumem-percentage=0", "", at("nvidia.com/gpumem-percentage") + ": 0"},
		{"HAMi beside AMD", "amd.com/gpu=1 nvidia.com/gpumem=1", "", at("nvidia.com/gpumem") + ": GPUs of two vendors"},
		{"HAMi unknown mode", "nvidia.com/gpu=1 nvidia.com/gpumem=1", hamiMode + "=quantum", `metadata.annotations[nvidia.com/vgpu-mode]: "quantum"`},
		{"MIG form", "nvidia.com/mig-huge=1", "", at("nvidia.com/mig-huge") + `: "huge" is not a MIG profile`},
		{"MIG negative", "nvidia.com/mig-1g.5gb=-1", "", at("nvidia.com/mig-1g.5gb") + ": -1"},
		{"MIG too many", "nvidia.com/mig-1g.5gb=65", "", at("nvidia.com/mig-1g.5gb") + ": 65"},
		{"MIG with something after it", "nvidia.com/mig-1g.5gb.=1", "", at("nvidia.com/mig-1g.5gb.") + `: "1g.5gb."`},
		{"MIG longer than a record holds", "nvidia.com/mig-1g.12345678901234567890123456789gb=1", "", at("nvidia.com/mig-1g.12345678901234567890123456789gb") + ": "},
		{"MIG two profiles", "nvidia.com/mig-1g.5gb=1 nvidia.com/mig-2g.10gb=1", "", at("nvidia.com/mig-2g.10gb") + ": two MIG profiles"},
		{"MIG beside whole", "nvidia.com/mig-1g.5gb=1 nvidia.com/gpu=1", "", at("nvidia.com/mig-1g.5gb") + ": two vocabularies"},
		{"time-sliced negative", "nvidia.com/gpu.shared=-1", "", at("nvidia.com/gpu.shared") + ": -1"},
		{"time-sliced too many", "nvidia.com/gpu.shared=65", "", at("nvidia.com/gpu.shared") + ": 65"},
		{"time-sliced beside whole", "nvidia.com/gpu.shared=1 nvidia.com/gpu=1", "", at("nvidia.com/gpu.shared") + ": two vocabularies"},
		{"vGPU fraction", "nvidia.com/vgpu=500m", "", at("nvidia.com/vgpu") + ": 500m"},
		{"vGPU beside Intel", "nvidia.com/vgpu=1 gpu.intel.com/i915=1", "", at("nvidia.com/vgpu") + ": GPUs of two vendors"},
		{"time-sliced beside vGPU", "nvidia.com/gpu.shared=1 nvidia.com/vgpu=1", "", at("nvidia.com/vgpu") + ": two vocabularies"},
		{"Volcano beside HAMi", "volcano.sh/gpu-memory=1 nvidia.com/gpumem=1", "", at("volcano.sh/gpu-memory") + ": two vocabularies"},
		{"Volcano share negative", "volcano.sh/gpu-memory=-1", "", at("volcano.sh/gpu-memory") + ": -1"},
		{"Volcano share absurd", "volcano.sh/gpu-memory=1Ti", "", at("volcano.sh/gpu-memory") + ": 1Ti"},
		{"Volcano number too many", "volcano.sh/gpu-number=65", "", at("volcano.sh/gpu-number") + ": 65"},
		{"Volcano number negative", "volcano.sh/gpu-number=-1", "", at("volcano.sh/gpu-number") + ": -1"},
		{"Volcano share beside number", "volcano.sh/gpu-memory=1 volcano.sh/gpu-number=1", "", at("volcano.sh/gpu-number") + ": two vocabularies"},
		{"Volcano vGPU no cards", "volcano.sh/vgpu-number=0 volcano.sh/vgpu-memory=1", "", at("volcano.sh/vgpu-number") + ": 0 cards"},
		{"Volcano vGPU zero memory", "volcano.sh/vgpu-number=1 volcano.sh/vgpu-memory=0", "", at("volcano.sh/vgpu-memory") + ": 0"},
		{"Volcano vGPU memory over 100 %", "volcano.sh/vgpu-number=1 volcano.sh/vgpu-memory-percentage=101", "", at("volcano.sh/vgpu-memory-percentage") + ": 101"},
		{"Volcano vGPU both memories", "volcano.sh/vgpu-memory=1 volcano.sh/vgpu-memory-percentage=1", "", at("volcano.sh/vgpu-memory-percentage") + ": given beside"},
		{"Volcano vGPU beside whole", "volcano.sh/vgpu-number=1 nvidia.com/gpu=1", "", at("volcano.sh/vgpu-number") + ": two vocabularies"},
		{"Volcano empty UUID", "volcano.sh/vgpu-number=1", volcanoUse + "=a,,b", "metadata.annotations[volcano.sh/vgpu-use-gpuuuid]"},
		{"Volcano vGPU over 100 %", "volcano.sh/vgpu-number=1 volcano.sh/vgpu-cores=200", "", at("volcano.sh/vgpu-cores") + ": 200"},
		{"Volcano unknown mode", "volcano.sh/vgpu-number=1", volcanoMode + "=x", "metadata.annotations[volcano.sh/vgpu-mode]"},
		{"cGPU core alone", "aliyun.com/gpu-core=50", "", at("aliyun.com/gpu-core") + ": given without"},
		{"cGPU both cores", "aliyun.com/gpu-mem=1 aliyun.com/gpu-core=50 aliyun.com/gpu-core.percentage=50", "", at("aliyun.com/gpu-core.percentage") + ": given beside"},
		{"cGPU over 100 %", "aliyun.com/gpu-mem=1 aliyun.com/gpu-core=150", "", at("aliyun.com/gpu-core") + ": 150%"},
		{"cGPU zero core", "aliyun.com/gpu-mem=1 aliyun.com/gpu-core=0", "", at("aliyun.com/gpu-core") + ": 0"},
		{"cGPU no memory", "aliyun.com/gpu-mem=0 aliyun.com/gpu-core.percentage=10", "", at("aliyun.com/gpu-core.percentage") + ": given without"},
		{"cGPU negative", "aliyun.com/gpu-mem=-1", "", at("aliyun.com/gpu-mem") + ": -1"},
		{"cGPU absurd", "aliyun.com/gpu-mem=20000", "", at("aliyun.com/gpu-mem") + ": 20k"},
		{"cGPU beside whole", "aliyun.com/gpu-mem=1 nvidia.com/gpu=1", "", at("aliyun.com/gpu-mem") + ": two vocabularies"},
		{"Ascend negative", "huawei.com/Ascend910=-1", "", at("huawei.com/Ascend910") + ": -1"},
		{"Ascend too many", "huawei.com/Ascend910=65", "", at("huawei.com/Ascend910") + ": 65"},
		{"Ascend zero memory", "huawei.com/Ascend910=1 huawei.com/Ascend910-memory=0", "", at("huawei.com/Ascend910-memory") + ": 0, but"},
		{"Ascend no cards", "huawei.com/Ascend910=0 huawei.com/Ascend910-memory=1", "", at("huawei.com/Ascend910") + ": 0, but"},
		{"Ascend zero core", "huawei.com/npu-core=0", "", at("huawei.com/npu-core") + ": 0"},
		{"Ascend AI cores that no template has", "huawei.com/npu-core=3", "", at("huawei.com/npu-core") + ": 3 AI cores"},
		{"Ascend AI cores beside cards", "huawei.com/npu-core=2 huawei.com/Ascend310P=1", "", at("huawei.com/npu-core") + ": given beside"},
		{"Ascend parts of two cards", "huawei.com/Ascend310P=2 huawei.com/Ascend310P-memory=3072", "", at("huawei.com/Ascend310P") + ": a part of each of 2 cards"},
		{"Ascend more memory than a card has", "huawei.com/ascend310p=1 huawei.com/ascend310p-memory=30000", "", at("huawei.com/ascend310p-memory") + ": 30000 MiB"},
		{"Ascend core of a card over 100 %", "huawei.com/Ascend310P-core=101", "", at("huawei.com/Ascend310P-core") + ": 101"},
		{"Ascend two spellings of two cards", "huawei.com/ascend310p=1 huawei.com/Ascend910B3=1", "", at("huawei.com/ascend310p") + ": two kinds"},
		{"Ascend memory of another card", "huawei.com/Ascend910=1 huawei.com/Ascend310P-memory=1", "", at("huawei.com/Ascend910") + ": two kinds"},
		{"Ascend beside NVIDIA", "huawei.com/Ascend910=1 nvidia.com/gpu=1", "", at("huawei.com/Ascend910") + ": GPUs of two vendors"},
		{"AMD fraction", "amd.com/gpu=500m", "", at("amd.com/gpu") + ": 500m"},
		{"AMD too many", "amd.com/gpu=65", "", at("amd.com/gpu") + ": 65"},
		{"Intel negative", "gpu.intel.com/i915=-1", "", at("gpu.intel.com/i915") + ": -1"},
		{"Intel beside AMD", "gpu.intel.com/i915=1 amd.com/gpu=1", "", at("gpu.intel.com/i915") + ": GPUs of two vendors"},
		{"memory of nothing", "nvidia.com/gpu=0 nvidia.com/gpu-memory=1Gi", "", at("nvidia.com/gpu-memory") + ": the container asks for no"},
		{"memory of shares", "nvidia.com/gpu=1 nvidia.com/gpu-memory=1Gi nvidia.com/gpumem=1", "", at("nvidia.com/gpu-memory") + ": "},
		{"Ascend two cards", "huawei.com/Ascend910=1 huawei.com/Ascend310P=1", "", at("huawei.com/Ascend910") + ": two kinds"},
		{"Ascend core over 100 %", "huawei.com/npu-core=101", "", at("huawei.com/npu-core") + ": 101"},
		{"placement", "nvidia.com/gpu=1", names.AnnotationPlacement + "=sideways", "metadata.annotations[tangram.dev/placement]"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			p := podOf(container("main", tt.requests))
			if key, value, ok := strings.Cut(tt.annotation, "="); ok {
				p.Annotations[key] = value
			}
			if r, err := Request(p); err == nil || !strings.HasPrefix(err.Error(), tt.want) {
				t.Errorf("got %+v, %v\nwant an error that begins with %s", r, err, tt.want)
			}
		})
	}
	for _, v := range vocabularies {
		refused := slices.ContainsFunc(v.words, func(w Word) bool {
			for _, tt := range tests {
				for word := range strings.FieldsSeq(tt.requests) {
					if name, _, _ := strings.Cut(word, "="); w.Matches(name) {
						return true
					}
				}
			}
			return false
		})
		if behaviours[v.name].read != nil && !refused && v.name != "KAI and Run:ai" && v.name != "Koordinator" { // kai_test.go, koordinator_test.go
			t.Errorf("%s has a read function, and no case says what it refuses", v.name)
		}
	}
	mixed := podOf(container("a", "nvidia.com/gpu=1"), container("b", "nvidia.com/gpumem=1"))
	if _, err := Request(mixed); err == nil || !strings.Contains(err.Error(), "whole GPUs and parts of GPUs in one pod") {
		t.Errorf("whole and share in one pod: got %v", err)
	}
}

func TestRegistrations(t *testing.T) {
	tests := []struct {
		name, annotation, value, allocatable string
		devices                              int
		check                                func(model.Device) bool
		problem                              string
	}{
		{"HAMi", hamiRegister, `[{"id":"GPU-a","index":0,"count":10,"devmem":24576,"devcore":100,"type":"NVIDIA-NVIDIA A10","numa":1,"mode":"hami-core","health":true},{"id":"GPU-b","index":1,"count":10,"devmem":24576,"type":"NVIDIA-NVIDIA A10","health":false}]`, "nvidia.com/gpu=20", 2,
			func(d model.Device) bool {
				return d.UUID == "GPU-a" && d.Memory == 24576 && d.Tenants == 10 && d.Model.Is(model.ParseModel("A10"))
			}, ""},
		{"HAMi, invalid JSON", hamiRegister, `{`, "nvidia.com/gpu=20", 20, nil, hamiRegister},
		{"HAMi no memory", hamiRegister, `[{"id":"GPU-a"}]`, "nvidia.com/gpu=1", 1, nil, "entry 0: id, devmem"},
		{"HAMi a name no record holds", hamiRegister, `[{"id":"GPU a","devmem":1}]`, "nvidia.com/gpu=1", 1, nil, "entry 0: id, devmem"},
		{"HAMi an index no record holds", hamiRegister, `[{"id":"GPU-a","index":1024,"devmem":1}]`, "nvidia.com/gpu=1", 1, nil, "entry 0: id, devmem"},
		{"HAMi same card twice", hamiRegister, `[{"id":"GPU-a","devmem":1},{"id":"GPU-a","index":1,"devmem":1}]`, "nvidia.com/gpu=1", 1, nil, "devices[1].uuid"},
		{"Volcano vGPU", volcanoRegister, "GPU-a,10,32768,NVIDIA-Tesla V100,true,hami-core:GPU-b,10,32768,NVIDIA-Tesla V100,false,hami-core:", "volcano.sh/vgpu-number=20", 2,
			func(d model.Device) bool { return d.UUID == "GPU-a" && d.Memory == 32768 && d.Tenants == 10 }, ""},
		{"Volcano vGPU short", volcanoRegister, "GPU-a,10:", "volcano.sh/vgpu-number=20", 0, nil, "has 2 fields"},
		{"Volcano vGPU a name no record holds", volcanoRegister, "GPU;a,10,32768,V100,true,hami-core:", "volcano.sh/vgpu-number=20", 0, nil, "card 0: uuid, count"},
		{"Volcano share", "", "", "volcano.sh/gpu-number=2 volcano.sh/gpu-memory=65536", 2, func(d model.Device) bool { return d.Memory == 32768 }, ""},
		{"cGPU", "", "", "aliyun.com/gpu-count=2 aliyun.com/gpu-mem=64", 2, func(d model.Device) bool { return d.Memory == 32<<10 }, ""},
		{"time-sliced", "", "", "nvidia.com/gpu.shared=8", 2, func(d model.Device) bool { return d.Tenants == 4 }, ""},
		{"static MIG beside a whole GPU", "", "", "nvidia.com/gpu=1 nvidia.com/mig-1g.5gb=3", 4, func(d model.Device) bool { return len(d.MIG) == 0 }, ""},
		{"Ascend", "", "", "huawei.com/Ascend910B3=8 huawei.com/Ascend910B3-memory=524288", 8, func(d model.Device) bool { return d.Vendor == model.Ascend && d.Memory == 65536 }, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			n := nodeOf(nil, tt.allocatable)
			if strings.HasPrefix(tt.allocatable, string("nvidia.com/gpu.shared")) {
				n.Labels = map[string]string{replicasLabel: "4"}
			}
			if tt.annotation != "" {
				n.Annotations = map[string]string{tt.annotation: tt.value}
			}
			inv, err := Inventory(n, nil)
			if (err == nil) != (tt.problem == "") || err != nil && !strings.Contains(err.Error(), tt.problem) {
				t.Errorf("problem: got %v, want %q", err, tt.problem)
			}
			if err := ledger.Validate(inv); err != nil {
				t.Fatal(err)
			}
			if len(inv.Devices) != tt.devices || tt.check != nil && !tt.check(inv.Devices[0]) {
				t.Errorf("got %+v", inv.Devices)
			}
		})
	}
	for _, v := range vocabularies {
		tried := v.name == "Koordinator" // koordinator_test.go
		for _, tt := range tests {
			n := nodeOf(nil, tt.allocatable)
			if tt.annotation != "" {
				n.Annotations = map[string]string{tt.annotation: tt.value}
			}
			if v.devices != nil && !tried && tt.problem == "" {
				reg, err := v.devices(n)
				tried = err == nil && reg != nil
			}
		}
		if v.devices != nil && !tried {
			t.Errorf("%s reads devices of nodes, and no case has any", v.name)
		}
	}
	n := nodeOf(nil, "nvidia.com/gpu=20")
	n.Annotations = map[string]string{hamiRegister: tests[0].value, hamiCordon: "GPU-a"}
	if inv, _ := Inventory(n, nil); !inv.Devices[0].Cordoned || inv.Devices[1].Health == model.Healthy {
		t.Error("a cordoned and an unhealthy card must not be sold")
	}
}

// place puts a pod on a node and returns the pod as the API would show it.
func placeOn(t *testing.T, p *v1.Pod, node *v1.Node) *v1.Pod {
	t.Helper()
	inv, err := Inventory(node, nil)
	if err != nil {
		t.Fatal(err)
	}
	l := ledger.New()
	if err := l.SetNode(inv); err != nil {
		t.Fatal(err)
	}
	r, err := Request(p)
	if err != nil {
		t.Fatal(err)
	}
	v, _ := l.View(inv.ID)
	grant, refusal := place.Fit(r, v)
	if refusal != nil {
		t.Fatal(refusal)
	}
	text, err := record.Encode(Record(r, inv, grant))
	if err != nil {
		t.Fatal(err)
	}
	p.Annotations = Annotations(p, r, inv, grant, time.Unix(100, 0))
	p.Annotations[names.AnnotationDevices] = text
	p.Spec.NodeName = node.Name
	// The record proves itself, and holds what was assumed.
	claims, err := Claims(p)
	if err != nil {
		t.Fatal(err)
	}
	l.Put(inv.ID, claims[0])
	confirmed, _ := l.View(inv.ID)
	l.Put(inv.ID, assumedClaim(p, r, inv, grant))
	if assumed, _ := l.View(inv.ID); !assumed.Equal(confirmed) {
		t.Errorf("assumed and confirmed claims differ:\n%s", l)
	}
	return p
}

// TestAnnotationsForDevicePlugins are what the plugins of each family read.
func TestAnnotationsForDevicePlugins(t *testing.T) {
	hamiNode := nodeOf(nil, "nvidia.com/gpu=20")
	hamiNode.Annotations = map[string]string{hamiRegister: `[{"id":"GPU-a","index":0,"count":10,"devmem":24576,"type":"A10","health":true},{"id":"GPU-b","index":1,"count":10,"devmem":24576,"type":"A10","health":true}]`}
	vNode := nodeOf(nil, "volcano.sh/vgpu-number=20")
	vNode.Annotations = map[string]string{volcanoRegister: "GPU-a,10,32768,V100,true,hami-core:GPU-b,10,32768,V100,true,hami-core:"}
	tests := []struct {
		name string
		node *v1.Node
		pod  *v1.Pod
		want map[string]string
	}{
		{"HAMi", hamiNode, podOf(container("idle", "cpu=1"), container("a", "nvidia.com/gpu=2 nvidia.com/gpumem=3000 nvidia.com/gpucores=30")), map[string]string{
			"hami.io/vgpu-devices-to-allocate": ";GPU-a,NVIDIA,3000,30:GPU-b,NVIDIA,3000,30:;",
			"hami.io/bind-phase":               "allocating", "hami.io/vgpu-node": "n", "hami.io/bind-time": "100",
		}},
		{"Volcano vGPU", vNode, podOf(container("idle", "cpu=1"), container("a", "volcano.sh/vgpu-number=1 volcano.sh/vgpu-memory=4096"), container("b", "volcano.sh/vgpu-number=1 volcano.sh/vgpu-memory=1024")), map[string]string{
			"volcano.sh/vgpu-ids-new": "GPU-a,NVIDIA,4096,0:;GPU-a,NVIDIA,1024,0:", "volcano.sh/vgpu-node": "n", "volcano.sh/bind-phase": "allocating",
		}},
		{"Volcano share", nodeOf(nil, "volcano.sh/gpu-number=2 volcano.sh/gpu-memory=65536"), podOf(container("a", "volcano.sh/gpu-memory=4096")), map[string]string{
			"volcano.sh/gpu-index": "0", "volcano.sh/predicate-time": "100000000000",
		}},
		{"Volcano number", nodeOf(nil, "volcano.sh/gpu-number=4 volcano.sh/gpu-memory=65536"), podOf(container("a", "volcano.sh/gpu-number=2")), map[string]string{"volcano.sh/gpu-index": "0,1"}},
		{"cGPU", nodeOf(nil, "aliyun.com/gpu-count=2 aliyun.com/gpu-mem=32"), podOf(container("a", "aliyun.com/gpu-mem=4"), container("b", "aliyun.com/gpu-mem=2")), map[string]string{
			"ALIYUN_COM_GPU_MEM_IDX": "0", "ALIYUN_COM_GPU_MEM_DEV": "16", "ALIYUN_COM_GPU_MEM_POD": "6", "ALIYUN_COM_GPU_MEM_ASSIGNED": "false",
			"scheduler.framework.gpushare.allocation": `{"0":{"0":4},"1":{"0":2}}`,
		}},
		{"Ascend share", nodeOf(nil, "huawei.com/Ascend910B3=2 huawei.com/Ascend910B3-memory=131072"), podOf(container("a", "huawei.com/Ascend910B3=1 huawei.com/Ascend910B3-memory=16384")), map[string]string{
			"hami.io/Ascend910B3-devices-to-allocate": "0,Ascend910B3,16384,0:;",
		}},
		{"AI cores", nodeOf(nil, "huawei.com/npu-core=16"), podOf(container("a", "huawei.com/npu-core=2")), map[string]string{"huawei.com/npu-core": "0-vir02"}},
		{"Koordinator", nodeOf(nil, "nvidia.com/gpu=2"), podOf(container("a", "koordinator.sh/gpu=100")), map[string]string{
			koordAllocated: `{"gpu":[{"minor":0,"resources":{"koordinator.sh/gpu-core":"100","koordinator.sh/gpu-memory":"0"}}]}`,
		}},
		{"whole GPUs need nothing", nodeOf(nil, "nvidia.com/gpu=2"), podOf(container("a", "nvidia.com/gpu=1")), map[string]string{}},
		{"static MIG needs nothing", nodeOf(nil, "nvidia.com/mig-1g.5gb=2"), podOf(container("a", "nvidia.com/mig-1g.5gb=2")), map[string]string{}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			p := placeOn(t, tt.pod, tt.node)
			for key, want := range tt.want {
				if got := p.Annotations[key]; got != want {
					t.Errorf("%s: got %q, want %q", key, got, want)
				}
			}
			if len(tt.want) == 0 && len(p.Annotations) != 1 {
				t.Errorf("got %v", slices.Sorted(maps.Keys(p.Annotations)))
			}
			for key := range p.Annotations {
				if w, _ := FindWord(Annotation, key); w.Source != Binding && key != names.AnnotationDevices && key != names.AnnotationUseIndex { // people write indexes, too
					t.Errorf("%s is written and not among the boundWords of the table: tenants could forge it", key)
				}
			}
		})
	}
}

// TestForgedShares: a record that claims less than the pod asks for is not counted.
func TestForgedShares(t *testing.T) {
	p := placeOn(t, podOf(container("a", "volcano.sh/gpu-memory=4096")), nodeOf(nil, "volcano.sh/gpu-number=2 volcano.sh/gpu-memory=65536"))
	p.Annotations[names.AnnotationDevices] = strings.Replace(p.Annotations[names.AnnotationDevices], "4096", "1", 1)
	claims, err := Claims(p)
	if err == nil || !strings.Contains(err.Error(), "another amount of device 0") {
		t.Errorf("got %v", err)
	}
	if len(claims) != 1 || len(claims[0].Parts) != 1 || claims[0].Parts[0].Known || claims[0].Parts[0].Memory != 4096 {
		t.Errorf("the pod must be counted by its request: %+v", claims)
	}
}

// TestHeldAsPromised: what a record is read back as is what was promised, for parts
// that are held otherwise than each container has them.
func TestHeldAsPromised(t *testing.T) {
	hamiNode := nodeOf(nil, "nvidia.com/gpu=20")
	hamiNode.Annotations = map[string]string{hamiRegister: `[{"id":"GPU-a","index":0,"count":10,"devmem":24577,"health":true}]`}
	tests := []struct {
		name       string
		node       *v1.Node
		init, main string
		memory     model.MiB
		tenants    int
	}{
		{"init takes more percent", hamiNode, "nvidia.com/gpumem-percentage=80", "nvidia.com/gpumem-percentage=20", 19661, 1},
		{"init takes less percent", hamiNode, "nvidia.com/gpumem-percentage=10", "nvidia.com/gpumem-percentage=20", 4915, 1},
		{"MiB after percent: room for both", hamiNode, "nvidia.com/gpumem-percentage=50", "nvidia.com/gpumem=1000", 13288, 1},
		{"init alone has a turn", nodeOf(map[string]string{replicasLabel: "4"}, "nvidia.com/gpu.shared=4"), "nvidia.com/gpu.shared=1", "cpu=1", 0, 1},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			p := podOf(container("main", tt.main))
			p.Spec.InitContainers = []v1.Container{container("init", tt.init)}
			p = placeOn(t, p, tt.node) // compares promise and record
			for _, recorded := range []bool{true, false} {
				if !recorded { // counted without a record, too
					delete(p.Annotations, names.AnnotationDevices)
				}
				claims, err := Claims(p)
				if err != nil {
					t.Fatal(err)
				}
				l := ledger.New()
				inv, _ := Inventory(tt.node, nil)
				if err := l.SetNode(inv); err != nil {
					t.Fatal(err)
				}
				l.Put(inv.ID, claims[0])
				v, _ := l.View(inv.ID)
				if u := v.Usage(0); u.Memory != tt.memory || u.Tenants != tt.tenants {
					t.Errorf("recorded %v: held %+v, want %d MiB and %d tenants", recorded, u, tt.memory, tt.tenants)
				}
			}
		})
	}
}

// TestForgedSpread: neither a record nor a label can make a cGPU pod's share
// smaller, or make it vanish.
func TestForgedSpread(t *testing.T) {
	rec := func(devices string) string {
		return `{"version":1,"node":"n","containers":[{"name":"a","resource":"aliyun.com/gpu-mem","devices":[` + devices + `]}]}`
	}
	const one, three = `{"index":0,"memoryMiB":8192,"computeMilli":600}`, `{"index":0},{"index":1},{"index":2}`
	tests := []struct {
		name, record, label string
		parts               int
	}{
		{"as placed", rec(`{"index":0,"memoryMiB":4096,"computeMilli":600},{"index":1,"memoryMiB":4096,"computeMilli":600}`), "2", 2},
		{"label edited", rec(`{"index":0,"memoryMiB":4096,"computeMilli":600},{"index":1,"memoryMiB":4096,"computeMilli":600}`), "x", 2},
		{"not divisible", rec(three), "2", 2},
		{"more than a card has", rec(one), "1", 2},
		{"no record", "", "4", 4},
		{"nothing left to tell", "", "", 2},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			p := bound(tt.record, container("a", "aliyun.com/gpu-mem=8 aliyun.com/gpu-core.percentage=120"))
			p.Labels = map[string]string{cgpuCountLabel: tt.label}
			if tt.label == "" {
				p.Labels = nil
			}
			claims, _ := Claims(p)
			if len(claims) != 1 || len(claims[0].Parts) != tt.parts {
				t.Fatalf("got %+v", claims)
			}
			memory, milli := model.MiB(0), 0
			for _, part := range claims[0].Parts {
				memory, milli = memory+part.Memory, milli+part.Milli
			}
			if memory != 8192 || milli != 1200 {
				t.Errorf("got %d MiB and %d, want 8192 and 1200", memory, milli)
			}
		})
	}
}

// TestRefusedPodsAreCounted: a pod that another scheduler placed and Tangram would have
// refused holds what can be read of it, in every vocabulary.
func TestRefusedPodsAreCounted(t *testing.T) {
	tests := []struct {
		name, a, b   string
		count, parts int
	}{
		{"whole and share", "nvidia.com/gpu=2", "nvidia.com/gpumem=1000", 2, 1},
		{"share counted by the same name", "nvidia.com/gpu=2 nvidia.com/gpumem=1000", "nvidia.com/gpu=1", 1, 2},
		{"two vocabularies", "volcano.sh/gpu-memory=1 aliyun.com/gpu-mem=1", "cpu=1", 0, 2},
		{"Volcano's whole cards", "volcano.sh/gpu-number=2", "volcano.sh/gpu-memory=1", 2, 1},
		{"slice and whole", "nvidia.com/mig-1g.5gb=2", "nvidia.com/gpu=1", 1, 2},
		{"an invalid request is counted by its cards", "nvidia.com/gpu=1 nvidia.com/gpucores=101", "cpu=1", 1, 0},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			p := bound("", container("a", tt.a), container("b", tt.b))
			if _, err := Request(p); err == nil {
				t.Fatal("it should have been refused")
			}
			claims, err := Claims(p)
			if err != nil || len(claims) != 1 || claims[0].Count != tt.count || len(claims[0].Parts) != tt.parts {
				t.Errorf("got %+v, %v; want %d whole and %d parts", claims, err, tt.count, tt.parts)
			}
		})
	}
}
