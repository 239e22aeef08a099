package score

import "github.com/tangram-dev/tangram/core/model"

// Grade places a model on a scale of training performance, 0..100. Only the
// order matters, and only roughly; models nobody listed are in the middle.
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
