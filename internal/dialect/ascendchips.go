package dialect

import (
	"slices"
	"strings"

	"github.com/tangram-dev/tangram/core/model"
)

// ascendChip is a kind of Huawei's cards, by the defaults of HAMi's device plugin and MindCluster.
type ascendChip struct {
	// name is HAMi's "common word", the end of the resource's name: Ascend910B3.
	name string
	// memory is what can be allocated of a card, capacity what it has, in MiB.
	memory, capacity model.MiB
	// cores are its AI cores, cpus its AI CPUs; every template takes at least one CPU.
	cores, cpus int
	// templates are the sizes in which a card can be cut, by memory.
	templates []ascendTemplate
}

// ascendTemplate is one size of a virtual NPU.
type ascendTemplate struct {
	name   string
	memory model.MiB
	cores  int
}

// ascendChips are HAMi's defaults. Other cards can be had whole, and in parts by memory as asked.
var ascendChips = []ascendChip{
	{"Ascend910A", 32768, 32768, 30, 0, []ascendTemplate{{"vir02", 2184, 2}, {"vir04", 4369, 4}, {"vir08", 8738, 8}, {"vir16", 17476, 16}}},
	{"Ascend910B2", 65536, 65536, 24, 6, []ascendTemplate{{"vir03_1c_8g", 8192, 3}, {"vir06_1c_16g", 16384, 6}, {"vir12_3c_32g", 32768, 12}}},
	{"Ascend910B3", 65536, 65536, 20, 7, []ascendTemplate{{"vir05_1c_16g", 16384, 5}, {"vir10_3c_32g", 32768, 10}}},
	{"Ascend910B4", 32768, 32768, 20, 7, []ascendTemplate{{"vir05_1c_8g", 8192, 5}, {"vir10_3c_16g", 16384, 10}}},
	{"Ascend910B4-1", 65536, 65536, 20, 7, []ascendTemplate{{"vir05_1c_16g", 16384, 5}, {"vir10_3c_32g", 32768, 10}}},
	{"Ascend910C", 65536, 65536, 20, 7, nil},
	{ascend310P, 21527, 24576, 8, 7, []ascendTemplate{{"vir01", 3072, 1}, {"vir02", 6144, 2}, {"vir04", 12288, 4}}},
}

// ascend310P is the only chip of MindCluster's dynamic virtual NPUs (huawei.com/npu-core).
const ascend310P = "Ascend310P"

// ascendChipOf finds a chip by name, ignoring case; nil for an unlisted one.
func ascendChipOf(name string) *ascendChip {
	i := slices.IndexFunc(ascendChips, func(c ascendChip) bool { return strings.EqualFold(c.name, name) })
	if i < 0 {
		return nil
	}
	return &ascendChips[i]
}

// template is the smallest template that has the memory; nil when only a whole card has it.
func (c *ascendChip) template(memory model.MiB) *ascendTemplate {
	for i := range c.templates {
		if c.templates[i].memory >= memory {
			return &c.templates[i]
		}
	}
	return nil
}

// milli is so many AI cores in thousandths of the card, rounded down so that parts of a card always fit.
func (c *ascendChip) milli(cores int) int { return model.FullMilli * cores / c.cores }

// ascendModel is the model of a card, in any of its spellings: Ascend910B3, Huawei
// Ascend 910B3, 910B3. The chip of a card Ascend310P is called 310P1 or 310P3.
func ascendModel(name string) model.GPUModel {
	lower := strings.ToLower(name)
	if _, rest, ok := strings.Cut(lower, "ascend"); ok {
		lower = rest
	}
	lower = strings.TrimSpace(lower)
	if lower == "310p1" || lower == "310p3" {
		lower = "310p"
	}
	return model.ParseModel("ascend " + lower)
}

// ascendModels are the models that a resource stands for; MindCluster's huawei.com/Ascend910 is any training card.
func ascendModels(card string) []model.GPUModel {
	out := []model.GPUModel{ascendModel(card)}
	if card == "Ascend910" {
		for _, chip := range ascendChips {
			if strings.HasPrefix(chip.name, card) {
				out = append(out, ascendModel(chip.name))
			}
		}
	}
	return out
}

// cutPrefixFold is strings.CutPrefix ignoring case.
func cutPrefixFold(s, prefix string) (string, bool) {
	if len(s) < len(prefix) || !strings.EqualFold(s[:len(prefix)], prefix) {
		return s, false
	}
	return s[len(prefix):], true
}

// AscendTemplate is a template of a card by its name; false when there is none of the name.
func AscendTemplate(card, name string) (memory model.MiB, cores int, ok bool) {
	chip := ascendChipOf(card)
	if chip == nil {
		return 0, 0, false
	}
	for _, t := range chip.templates {
		if t.name == name {
			return t.memory, t.cores, true
		}
	}
	return 0, 0, false
}
