package dialect

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/tangram-dev/tangram/core/model"
)

// Koordinator's words for devices. Amounts are of all cards together, a card is 100: gpu-core 200 is
// two cards. gpu.shared divides them over several cards that others may use, too.
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

// koordAmount is one of a container's amounts, with the field that says so.
type koordAmount struct {
	n  int64
	at string
}

func readKoordinator(_ *v1.Pod, c *v1.Container, path string) (*ask, error) {
	w := &words{c: c, path: path}
	read := func(name v1.ResourceName, most int64) koordAmount {
		n, at, _ := w.number(name, 0, most)
		return koordAmount{n, at}
	}
	gpu, core, ratio := read(koordGPU, 100*maxCount), read(koordCore, 100*maxCount), read(koordRatio, 100*maxCount)
	shared, memory := read(koordShared, maxCount), koordMemoryOf(w)
	switch {
	case w.err != nil || gpu.n == 0 && core.n == 0 && ratio.n == 0 && memory.n == 0 && shared.n == 0:
		return nil, w.err
	case gpu.n > 0 && (core.n > 0 || ratio.n > 0 || memory.n > 0):
		return nil, fmt.Errorf("%s: given beside gpu-core, gpu-memory or gpu-memory-ratio", gpu.at)
	case memory.n > 0 && ratio.n > 0:
		return nil, fmt.Errorf("%s: given beside %s", memory.at, ratio.at)
	case gpu.n == 0 && memory.n == 0 && ratio.n == 0:
		return nil, fmt.Errorf("%s: given without %s or %s", cmp.Or(gpu.at, core.at, ratio.at, shared.at), koordMemory, koordRatio)
	}
	a := &ask{vendor: model.NVIDIA, resource: koordRatio, field: ratio.at}
	switch {
	case gpu.n > 0:
		a.resource, a.field = koordGPU, gpu.at
		core, ratio = gpu, gpu
	case memory.n > 0:
		a.resource, a.field = koordMemory, memory.at
	}
	return koordParts(a, core, ratio, shared, memory)
}

// koordMemoryOf is the memory of all cards, in MiB.
func koordMemoryOf(w *words) koordAmount {
	q, at, has := amount(w.c, w.path, koordMemory)
	if !has || w.err != nil {
		return koordAmount{}
	}
	bytes, exact := q.AsInt64()
	if !exact || bytes < 0 || bytes > maxMiB<<20 || bytes > 0 && bytes < leastMemory {
		w.err = fmt.Errorf("%s: %s is not an amount of memory, write for example 16Gi", at, q.String())
	}
	return koordAmount{bytes >> 20, at}
}

// koordParts divides amounts of all cards over the cards.
func koordParts(a *ask, core, ratio, shared, memory koordAmount) (*ask, error) {
	cards := max(1, shared.n)
	if shared.n == 0 && ratio.n > 100 {
		if ratio.n%100 != 0 {
			return nil, fmt.Errorf("%s: %d, above 100 it is a multiple of 100", ratio.at, ratio.n)
		}
		cards = ratio.n / 100
	}
	for _, x := range []koordAmount{core, ratio} {
		switch {
		case x.n%cards != 0:
			return nil, fmt.Errorf("%s: %d cannot be divided by %d cards", x.at, x.n, cards)
		case x.n/cards > 100:
			return nil, fmt.Errorf("%s: %d%% of each of %d cards", x.at, x.n/cards, cards)
		}
	}
	a.count = int(cards)
	if each := core.n / cards; shared.n == 0 && ratio.n/cards == 100 && (each == 100 || each == 0) {
		return a, nil // whole cards
	}
	a.part = model.Part{Kind: model.Share, Memory: model.MiB(memory.n / cards), MemoryMilli: int(ratio.n/cards) * 10, Milli: int(core.n/cards) * 10}
	return a, nil
}

// koordWishes reads where devices must be inside a node. Selectors by label and rules about other pods are refused.
func koordWishes(pod *v1.Pod, r *model.Request) error {
	if err := refuse(pod.Annotations, koordJoint, koordPartition); err != nil {
		return err
	}
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

// annotateKoordinator spells the devices of a pod as koordlet's hook reads them.
func annotateKoordinator(p placed) map[string]string {
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
	text, _ := json.Marshal(map[string][]koordDevice{"gpu": list}) // strings and numbers
	return map[string]string{koordAllocated: string(text)}
}

// koordDevices derives cards from what Koordinator publishes on a node without a device
// plugin of NVIDIA's: 100 of gpu-core is a card, the memory is of all of them together.
func koordDevices(node *v1.Node) (*registration, error) {
	if vendor := node.Labels[koordVendor]; vendor != "" && vendor != "nvidia" || quantity(node.Status.Allocatable, nvidiaGPU) > 0 {
		return nil, nil
	}
	cards, memory := quantity(node.Status.Allocatable, koordCore)/100, node.Status.Allocatable[koordMemory]
	return equalCards(node, cards, min(max(0, memory.Value())>>20, maxMiB*cards), 1)
}
