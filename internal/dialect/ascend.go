package dialect

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"

	"github.com/tangram-dev/tangram/core/model"
)

// Huawei's words: huawei.com/Ascend910B3 counts cards, with the suffix -memory it
// is MiB of one card, huawei.com/npu-core is percent of one card.
const (
	ascendPrefix                 = "huawei.com/Ascend"
	ascendMemory                 = "-memory"
	ascendCore   v1.ResourceName = "huawei.com/npu-core"
)

var ascend = vocabulary{
	read: func(_ *v1.Pod, c *v1.Container, path string) (*ask, error) {
		w := &words{c: c, path: path}
		a := ask{vendor: model.Ascend, part: model.Part{}}
		var none []string // fields that say 0
		for _, name := range named(c, ascendPrefix) {
			card, isMemory := strings.CutSuffix(strings.TrimPrefix(string(name), ascendPrefix), ascendMemory)
			most := int64(maxCount)
			if isMemory {
				most = maxMiB
			}
			n, field, ok := w.number(name, 0, most)
			if w.err != nil {
				return nil, w.err
			}
			if ok && n == 0 {
				none = append(none, field)
			}
			if !ok || n == 0 {
				continue
			}
			resource := v1.ResourceName(ascendPrefix + card)
			if a.resource != "" && a.resource != resource {
				return nil, fmt.Errorf("%s: two kinds of cards in one container, the other is %s", field, a.field)
			}
			a.resource, a.field = resource, field
			if isMemory {
				a.part.Kind, a.part.Memory = model.Share, model.MiB(n)
			} else {
				a.count = int(n)
			}
		}
		core, coreField, hasCore := w.number(ascendCore, 1, 100)
		if w.err != nil {
			return nil, w.err
		}
		if hasCore {
			a.part.Kind, a.part.Milli = model.Share, int(core)*10
			if a.resource == "" {
				a.resource, a.field = ascendCore, coreField
			}
		}
		if a.resource == "" {
			return nil, nil
		}
		if len(none) > 0 {
			return nil, fmt.Errorf("%s: 0, but %s is not", none[0], a.field)
		}
		if a.count == 0 {
			a.count = 1
		}
		return &a, nil
	},
	// What HAMi's ascend device plugin reads of shares; whole cards need nothing.
	annotate: func(p placed) map[string]string {
		if len(p.grant.Parts) == 0 {
			return nil
		}
		card := "Ascend"
		for _, c := range p.request.Containers {
			if rest, ok := strings.CutPrefix(c.Resource, "huawei.com/"); ok {
				card = rest
			}
		}
		cards := encodeCards(p, card, true)
		return map[string]string{
			"hami.io/" + card + "-devices-to-allocate": cards,
			"hami.io/" + card + "-devices-allocated":   cards,
			"hami.io/vgpu-node":                        string(p.node.ID),
			"hami.io/bind-phase":                       "allocating",
		}
	},
	devices: func(node *v1.Node) (*registration, error) {
		for _, name := range slices.Sorted(maps.Keys(node.Status.Allocatable)) {
			card, ok := strings.CutPrefix(string(name), ascendPrefix)
			if !ok || strings.HasSuffix(card, ascendMemory) {
				continue
			}
			n := quantity(node.Status.Allocatable, name)
			if n == 0 || n > maxCount {
				continue
			}
			memory := quantity(node.Status.Allocatable, name+ascendMemory) / n
			reg := equalDevices(node, model.Ascend, int(n), model.MiB(memory))
			for i := range reg.devices {
				reg.devices[i].Model = model.ParseModel("Ascend " + card)
			}
			return reg, nil
		}
		return nil, nil
	},
}
