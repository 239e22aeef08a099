package topology

import (
	"slices"

	"github.com/tangram-dev/tangram/core/model"
)

// Band is devices of a node that reach each other by links of a class or better.
type Band struct {
	Class model.LinkClass
	// Devices are indexes, sorted.
	Devices []int
}

// Bands are the groups of devices with links that are better than the node's common ones,
// the best first. Where all pairs are alike there is one group if NVLink or a switch joins
// them, and none otherwise: what every bus does is no news. A group that a better class joins
// already is not there twice. Cost: devices squared times classes.
func Bands(node *model.Node) (out []Band) {
	n := len(node.Devices)
	class := make([]model.LinkClass, n*n)
	for _, link := range node.Links {
		for _, x := range link.Between {
			for _, y := range link.Between {
				if a, b := node.Slot(x, ""), node.Slot(y, ""); a >= 0 && b >= 0 && a != b {
					class[a*n+b] = max(class[a*n+b], link.Class)
				}
			}
		}
	}
	common := model.NVSwitch
	for a := range n {
		for b := range n {
			if a != b {
				common = min(common, class[a*n+b])
			}
		}
	}
	for c := model.NVSwitch; c > common || c == common && c >= model.NVLink; c-- {
		for _, group := range components(n, func(a, b int) bool { return class[a*n+b] >= c }) {
			devices := make([]int, len(group))
			for i, slot := range group {
				devices[i] = node.Devices[slot].Index
			}
			slices.Sort(devices)
			if !slices.ContainsFunc(out, func(o Band) bool { return slices.Equal(o.Devices, devices) }) {
				out = append(out, Band{c, devices})
			}
		}
	}
	return out
}

// components are the connected sets of two or more of n things, by their smallest.
func components(n int, joined func(a, b int) bool) (out [][]int) {
	seen := make([]bool, n)
	for first := range n {
		if seen[first] {
			continue
		}
		seen[first] = true
		group := []int{first}
		for i := 0; i < len(group); i++ {
			for b := range n {
				if !seen[b] && joined(group[i], b) {
					seen[b] = true
					group = append(group, b)
				}
			}
		}
		if len(group) > 1 {
			out = append(out, group)
		}
	}
	return out
}
