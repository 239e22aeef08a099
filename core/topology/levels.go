package topology

import (
	"fmt"
	"slices"
	"strings"

	"github.com/tangram-dev/tangram/core/model"
)

// Level is one level of the domain tree: nodes that share the value of its label,
// and the domain one level further out, share a domain.
type Level struct{ Name, Label string }

// Levels are ordered, outermost first.
type Levels []Level

// DefaultLevels are labels found on clusters as they come: Kubernetes' own zone,
// the block of the switch hierarchy as NVIDIA's Topograph writes it, the rack, and
// the NVLink domain that GPU Feature Discovery publishes for machines that share one.
func DefaultLevels() Levels {
	return Levels{
		{"zone", "topology.kubernetes.io/zone"},
		{"block", "network.topology.nvidia.com/block"},
		{"rack", "topology.kubernetes.io/rack"},
		{"clique", "nvidia.com/gpu.clique"},
	}
}

// reserved are the words for closeness inside a node.
var reserved = []string{"node", "numa", "nvlink", "nvswitch", "phb", "pix", "pxb", "sys"}

// MaxLevels keeps every walk through the tree short.
const MaxLevels = 8

// Validate names the field that is wrong.
func (ls Levels) Validate() error {
	if len(ls) > MaxLevels {
		return fmt.Errorf(": %d levels, at most %d", len(ls), MaxLevels)
	}
	for i, l := range ls {
		switch {
		case l.Name == "":
			return fmt.Errorf("[%d].name: empty", i)
		case strings.Trim(l.Name, "abcdefghijklmnopqrstuvwxyz0123456789-") != "":
			return fmt.Errorf("[%d].name: %q may hold lower-case letters, digits and - only", i, l.Name)
		case slices.Contains(reserved, l.Name):
			return fmt.Errorf("[%d].name: %q is a word for devices of one node", i, l.Name)
		case l.Label == "":
			return fmt.Errorf("[%d].label: empty", i)
		}
		for j, o := range ls[:i] {
			switch {
			case o.Name == l.Name:
				return fmt.Errorf("[%d].name: %q is also the name of [%d]", i, l.Name, j)
			case o.Label == l.Label:
				return fmt.Errorf("[%d].label: %q is also the label of [%d]", i, l.Label, j)
			}
		}
	}
	return nil
}

// Names lists the levels' names, outermost first.
func (ls Levels) Names() []string {
	out := make([]string, len(ls))
	for i, l := range ls {
		out[i] = l.Name
	}
	return out
}

// Find returns the level of a name.
func (ls Levels) Find(name string) (model.Level, bool) {
	return ls.find(func(l Level) bool { return l.Name == name })
}

// OfLabel returns the level whose domains a node label names.
func (ls Levels) OfLabel(label string) (model.Level, bool) {
	return ls.find(func(l Level) bool { return l.Label == label })
}

func (ls Levels) find(is func(Level) bool) (model.Level, bool) {
	i := slices.IndexFunc(ls, is)
	if i < 0 {
		return model.Level{}, false
	}
	return model.Level{Name: ls[i].Name, Label: ls[i].Label, Depth: i}, true
}

// Path reads a node's domains from its labels: one value per level, "" where the
// label is missing or empty; nil when the node has none of them.
func (ls Levels) Path(labels map[string]string) []string {
	return ls.PathOf(func(label string) string { return labels[label] })
}

// PathOf is Path, given a node's value for every label.
func (ls Levels) PathOf(value func(label string) string) []string {
	var out []string
	for i, l := range ls {
		if value := value(l.Label); value != "" {
			if out == nil {
				out = make([]string, len(ls))
			}
			out[i] = value
		}
	}
	return out
}
