package dialect

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/tangram-dev/tangram/core/model"
)

// Koordinator's words for devices. Amounts are of all cards together, a card is 100:
// gpu-core 200 and gpu-memory-ratio 200 are two cards. gpu.shared divides them over
// several cards that others may use, too.
const (
	koordGPU    v1.ResourceName = "koordinator.sh/gpu" // compute and memory alike
	koordCore   v1.ResourceName = "koordinator.sh/gpu-core"
	koordMemory v1.ResourceName = "koordinator.sh/gpu-memory" // bytes
	koordRatio  v1.ResourceName = "koordinator.sh/gpu-memory-ratio"
	koordShared v1.ResourceName = "koordinator.sh/gpu.shared"

	koordHint      = "scheduling.koordinator.sh/device-allocate-hint"
	koordJoint     = "scheduling.koordinator.sh/device-joint-allocate"
	koordPartition = "scheduling.koordinator.sh/gpu-partition-spec"
	koordAllocated = "scheduling.koordinator.sh/device-allocated"
	koordVendor    = "node.koordinator.sh/gpu-vendor"
)

const noJointDevices = "not supported; devices that are linked go first by themselves, tangram.dev/topology requires it"

// koordWords are all resources of the family, for Unpublished.
var koordWords = []v1.ResourceName{koordGPU, koordCore, koordMemory, koordRatio, koordShared}

var koordinator = vocabulary{
	read: func(_ *v1.Pod, c *v1.Container, path string) (*ask, error) {
		w := &words{c: c, path: path}
		k := koordAmounts{w: w}
		k.read()
		if w.err != nil || k.none() {
			return nil, w.err
		}
		return k.ask()
	},
	wishes: func(pod *v1.Pod, r *model.Request) error {
		for _, key := range []string{koordJoint, koordPartition} {
			if _, ok := pod.Annotations[key]; ok {
				return fmt.Errorf("%s: %s", annotation(key), noJointDevices)
			}
		}
		return koordHints(pod, r)
	},
	// What koordlet's hook reads.
	annotate: func(p placed) map[string]string {
		return map[string]string{koordAllocated: koordAllocation(p)}
	},
	devices: koordDevices,
}

// koordAmounts are a container's amounts, with the fields that say so.
type koordAmounts struct {
	w                        *words
	gpu, core, ratio, shared int64
	memory                   model.MiB // of all cards

	gpuAt, coreAt, ratioAt, memoryAt, sharedAt string
	// anyOne is the first field that is there.
	anyOne string
}

func (k *koordAmounts) read() {
	var ok [4]bool
	k.gpu, k.gpuAt, ok[0] = k.w.number(koordGPU, 0, 100*maxCount)
	k.core, k.coreAt, ok[1] = k.w.number(koordCore, 0, 100*maxCount)
	k.ratio, k.ratioAt, ok[2] = k.w.number(koordRatio, 0, 100*maxCount)
	k.shared, k.sharedAt, ok[3] = k.w.number(koordShared, 0, maxCount)
	for i, at := range []string{k.gpuAt, k.coreAt, k.ratioAt, k.sharedAt} {
		if ok[i] && k.anyOne == "" {
			k.anyOne = at
		}
	}
	q, at, has := amount(k.w.c, k.w.path, koordMemory)
	if !has || k.w.err != nil {
		return
	}
	k.memoryAt = at
	bytes, exact := q.AsInt64()
	if !exact || bytes < 0 || bytes > maxMiB<<20 || bytes > 0 && bytes < leastMemory {
		k.w.err = fmt.Errorf("%s: %s is not an amount of memory, write for example 16Gi", at, q.String())
		return
	}
	k.memory = model.MiB(bytes >> 20)
}

// none says whether the container asks for nothing in these words.
func (k *koordAmounts) none() bool {
	return k.gpu == 0 && k.core == 0 && k.ratio == 0 && k.memory == 0 && k.shared == 0
}

func (k *koordAmounts) ask() (*ask, error) {
	switch {
	case k.gpu > 0 && (k.core > 0 || k.ratio > 0 || k.memory > 0):
		return nil, fmt.Errorf("%s: given beside gpu-core, gpu-memory or gpu-memory-ratio", k.gpuAt)
	case k.memory > 0 && k.ratio > 0:
		return nil, fmt.Errorf("%s: given beside %s", k.memoryAt, k.ratioAt)
	case k.gpu == 0 && k.memory == 0 && k.ratio == 0:
		return nil, fmt.Errorf("%s: given without %s or %s", k.anyOne, koordMemory, koordRatio)
	}
	if k.gpu > 0 {
		k.core, k.ratio, k.coreAt, k.ratioAt = k.gpu, k.gpu, k.gpuAt, k.gpuAt
	}
	cards := max(1, k.shared)
	if k.shared == 0 && k.ratio > 100 {
		if k.ratio%100 != 0 {
			return nil, fmt.Errorf("%s: %d, above 100 it is a multiple of 100", k.ratioAt, k.ratio)
		}
		cards = k.ratio / 100
	}
	for _, f := range []struct {
		n     int64
		field string
	}{{k.core, k.coreAt}, {k.ratio, k.ratioAt}} {
		if f.n%cards != 0 {
			return nil, fmt.Errorf("%s: %d cannot be divided by %d cards", f.field, f.n, cards)
		}
	}
	core, ratio := k.core/cards, k.ratio/cards
	switch {
	case core > 100:
		return nil, fmt.Errorf("%s: %d%% of each of %d cards", k.coreAt, core, cards)
	case ratio > 100:
		return nil, fmt.Errorf("%s: %d%% of each of %d cards", k.ratioAt, ratio, cards)
	}
	a := &ask{vendor: model.NVIDIA, count: int(cards)}
	switch {
	case k.gpu > 0:
		a.resource, a.field = koordGPU, k.gpuAt
	case k.memory > 0:
		a.resource, a.field = koordMemory, k.memoryAt
	default:
		a.resource, a.field = koordRatio, k.ratioAt
	}
	if k.shared == 0 && ratio == 100 && (core == 100 || core == 0) {
		return a, nil // whole cards
	}
	a.part = model.Part{Kind: model.Share, Memory: k.memory / model.MiB(cards), MemoryMilli: int(ratio) * 10, Milli: int(core) * 10}
	return a, nil
}

// koordHints reads where devices must be inside a node. Selectors of devices by label, and
// rules about who else is on them, are not offered.
func koordHints(pod *v1.Pod, r *model.Request) error {
	text, ok := pod.Annotations[koordHint]
	if !ok {
		return nil
	}
	var hints map[string]map[string]any
	if err := json.Unmarshal([]byte(text), &hints); err != nil {
		return fmt.Errorf("%s: %w", annotation(koordHint), err)
	}
	scopes := map[string]model.Bond{"Node": {}, "NUMANode": {NUMA: true}, "PCIe": {Link: model.PHB}}
	for _, kind := range slices.Sorted(maps.Keys(hints)) {
		for _, word := range slices.Sorted(maps.Keys(hints[kind])) {
			scope, _ := hints[kind][word].(string)
			bond, known := scopes[scope]
			if kind != "gpu" || word != "requiredTopologyScope" || !known {
				return fmt.Errorf("%s: %s.%s is not supported; gpu.requiredTopologyScope may be Node, NUMANode or PCIe", annotation(koordHint), kind, word)
			}
			r.Require.Bond = r.Require.And(bond)
		}
	}
	return nil
}

// koordDevice is a device in Koordinator's annotation.
type koordDevice struct {
	Minor     int               `json:"minor"`
	ID        string            `json:"id,omitempty"`
	Resources map[string]string `json:"resources"`
}

// koordAllocation spells the devices of a pod as Koordinator does.
func koordAllocation(p placed) string {
	var list []koordDevice
	for slot := range p.grant.Set.Slots() {
		d := p.node.Devices[slot]
		core, memory := int64(0), model.MiB(0)
		for _, g := range p.grant.Parts {
			if g.Slot == slot {
				core, memory = core+int64(g.Part.Milli/10), memory+g.Memory
			}
		}
		if len(p.grant.Parts) == 0 {
			core, memory = 100, d.Memory
		}
		resources := map[string]string{
			string(koordCore):   strconv.FormatInt(core, 10),
			string(koordMemory): resource.NewQuantity(int64(memory)<<20, resource.BinarySI).String(),
		}
		if d.Memory > 0 {
			resources[string(koordRatio)] = strconv.FormatInt(int64(memory*100/d.Memory), 10)
		}
		list = append(list, koordDevice{Minor: d.Index, ID: d.UUID, Resources: resources})
	}
	text, err := json.Marshal(map[string][]koordDevice{"gpu": list})
	if err != nil {
		return "" // maps and strings only
	}
	return string(text)
}

// koordDevices derives cards from what Koordinator publishes on a node without a device
// plugin of NVIDIA's: 100 of gpu-core is a card, the memory is of all of them together.
func koordDevices(node *v1.Node) (*registration, error) {
	if vendor := node.Labels[koordVendor]; vendor != "" && vendor != "nvidia" || quantity(node.Status.Allocatable, nvidiaGPU) > 0 {
		return nil, nil
	}
	cards := quantity(node.Status.Allocatable, koordCore) / 100
	if cards == 0 || cards > maxCount {
		return nil, nil
	}
	memory := int64(0)
	if q, ok := node.Status.Allocatable[koordMemory]; ok {
		memory = max(0, q.Value()) >> 20 / cards
	}
	return equalDevices(node, model.NVIDIA, int(cards), model.MiB(min(memory, maxMiB))), nil
}
