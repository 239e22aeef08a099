package dialect

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/tangram-dev/tangram/api/names"
	"github.com/tangram-dev/tangram/core/mig"
	"github.com/tangram-dev/tangram/core/model"
	"github.com/tangram-dev/tangram/core/place"
)

// vocabulary is one family of names for GPUs: how a container asks for them, and what
// its device plugin reads. To add a vocabulary, add one file with a value of this type,
// and its name to the list below.
type vocabulary struct {
	// read returns what a container asks for in these words, nil when it uses none
	// of them, and an error that names the field when it uses them wrongly.
	read func(pod *v1.Pod, c *v1.Container, path string) (*ask, error)
	// wishes reads pod annotations of this family; may be nil.
	wishes func(pod *v1.Pod, r *model.Request) error
	// annotate returns what the family's device plugin reads of a placed pod,
	// besides the record; may be nil.
	annotate func(p placed) map[string]string
	// devices reads a node's devices from what the family publishes there; nil when
	// it publishes nothing. May be nil itself.
	devices func(node *v1.Node) (*registration, error)
}

// vocabularies in the order they are asked. A container may use one of them.
var vocabularies = []*vocabulary{&wholeGPUs, &hami, &migSlices, &turns, &volcanoShare, &volcanoNumber, &volcanoVGPU, &cgpu, &ascend, &koordinator, &kai}

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
	// sellable is how many whole devices the family sells; 0 for what nvidia.com/gpu
	// says.
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
		if err != nil {
			return nil, nil, err
		}
		if a == nil {
			continue
		}
		if found != nil {
			return nil, nil, fmt.Errorf("%s: two vocabularies in one container, the other is %s", a.field, found.field)
		}
		found, in = a, v
	}
	return found, in, nil
}

// Unpublished are resources that pods request and nodes need not publish, because
// Tangram counts them itself, device by device.
func Unpublished() []string {
	out := []string{
		names.ResourceGPUMemory, string(hamiMemory), string(hamiPercent), string(hamiCores), "nvidia.com/priority",
		string(cgpuCore), // the requirement documents' spelling, which no plugin publishes
	}
	for _, name := range koordWords {
		out = append(out, string(name))
	}
	for _, profile := range mig.Names() {
		out = append(out, slicePrefix+profile)
	}
	for _, chip := range ascendChips {
		name := "huawei.com/" + chip.name
		out = append(out, name+ascendMemory, name+ascendPercent)
		// The requirement documents' spelling, which no plugin publishes.
		lower := strings.ToLower(name)
		out = append(out, lower, lower+ascendMemory, lower+ascendPercent)
	}
	return out
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

// namedFold is named ignoring case.
func namedFold(c *v1.Container, prefix string) []v1.ResourceName {
	return slices.DeleteFunc(named(c, ""), func(name v1.ResourceName) bool {
		_, ok := cutPrefixFold(string(name), prefix)
		return !ok
	})
}

// words reads several resources of one container.
type words struct {
	c    *v1.Container
	path string
	err  error
}

// number reads a whole number within limits; 0 and false when the resource is
// absent. After an error all further reads are absent.
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

// perCard reads the resources HAMi and Volcano share: cards, memory of each, compute of
// each. Without memory it is all of a card's; without compute it is what the other
// shares leave.
func perCard(w *words, number, memory, percent, cores v1.ResourceName) (*ask, error) {
	var a ask
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
	a.field = numberField
	for _, f := range []struct {
		ok    bool
		field string
	}{{hasCores, coreField}, {hasPercent, percentField}, {hasMemory, memoryField}} {
		if f.ok && !hasNumber {
			a.field = f.field
		}
	}
	if !hasNumber {
		n = 1 // as their webhooks fill in
	}
	a.vendor, a.resource, a.count = model.NVIDIA, number, int(n)
	a.part = model.Part{Kind: model.Share, Memory: model.MiB(mib), MemoryMilli: int(pct) * 10, Milli: int(core) * 10}
	if !hasMemory && !hasPercent {
		a.part.MemoryMilli = model.FullMilli
	}
	return &a, nil
}

// encodeCards spells granted cards the way HAMi and Volcano do: a card is
// "uuid,type,MiB,cores:", containers are separated by ";".
func encodeCards(p placed, kind string, everyContainer bool) string {
	var b strings.Builder
	first := true
	var whole []model.Mask
	if len(p.grant.Parts) == 0 {
		whole = p.request.Share(p.grant.Set)
	}
	for i := range p.request.Containers {
		var cards string
		for _, g := range p.grant.Parts {
			if g.Container == i {
				d := p.node.Devices[g.Slot]
				cards += fmt.Sprintf("%s,%s,%d,%d:", deviceName(d), kind, g.Memory, g.Part.Milli/10)
			}
		}
		if whole != nil {
			for slot := range whole[i].Slots() {
				d := p.node.Devices[slot]
				cards += fmt.Sprintf("%s,%s,%d,0:", deviceName(d), kind, d.Memory)
			}
		}
		if cards == "" && !everyContainer {
			continue
		}
		if !first && !everyContainer {
			b.WriteString(";")
		}
		b.WriteString(cards)
		if everyContainer {
			b.WriteString(";")
		}
		first = false
	}
	return b.String()
}

// deviceName is a device's UUID, or its index where the UUID is unknown.
func deviceName(d model.Device) string {
	if d.UUID != "" {
		return d.UUID
	}
	return fmt.Sprint(d.Index)
}

// modeOf reads an annotation that names a sharing mode, which a node must offer.
func modeOf(pod *v1.Pod, r *model.Request, annotation string, modes ...string) error {
	mode, ok := pod.Annotations[annotation]
	if !ok {
		return nil
	}
	for _, m := range modes {
		if m == mode {
			r.Attributes = append(r.Attributes, model.Want{Key: annotation, Values: []string{mode}})
			return nil
		}
	}
	return fmt.Errorf("metadata.annotations[%s]: %q is not one of %s", annotation, mode, strings.Join(modes, ", "))
}

// quantity reads a node's allocatable resource as a number.
func quantity(list v1.ResourceList, r v1.ResourceName) int64 {
	q, ok := list[r]
	if !ok {
		return 0
	}
	return clamp(q)
}

func clamp(q resource.Quantity) int64 {
	return max(0, min(q.Value(), math.MaxInt32))
}
