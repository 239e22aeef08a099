package dialect

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/tangram-dev/tangram/api/names"
	"github.com/tangram-dev/tangram/core/model"
	"github.com/tangram-dev/tangram/core/place"
)

// vocabulary is a family of words for devices, with how containers ask and what device plugins read.
type vocabulary struct {
	*family
	// read returns what a container asks for in these words, nil when it uses none
	// of them, and an error that names the field when it uses them wrongly.
	read func(pod *v1.Pod, c *v1.Container, path string) (*ask, error)
	// wishes reads pod annotations of this family; may be nil.
	wishes func(pod *v1.Pod, r *model.Request) error
	// annotate returns what the family's device plugin reads of a placed pod, besides the record; may be nil.
	annotate func(p placed) map[string]string
	// devices reads what the family publishes of a node's devices, nil when nothing; may be nil itself.
	devices func(node *v1.Node) (*registration, error)
}

// behaviours are the functions of the families, by name. A family without an entry is read, and its
// devices found, by what its words count; devices of vendors' own resources by fromLabels.
var behaviours = map[string]vocabulary{
	"NVIDIA":             {read: readNVIDIA},
	"HAMi":               {read: readHAMi, wishes: hamiWishes, annotate: annotateHAMi, devices: hamiDevices},
	"MIG":                {read: readSlices, devices: sliceDevices},
	"Volcano GPU share":  {annotate: volcanoIndexes, devices: volcanoPlainDevices},
	"Volcano GPU number": {annotate: volcanoIndexes},
	"Volcano vGPU":       {read: readVolcanoVGPU, wishes: volcanoWishes, annotate: annotateVolcanoVGPU, devices: volcanoVDevices},
	"cGPU":               {read: readCGPU, annotate: annotateCGPU, devices: cgpuDevices},
	"Ascend":             {read: readAscend, wishes: ascendWishes, annotate: annotateAscend, devices: ascendDevices},
	"Koordinator":        {read: readKoordinator, wishes: koordWishes, annotate: annotateKoordinator, devices: koordDevices},
	"KAI and Run:ai":     {read: readKAI, wishes: kaiWishes},
}

// vocabularies in the order they are asked. A container may use one of them.
var vocabularies = func() []*vocabulary {
	var out []*vocabulary
	for i := range deviceFamilies {
		f := &deviceFamilies[i]
		v, special := behaviours[f.name]
		v.family = f
		if v.read == nil {
			v.read = f.readCounted
		}
		if !special && !f.vendors() {
			v.devices = f.publishedDevices
		}
		out = append(out, &v)
	}
	return out
}()

// ask is what a container wants of its devices.
type ask struct {
	vendor    model.Vendor
	resource  v1.ResourceName
	count     int
	part      model.Part
	minMemory model.MiB
	// models, if not empty, are the only models the container's resources stand for.
	models []model.GPUModel
	// field is where it says so, for messages.
	field string
}

// placed is a pod that was given devices.
type placed struct {
	pod     *v1.Pod
	request *model.Request
	node    *model.Node
	grant   place.Grant
	now     time.Time
}

// registration is what a family publishes of a node's devices.
type registration struct {
	devices []model.Device
	// attributes are what requests may require, such as a sharing mode.
	attributes []model.Attribute
	// sellable is how many whole devices the family sells; 0 for what nvidia.com/gpu says.
	sellable int
	// more: the devices are beside those the node has already, not in their place.
	more bool
}

// asks reads a container in every vocabulary. Using two at once is an error.
func asks(pod *v1.Pod, c *v1.Container, path string) (*ask, *vocabulary, error) {
	var found *ask
	var in *vocabulary
	for _, v := range vocabularies {
		a, err := v.read(pod, c, path)
		switch {
		case err != nil:
			return nil, nil, err
		case a == nil:
			continue
		case found != nil && found.vendor != a.vendor:
			return nil, nil, twoVendors(a, found)
		case found != nil:
			return nil, nil, twoVocabularies(a, found)
		}
		found, in = a, v
	}
	return found, in, nil
}

func twoVendors(a, other *ask) error {
	return fmt.Errorf("%s: GPUs of two vendors in one pod, the other is %s", a.field, other.field)
}

func twoVocabularies(a, other *ask) error {
	return fmt.Errorf("%s: two vocabularies in one container, the other is %s", a.field, other.field)
}

// asksAlone are what words count that ask by themselves, with the most of it in a container.
var asksAlone = map[Counts]int64{Devices: maxCount, Turns: maxCount, MiB: maxMiB}

// readCounted reads words that ask by themselves: whole devices, turns on devices, memory of one.
func (f *family) readCounted(_ *v1.Pod, c *v1.Container, path string) (found *ask, err error) {
	w := words{c: c, path: path}
	for i := range f.words {
		word := &f.words[i]
		most, alone := asksAlone[word.Counts]
		if word.Kind != Resource || !alone {
			continue
		}
		n, field, _ := w.number(v1.ResourceName(word.Name), 0, most)
		if w.err != nil || n == 0 {
			err = w.err
			continue
		}
		a := &ask{vendor: f.vendor, resource: v1.ResourceName(word.Name), count: int(n), field: field}
		switch word.Counts {
		case Turns:
			a.part = model.Part{Kind: model.Share, Turn: true}
		case MiB:
			a.count, a.part = 1, model.Part{Kind: model.Share, Memory: model.MiB(n)}
		}
		if found != nil {
			return nil, twoVocabularies(a, found)
		}
		found = a
	}
	return found, err
}

// publishedDevices derives equal devices from what nodes publish in words that count devices or turns.
func (f *family) publishedDevices(node *v1.Node) (*registration, error) {
	for _, word := range f.words {
		n := quantity(node.Status.Allocatable, v1.ResourceName(word.Name))
		switch {
		case word.Kind != Resource || n == 0:
		case word.Counts == Devices:
			return equalDevices(node, f.vendor, int(min(n, maxCount)), 0), nil
		case word.Counts == Turns:
			return f.turnsOn(node, v1.ResourceName(word.Name), n)
		}
	}
	return nil, nil
}

// turnsOn are the devices of a node that sells so many turns on them.
func (f *family) turnsOn(node *v1.Node, resource v1.ResourceName, turns int64) (*registration, error) {
	each := labelNumber(node, replicasLabel)
	cards := labelNumber(node, names.LabelNVIDIACount)
	if cards == 0 && each > 0 {
		cards = turns / each
	}
	if cards == 0 {
		cards = turns // nothing says how turns are shared out: count them singly
	}
	if cards > maxCount || turns < cards {
		return nil, fmt.Errorf("status.allocatable[%s]: %d turns on %d cards", resource, turns, cards)
	}
	reg := equalDevices(node, f.vendor, int(cards), 0)
	for i := range reg.devices {
		reg.devices[i].Tenants = int(turns / cards)
	}
	return reg, nil
}

// named returns the resources a container names that begin with a prefix, by name.
func named(c *v1.Container, prefix string) []v1.ResourceName {
	var out []v1.ResourceName
	for _, list := range []v1.ResourceList{c.Resources.Requests, c.Resources.Limits} {
		for name := range list {
			if strings.HasPrefix(string(name), prefix) && !slices.Contains(out, name) {
				out = append(out, name)
			}
		}
	}
	slices.Sort(out)
	return out
}

// words reads several resources of one container.
type words struct {
	c    *v1.Container
	path string
	err  error
}

// number reads a whole number within limits; 0 and false when it is absent, or after an error.
func (w *words) number(r v1.ResourceName, least, most int64) (n int64, field string, ok bool) {
	q, field, ok := amount(w.c, w.path, r)
	if !ok || w.err != nil {
		return 0, field, false
	}
	n, exact := q.AsInt64()
	if !exact || n < least || n > most {
		w.err = fmt.Errorf("%s: %s is not a whole number from %d to %d", field, q.String(), least, most)
		return 0, field, false
	}
	return n, field, true
}

// present returns the field of a resource the container names, or "".
func (w *words) present(r v1.ResourceName) string {
	if _, field, ok := amount(w.c, w.path, r); ok {
		return field
	}
	return ""
}

const (
	maxMiB   = 1 << 24 // 16 TiB of GPU memory is a typing error
	maxCount = model.MaxDevices
)

// perCard reads what HAMi and Volcano share: cards, memory of each (else all of it), compute of each
// (else what other shares leave).
func perCard(w *words, number, memory, percent, cores v1.ResourceName) (*ask, error) {
	mib, memoryField, hasMemory := w.number(memory, 1, maxMiB)
	pct, percentField, hasPercent := w.number(percent, 1, 100)
	core, coreField, hasCores := w.number(cores, 0, 100)
	n, numberField, hasNumber := w.number(number, 0, maxCount)
	switch {
	case w.err != nil:
		return nil, w.err
	case hasMemory && hasPercent:
		return nil, fmt.Errorf("%s: given beside %s", percentField, memoryField)
	case hasNumber && n == 0 && (hasMemory || hasPercent || hasCores):
		return nil, fmt.Errorf("%s: 0 cards, but an amount of each", numberField)
	case !hasNumber && !hasMemory && !hasPercent && !hasCores, hasNumber && n == 0:
		return nil, nil
	}
	if !hasNumber {
		n = 1 // as their webhooks fill in
	}
	a := &ask{vendor: model.NVIDIA, resource: number, count: int(n), field: cmp.Or(numberField, memoryField, percentField, coreField)}
	a.part = model.Part{Kind: model.Share, Memory: model.MiB(mib), MemoryMilli: int(pct) * 10, Milli: int(core) * 10}
	if !hasMemory && !hasPercent {
		a.part.MemoryMilli = model.FullMilli
	}
	return a, nil
}

// encodeCards spells granted cards as HAMi and Volcano do: "uuid,type,MiB,cores:", containers
// separated by ";". With everyContainer each has its place and is followed by one.
func encodeCards(p placed, kind string, everyContainer bool) string {
	var whole []model.Mask
	if len(p.grant.Parts) == 0 {
		whole = p.request.Share(p.grant.Set)
	}
	var out []string
	for i := range p.request.Containers {
		cards := ""
		for _, g := range p.grant.Parts {
			if g.Container == i {
				cards += fmt.Sprintf("%s,%s,%d,%d:", deviceName(p.node.Devices[g.Slot]), kind, g.Memory, g.Part.Milli/10)
			}
		}
		if whole != nil {
			for slot := range whole[i].Slots() {
				d := p.node.Devices[slot]
				cards += fmt.Sprintf("%s,%s,%d,0:", deviceName(d), kind, d.Memory)
			}
		}
		if cards != "" || everyContainer {
			out = append(out, cards)
		}
	}
	if everyContainer {
		out = append(out, "")
	}
	return strings.Join(out, ";")
}

// deviceName is a device's UUID, or its index where the UUID is unknown.
func deviceName(d model.Device) string { return cmp.Or(d.UUID, fmt.Sprint(d.Index)) }

// modeOf reads an annotation that names one of HAMi's sharing modes, which a node must offer.
func modeOf(pod *v1.Pod, r *model.Request, key string) error {
	switch mode, ok := pod.Annotations[key]; mode {
	case "hami-core", "mig", "mps":
		r.Attributes = append(r.Attributes, model.Want{Key: key, Values: []string{mode}})
	default:
		if ok {
			return fmt.Errorf("%s: %q is not one of hami-core, mig, mps", annotation(key), mode)
		}
	}
	return nil
}

// quantity reads a node's allocatable resource as a number.
func quantity(list v1.ResourceList, r v1.ResourceName) int64 {
	q := list[r]
	return max(0, min(q.Value(), math.MaxInt32))
}
