package score

import (
	"strings"

	"github.com/tangram-dev/tangram/core/model"
)

// Grade places a model on a scale of training performance, 0..100. Only the order
// matters, and only roughly; unlisted models are in the middle.
func Grade(m model.GPUModel) int {
	if g, ok := grades[m.Name()]; ok {
		return g
	}
	return 50
}

// grades by normalised model name, from vendors' dense half-precision figures
// and memory, in steps of 5.
var grades = map[string]int{
	"b300": 100, "gb300": 100, "b200": 100, "gb200": 100, "mi355x": 100,
	"h200": 95, "gh200": 95, "mi325x": 95,
	"h100": 90, "h800": 90, "mi300x": 90,
	"a100": 80, "a800": 80, "mi250x": 80, "mi250": 80, "h20": 75, "l40s": 70,
	"v100": 60, "v100s": 60, "mi210": 65, "mi100": 60, "a40": 60, "l40": 60, "4090": 60, "a6000": 60,
	"p100": 45, "3090": 50, "a30": 50, "a10": 45, "a10g": 45, "3080": 45, "flex-170": 40,
	"l4": 35, "a16": 30, "t4": 25, "2080": 30, "p40": 30, "a2": 15, "p4": 15, "m60": 10, "k80": 10,
}

// BoardPower is the power limit of a model's board, in watts; 0 for unlisted models. It
// is the product's default limit: a lower limit set on a node is not known.
func BoardPower(m model.GPUModel) int {
	if strings.Contains(m.String(), "pcie") {
		if w, ok := boardPowerPCIe[m.Name()]; ok {
			return w
		}
	}
	return boardPower[m.Name()]
}

// boardPower by normalised model name, from vendors' data sheets: of the module where
// a product exists as module and as card.
var boardPower = map[string]int{
	"b300": 1400, "b200": 1000, "mi355x": 1400, "h200": 700, "mi325x": 1000,
	"h100": 700, "h800": 700, "mi300x": 750, "a100": 400, "a800": 400, "mi250x": 560, "mi250": 560,
	"h20": 400, "l40s": 350, "v100": 300, "v100s": 250, "mi210": 300, "mi100": 300, "a40": 300, "l40": 300,
	"4090": 450, "a6000": 300, "p100": 300, "3090": 350, "a30": 165, "a10": 150, "a10g": 150, "3080": 320,
	"flex-170": 150, "l4": 72, "a16": 250, "t4": 70, "2080": 215, "p40": 250, "a2": 60, "p4": 75, "m60": 300, "k80": 300,
}

// boardPowerPCIe are the cards that differ from the module of the same name.
var boardPowerPCIe = map[string]int{"h100": 350, "h800": 350, "a100": 300, "a800": 300, "v100": 250, "p100": 250}
