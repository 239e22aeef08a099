package property

import (
	"fmt"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"
)

// wish is what a container means, in plain words; nil when it may mean nothing.
type wish struct {
	count           int
	memory, percent int
	milli           int
	turn            bool
	profile         string
}

// ask is a pod and what its containers mean, by name.
type ask struct {
	pod    *v1.Pod
	wishes map[string]*wish
}

// words are the vocabularies a container may use.
var words = []string{
	"nvidia", "nvidia", "amd", "intel", "nvidia with memory", "HAMi", "HAMi", "HAMi percent", "HAMi cores", "MIG", "MIG", "turn", "vgpu",
	"volcano share", "volcano number", "volcano vgpu", "cgpu", "cgpu", "ascend", "ascend memory", "ascend core", "npu-core", "nothing", "nonsense", "nonsense",
}

// fitting are words a family's nodes have devices for.
var fitting = map[string][]string{
	"plain": {"nvidia", "amd", "intel"}, "GFD": {"nvidia", "nvidia with memory", "HAMi"}, "seeds": {"nvidia", "nvidia with memory"},
	"GPUNode": {"nvidia", "HAMi", "HAMi percent", "ascend", "amd"}, "GPUNode cut": {"MIG", "MIG", "MIG", "HAMi percent", "nvidia"}, "GPUNode instances": {"MIG"},
	"HAMi": {"HAMi", "HAMi percent", "HAMi cores", "nvidia"}, "Volcano vGPU": {"volcano vgpu", "volcano share"}, "Volcano": {"volcano share", "volcano number"},
	"cGPU": {"cgpu"}, "Ascend": {"ascend", "ascend memory", "ascend core"}, "AI cores": {"npu-core"}, "replicas": {"nvidia"}, "turns": {"turn"}, "vGPU": {"vgpu"}, "static MIG": {"MIG"},
}

func drawPod(t *rapid.T, fleet []machine, serial int) ask {
	p := &v1.Pod{ObjectMeta: metav1.ObjectMeta{
		Namespace: "default", Name: fmt.Sprintf("p%d", serial), UID: types.UID(fmt.Sprintf("u%d", serial)),
		Labels: map[string]string{}, Annotations: map[string]string{},
	}}
	out := ask{pod: p, wishes: map[string]*wish{}}
	spread := pick(t, "cGPU cards", 1, 1, 1, 2, 3)
	if spread > 1 {
		p.Labels["aliyun.com/gpu-count"] = fmt.Sprint(spread)
	}
	first := pick(t, "words", words...)
	if number(t, "words of the fleet", 0, 3) > 0 {
		m := pick(t, "machine", fleet...)
		first = pick(t, "words", fitting[pick(t, "family", m.families...)]...)
	}
	container := func(name string) v1.Container {
		word := first
		if number(t, "other words", 0, 9) == 0 {
			word = pick(t, "words", words...)
		}
		amounts, w := drawAmounts(t, word, spread)
		out.wishes[name] = w
		list := v1.ResourceList{}
		for r, amount := range amounts {
			list[v1.ResourceName(r)] = resource.MustParse(amount)
		}
		if rapid.Bool().Draw(t, "limits only") {
			return v1.Container{Name: name, Resources: v1.ResourceRequirements{Limits: list}}
		}
		return v1.Container{Name: name, Resources: v1.ResourceRequirements{Limits: list, Requests: list}}
	}
	for i := range pick(t, "inits", 0, 0, 0, 1, 2) {
		c := container(fmt.Sprintf("init-%d", i))
		if rapid.Bool().Draw(t, "sidecar") {
			always := v1.ContainerRestartPolicyAlways
			c.RestartPolicy = &always
		}
		p.Spec.InitContainers = append(p.Spec.InitContainers, c)
	}
	for i := range pick(t, "mains", 1, 1, 2, 3) {
		p.Spec.Containers = append(p.Spec.Containers, container(fmt.Sprintf("main-%d", i)))
	}
	drawWishes(t, p)
	return out
}

// drawAmounts are a container's resources and what they mean.
func drawAmounts(t *rapid.T, word string, spread int) (map[string]string, *wish) {
	count := pick(t, "count", 1, 1, 1, 2, 3)
	memory := pick(t, "memory", 1, 1000, 5000, 8192, 20480, 90000)
	percent := pick(t, "percent", 1, 10, 33, 34, 50, 66, 100)
	cores := pick(t, "cores", 1, 10, 30, 50, 99, 100)
	s := func(n int) string { return fmt.Sprint(n) }
	switch word {
	case "nvidia":
		return map[string]string{"nvidia.com/gpu": s(count)}, &wish{count: count}
	case "amd":
		return map[string]string{"amd.com/gpu": s(count)}, &wish{count: count}
	case "intel":
		return map[string]string{"gpu.intel.com/i915": s(count)}, &wish{count: count}
	case "nvidia with memory":
		return map[string]string{"nvidia.com/gpu": s(count), "nvidia.com/gpu-memory": pick(t, "least", "16Gi", "40Gi", "128Gi")}, &wish{count: count}
	case "HAMi":
		return map[string]string{"nvidia.com/gpu": s(count), "nvidia.com/gpumem": s(memory), "nvidia.com/gpucores": s(cores)}, &wish{count: count, memory: memory, milli: cores * 10}
	case "HAMi percent":
		return map[string]string{"nvidia.com/gpu": s(count), "nvidia.com/gpumem-percentage": s(percent)}, &wish{count: count, percent: percent}
	case "HAMi cores":
		return map[string]string{"nvidia.com/gpu": s(count), "nvidia.com/gpucores": s(cores)}, &wish{count: count, percent: 100, milli: cores * 10}
	case "MIG":
		profile := pick(t, "profile", "1g.5gb", "1g.5gb", "1g.5gb.me", "1g.10gb", "2g.10gb", "3g.20gb", "4g.20gb", "7g.40gb", "9g.99gb")
		return map[string]string{"nvidia.com/mig-" + profile: s(count)}, &wish{count: count, profile: profile}
	case "turn":
		return map[string]string{"nvidia.com/gpu.shared": s(count)}, &wish{count: count, turn: true}
	case "vgpu":
		return map[string]string{"nvidia.com/vgpu": s(count)}, &wish{count: count, turn: true}
	case "volcano share":
		return map[string]string{"volcano.sh/gpu-memory": s(memory)}, &wish{count: 1, memory: memory}
	case "volcano number":
		return map[string]string{"volcano.sh/gpu-number": s(count)}, &wish{count: count}
	case "volcano vgpu":
		return map[string]string{"volcano.sh/vgpu-number": s(count), "volcano.sh/vgpu-memory": s(memory), "volcano.sh/vgpu-cores": s(cores)}, &wish{count: count, memory: memory, milli: cores * 10}
	case "cgpu":
		gib := pick(t, "GiB", 1, 2, 6, 12)
		core := pick(t, "core", 0, 6, 60, 120, 240)
		out := map[string]string{"aliyun.com/gpu-mem": s(gib)}
		if core > 0 {
			out[pick(t, "core's name", "aliyun.com/gpu-core", "aliyun.com/gpu-core.percentage")] = s(core)
		}
		return out, &wish{count: spread, memory: gib * 1024 / spread, milli: core * 10 / spread}
	case "ascend":
		return map[string]string{"huawei.com/Ascend910B3": s(count)}, &wish{count: count}
	case "ascend memory":
		w := &wish{count: count} // more than half a card is a whole one
		switch {                 // the templates of a 910B3
		case memory <= 16384:
			w.memory, w.milli = 16384, 250
		case memory <= 32768:
			w.memory, w.milli = 32768, 500
		}
		return map[string]string{pick(t, "case", "huawei.com/Ascend910B3", "huawei.com/ascend910b3"): s(count), "huawei.com/Ascend910B3-memory": s(memory)}, w
	case "ascend core":
		return map[string]string{"huawei.com/Ascend910B3": s(count), "huawei.com/Ascend910B3-memory": s(memory), "huawei.com/Ascend910B3-core": s(cores)}, &wish{count: count, memory: memory, milli: cores * 10}
	case "npu-core":
		aiCores := pick(t, "AI cores", 1, 2, 4, 8, 16)
		w := &wish{count: max(1, aiCores/8)}
		if aiCores < 8 {
			w.milli = aiCores * 125
		}
		return map[string]string{"huawei.com/npu-core": s(aiCores)}, w
	case "nothing":
		return map[string]string{"cpu": "1"}, nil
	}
	return drawNonsense(t), nil
}

// drawNonsense mixes words and amounts at random; some of it makes sense.
func drawNonsense(t *rapid.T) map[string]string {
	out := map[string]string{}
	for range number(t, "resources", 1, 3) {
		r := pick(t, "resource",
			"nvidia.com/gpu", "amd.com/gpu", "gpu.intel.com/i915", "nvidia.com/gpu-memory", "nvidia.com/gpumem", "nvidia.com/gpumem-percentage", "nvidia.com/gpucores",
			"nvidia.com/mig-1g.5gb", "nvidia.com/mig-huge", "nvidia.com/mig-1g.5gb.", "nvidia.com/mig-"+strings.Repeat("9", 40)+"g.5gb", "nvidia.com/gpu.shared", "nvidia.com/vgpu",
			"volcano.sh/gpu-memory", "volcano.sh/gpu-number", "volcano.sh/vgpu-number", "volcano.sh/vgpu-memory", "volcano.sh/vgpu-memory-percentage", "volcano.sh/vgpu-cores",
			"aliyun.com/gpu-mem", "aliyun.com/gpu-core", "aliyun.com/gpu-core.percentage", "huawei.com/Ascend910B3", "huawei.com/Ascend910B3-memory", "huawei.com/Ascend310P", "huawei.com/npu-core")
		out[r] = pick(t, "amount", "0", "1", "1", "2", "5", "50", "64", "65", "100", "101", "1500m", "-1", "1Ti", "9223372036854775807")
	}
	return out
}

// drawWishes adds annotations, most of which make sense.
func drawWishes(t *rapid.T, p *v1.Pod) {
	if number(t, "annotated", 0, 5) > 0 {
		return
	}
	key := pick(t, "annotation", "nvidia.com/use-gputype", "nvidia.com/nouse-gputype", "nvidia.com/use-gpuuuid", "nvidia.com/nouse-gpuuuid", "volcano.sh/gpu-index",
		"nvidia.com/vgpu-mode", "volcano.sh/vgpu-mode", "volcano.sh/vgpu-use-gpuuuid", "tangram.dev/placement", "hami.io/gpu-scheduler-policy", "volcano.sh/gpu-unhealthy-ids")
	p.Annotations[key] = pick(t, "value", "A100", "A10", "GPU-n0-0", "GPU-n1-1,GPU-n0-0", "0", "0,1", "hami-core", "mps", "mig", "binpack", "spread", "spread", "", ",", "x y")
}
