package dialect

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation"

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

// KoordGroups are the PodGroups that Koordinator took over from scheduler-plugins.
var KoordGroups = schema.GroupVersionResource{Group: "scheduling.sigs.k8s.io", Version: "v1alpha1", Resource: "podgroups"}

// Koordinator's words for gangs: annotations of a pod, labels of the lightweight form, and that of a PodGroup.
const (
	koordGang    = "gang.scheduling.koordinator.sh/name"
	koordMin     = "gang.scheduling.koordinator.sh/min-available"
	koordTotal   = "gang.scheduling.koordinator.sh/total-number"
	koordMode    = "gang.scheduling.koordinator.sh/mode"
	koordWait    = "gang.scheduling.koordinator.sh/waiting-time"
	koordGangs   = "gang.scheduling.koordinator.sh/groups"
	koordNetwork = "gang.scheduling.koordinator.sh/network-topology-spec"

	koordGroupLabel = "pod-group.scheduling.sigs.k8s.io"
	koordLightName  = "pod-group.scheduling.sigs.k8s.io/name"
	koordLightMin   = "pod-group.scheduling.sigs.k8s.io/min-available"
)

const noNetworkSpec = "not supported; tangram.dev/topology: required=LEVEL or preferred=LEVEL says the same"

var koordGroups = OwnerKind{
	Kind: "PodGroup", Resource: KoordGroups, Label: koordGroupLabel, group: true, field: label(koordGroupLabel), size: groupSize,
	find: labelledWith(koordGroupLabel, "koordgroup/"),
}

// isKoordGang says whether a pod's own annotations or labels put it into a gang in Koordinator's words.
func isKoordGang(pod *v1.Pod) bool {
	return pod.Annotations[koordGang] != "" || pod.Labels[koordLightName] != ""
}

// koordGang reads that gang. Bundled gangs start together: here they are one gang, and each a task with its minimum.
func (m *Membership) koordGang(pod *v1.Pod) error {
	name, least, field := pod.Annotations[koordGang], pod.Annotations[koordMin], annotation(koordMin)
	if name == "" {
		name, least, field = pod.Labels[koordLightName], pod.Labels[koordLightMin], label(koordLightMin)
	}
	n, err := wholeNumber(least, field, maxGang)
	if err != nil {
		return err
	}
	if text, ok := pod.Annotations[koordTotal]; ok {
		if total, err := strconv.Atoi(text); err != nil || total < n || total > maxGang {
			return fmt.Errorf("%s: %q is not a number from %d, the minimum, to %d", annotation(koordTotal), text, n, maxGang)
		}
	}
	if text, ok := pod.Annotations[koordMode]; ok && text != "Strict" && text != "NonStrict" {
		return fmt.Errorf("%s: %q is not Strict or NonStrict", annotation(koordMode), text)
	}
	if _, err := duration(pod, koordWait); err != nil {
		return err
	}
	if err := refuse(pod.Annotations, koordNetwork); err != nil {
		return err
	}
	m.Key, m.Size = "koord/"+pod.Namespace+"/"+name, n
	gangs, err := koordBundle(pod, name)
	if err != nil || len(gangs) < 2 {
		return err
	}
	m.Key = "koord/" + pod.Namespace + "/" + strings.Join(gangs, "+")
	m.Size, m.Task, m.TaskMin, m.Tasks = 0, name, n, strings.Join(gangs, ",")
	return nil
}

// koordBundle are the gangs that start together with a pod's own, sorted; all of them in
// the pod's namespace: a pod does not decide about pods of another one.
func koordBundle(pod *v1.Pod, own string) ([]string, error) {
	text, ok := pod.Annotations[koordGangs]
	if !ok || text == "" {
		return nil, nil
	}
	var list []string
	if err := json.Unmarshal([]byte(text), &list); err != nil {
		return nil, fmt.Errorf("%s: %w", annotation(koordGangs), err)
	}
	if len(list) > maxWords {
		return nil, fmt.Errorf("%s: more than %d gangs", annotation(koordGangs), maxWords)
	}
	var out []string
	for _, entry := range list {
		namespace, name, ok := strings.Cut(entry, "/")
		if !ok || len(validation.IsDNS1123Subdomain(name)) > 0 || namespace != pod.Namespace {
			return nil, fmt.Errorf("%s: %q is not namespace/name of a gang in namespace %s", annotation(koordGangs), entry, pod.Namespace)
		}
		out = append(out, name)
	}
	slices.Sort(out)
	out = slices.Compact(out)
	if !slices.Contains(out, own) {
		return nil, fmt.Errorf("%s: does not list the pod's own gang %s/%s", annotation(koordGangs), pod.Namespace, own)
	}
	return out, nil
}
