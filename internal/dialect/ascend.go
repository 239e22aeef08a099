package dialect

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	v1 "k8s.io/api/core/v1"

	"github.com/tangram-dev/tangram/core/model"
)

// Huawei's words, as HAMi and MindCluster have them. Case does not matter: the
// requirement documents write huawei.com/ascend310p.
//
//	huawei.com/Ascend310P: 2            two whole cards
//	huawei.com/Ascend310P-memory: 6000  of one card: the smallest template (vir02) that has it
//	huawei.com/Ascend310P-core: 25      percent of a card; then memory is taken as it is
//	huawei.com/Ascend310P-2c: 1         a virtual NPU that was cut beforehand
//	huawei.com/npu-core: 2              AI cores of a 310P: 1, 2, 4, or whole cards of 8
const (
	ascendPrefix                  = "huawei.com/Ascend"
	ascendMemory                  = "-memory"
	ascendPercent                 = "-core"
	ascendCore    v1.ResourceName = "huawei.com/npu-core"

	// ascendMode set to hami-core selects shares of any size instead of templates.
	ascendMode = "huawei.com/vnpu-mode"
)

// ascendWords are what a container requests of one kind of card.
type ascendWords struct {
	card                   string // Ascend310P
	resource               v1.ResourceName
	count, memory, percent int64
	field                  string // of the first word found
	memoryField            string
	soft                   bool // shares in any size
}

func readAscend(pod *v1.Pod, c *v1.Container, path string) (*ask, error) {
	w := &words{c: c, path: path}
	cores, err := readNPUCore(w)
	if err != nil {
		return nil, err
	}
	said := ascendWords{soft: pod.Annotations[ascendMode] == "hami-core"}
	var none []string // fields that say 0
	for _, name := range named(c, "") {
		if _, ok := cutPrefixFold(string(name), ascendPrefix); !ok {
			continue
		}
		n, field, err := said.add(w, name)
		switch {
		case err != nil:
			return nil, err
		case n == 0 && field != "":
			none = append(none, field)
		}
	}
	switch {
	case said.card == "":
		return cores, nil
	case cores != nil:
		return nil, fmt.Errorf("%s: given beside %s", cores.field, said.field)
	case len(none) > 0:
		return nil, fmt.Errorf("%s: 0, but %s is not", none[0], said.field)
	}
	return said.ask()
}

// add reads one resource of a container. A resource that says 0 names no card.
func (a *ascendWords) add(w *words, name v1.ResourceName) (n int64, field string, err error) {
	card, suffix := string(name[len("huawei.com/"):]), ""
	for _, s := range []string{ascendMemory, ascendPercent} {
		if rest, ok := strings.CutSuffix(card, s); ok {
			card, suffix = rest, s
		}
	}
	most := map[string]int64{"": maxCount, ascendMemory: maxMiB, ascendPercent: 100}[suffix]
	n, field, ok := w.number(name, 0, most)
	if w.err != nil || !ok || n == 0 {
		return n, field, w.err
	}
	if chip := ascendChipOf(card); chip != nil {
		card = chip.name
	}
	if a.card != "" && a.card != card {
		return n, field, fmt.Errorf("%s: two kinds of cards in one container, the other is %s", field, a.field)
	}
	if a.field == "" {
		a.field = field
	}
	a.card = card
	switch suffix {
	case ascendMemory:
		a.memory, a.memoryField = n, field
	case ascendPercent:
		a.percent = n
	default:
		a.count, a.resource = n, name
	}
	return n, field, nil
}

// ask is the request: whole cards, or a share of one.
func (a *ascendWords) ask() (*ask, error) {
	out := &ask{vendor: model.Ascend, resource: a.resource, count: int(max(1, a.count)), field: a.field, models: ascendModels(a.card)}
	if out.resource == "" {
		out.resource = v1.ResourceName("huawei.com/" + a.card)
	}
	chip := ascendChipOf(a.card)
	switch {
	case a.percent > 0 || a.soft && a.memory > 0:
		out.part = model.Part{Kind: model.Share, Memory: model.MiB(a.memory), Milli: int(a.percent) * 10}
		if a.memory == 0 {
			out.part.MemoryMilli = model.FullMilli
		}
	case a.memory == 0:
	case chip == nil || len(chip.templates) == 0:
		out.part = model.Part{Kind: model.Share, Memory: model.MiB(a.memory)}
	case model.MiB(a.memory) > chip.capacity:
		return nil, fmt.Errorf("%s: %d MiB, but a card %s has %d", a.memoryField, a.memory, chip.name, chip.capacity)
	default:
		if t := chip.template(model.MiB(a.memory)); t != nil { // else the whole card
			out.part = model.Part{Kind: model.Share, Memory: t.memory, Milli: chip.milli(t.cores)}
		}
	}
	if out.part.Kind == model.Share && a.count > 1 {
		return nil, fmt.Errorf("%s: a part of each of %d cards; several cards can only be had whole", a.field, a.count)
	}
	return out, nil
}

// readNPUCore reads MindCluster's word: AI cores of a 310P.
func readNPUCore(w *words) (*ask, error) {
	chip := ascendChipOf(ascend310P)
	n, field, ok := w.number(ascendCore, 1, int64(maxCount*chip.cores))
	if w.err != nil || !ok {
		return nil, w.err
	}
	out := &ask{vendor: model.Ascend, resource: ascendCore, count: 1, field: field, models: ascendModels(ascend310P)}
	switch cores := int(n); {
	case cores%chip.cores == 0:
		out.count = cores / chip.cores
	case slices.ContainsFunc(chip.templates, func(t ascendTemplate) bool { return t.cores == cores }):
		out.part = model.Part{Kind: model.Share, Milli: chip.milli(cores)}
	default:
		return nil, fmt.Errorf("%s: %d AI cores; a card is cut into 1, 2 or 4, or given whole as %d", field, cores, chip.cores)
	}
	return out, nil
}

// ascendWishes reads which cards a pod selects or excludes: hami.io/use-Ascend310P-uuid.
func ascendWishes(pod *v1.Pod, r *model.Request) error {
	card := ascendCardOf(r)
	return readUUIDs(pod, r, "hami.io/use-"+card+"-uuid", "hami.io/no-use-"+card+"-uuid")
}

// ascendCardOf is the kind of card that a request names.
func ascendCardOf(r *model.Request) (card string) {
	for _, c := range r.Containers {
		if rest, ok := cutPrefixFold(c.Resource, "huawei.com/"); ok && c.Count > 0 {
			if card = rest; ascendChipOf(rest) != nil {
				card = ascendChipOf(rest).name
			}
		}
	}
	return card
}

// annotateAscend is what HAMi's and MindCluster's device plugins read. Whole cards
// without a UUID (not registered by a HAMi plugin) need no annotation.
func annotateAscend(p placed) map[string]string {
	card := ascendCardOf(p.request)
	if card == "npu-core" {
		return annotateNPUCore(p)
	}
	registered := false
	for slot := range p.grant.Set.Slots() {
		registered = registered || p.node.Devices[slot].UUID != ""
	}
	if len(p.grant.Parts) == 0 && !registered {
		return nil
	}
	given, _ := json.Marshal(ascendGiven(p, card)) // strings and numbers
	cards, out := encodeCards(withoutTemplates(p, card), card, true), allocating(p, "hami.io/")
	out["hami.io/"+card+"-devices-to-allocate"] = cards
	out["hami.io/"+card+"-devices-allocated"] = cards
	out["huawei.com/"+card] = string(given)
	out["predicate-time"] = out["hami.io/vgpu-time"]
	return out
}

// ascendCard is a card as HAMi's runtime hook reads it: a template, or amounts.
type ascendCard struct {
	UUID     string `json:"UUID,omitempty"`
	Template string `json:"temp,omitempty"`
	Memory   int64  `json:"memory,omitempty"`
	Core     int    `json:"core,omitempty"`
}

func ascendGiven(p placed, card string) []ascendCard {
	var out []ascendCard
	chip, soft := ascendChipOf(card), p.pod.Annotations[ascendMode] == "hami-core"
	for _, g := range p.grant.Parts {
		c := ascendCard{UUID: deviceName(p.node.Devices[g.Slot])}
		if t := templateOf(chip, g.Part); t != nil && !soft {
			c.Template = t.name
		} else {
			c.Memory, c.Core = int64(g.Memory), g.Part.Milli/10
		}
		out = append(out, c)
	}
	for slot := range p.grant.Set.Slots() {
		if len(p.grant.Parts) == 0 {
			out = append(out, ascendCard{UUID: deviceName(p.node.Devices[slot])})
		}
	}
	return out
}

// withoutTemplates removes the compute that follows from a template: HAMi writes what was requested.
func withoutTemplates(p placed, card string) placed {
	p.grant.Parts = slices.Clone(p.grant.Parts)
	for i := range p.grant.Parts {
		if part := &p.grant.Parts[i].Part; templateOf(ascendChipOf(card), *part) != nil {
			part.Milli = 0
		}
	}
	return p
}

// templateOf is the template that a part is; nil when it is none.
func templateOf(chip *ascendChip, part model.Part) *ascendTemplate {
	if chip == nil {
		return nil
	}
	for i := range chip.templates {
		if t := &chip.templates[i]; chip.milli(t.cores) == part.Milli && (t.memory == part.Memory || part.Memory == 0) {
			return t
		}
	}
	return nil
}

// annotateNPUCore is what MindCluster's device plugin reads: the chips, or a chip and its template.
func annotateNPUCore(p placed) map[string]string {
	var chips []string
	for slot := range p.grant.Set.Slots() {
		chips = append(chips, strconv.Itoa(p.node.Devices[slot].Index))
	}
	value := strings.Join(chips, ",")
	if len(p.grant.Parts) > 0 {
		if t := templateOf(ascendChipOf(ascend310P), p.grant.Parts[0].Part); t != nil {
			value = chips[0] + "-" + t.name
		}
	}
	return map[string]string{string(ascendCore): value, "predicate-time": strconv.FormatInt(p.now.UnixNano(), 10)}
}
