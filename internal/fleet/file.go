package fleet

import (
	"fmt"
	"sort"
	"strings"

	"go.yaml.in/yaml/v3"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/tangram-dev/tangram/api/names"
	"github.com/tangram-dev/tangram/api/v1alpha1"
)

// A Error lists everything that is wrong with a fleet file.
type Error struct {
	Problems []Problem // by line, then by field
}

// Problem is one mistake in a file.
type Problem struct {
	File  string
	Line  int
	Field string // for example "pools[1].gpu.count"
	Text  string
}

func (p Problem) String() string {
	if p.Field == "" {
		return fmt.Sprintf("%s:%d: %s", p.File, p.Line, p.Text)
	}
	return fmt.Sprintf("%s:%d: %s: %s", p.File, p.Line, p.Field, p.Text)
}

func (e *Error) Error() string {
	lines := make([]string, 0, len(e.Problems))
	for _, p := range e.Problems {
		lines = append(lines, p.String())
	}
	return strings.Join(lines, "\n")
}

// Parse reads a fleet file; name is what errors call it. Unknown fields,
// wrong types and impossible values give a *Error with the line of each.
// docs/guides/local-cluster.md describes the format.
func Parse(name string, data []byte) (*Fleet, error) {
	d := &decoder{file: name}
	root, err := d.parse(data)
	if err != nil {
		return nil, err
	}
	f := &Fleet{}
	d.mapping(root, "", fields{"pools": func(n *yaml.Node, path string) { f.Pools = d.pools(n, path) }})
	if len(d.problems) == 0 && len(f.Pools) == 0 {
		d.wrong(root, "pools", "is missing or empty: a fleet needs at least one pool")
	}
	if nodes, _ := f.Size(); nodes > maxNodes {
		d.wrong(root, "pools", "%d nodes in all; at most %d", nodes, maxNodes)
	}
	if len(d.problems) > 0 {
		sort.SliceStable(d.problems, func(i, j int) bool {
			a, b := d.problems[i], d.problems[j]
			return a.Line < b.Line || a.Line == b.Line && a.Field < b.Field
		})
		return nil, &Error{Problems: d.problems}
	}
	return f, nil
}

func (d *decoder) pools(n *yaml.Node, path string) []Pool {
	items := d.list(n, path, maxPools)
	pools := make([]Pool, 0, len(items))
	seen := map[string]int{}
	for i, item := range items {
		at := fmt.Sprintf("%s[%d]", path, i)
		p, name := d.pool(item, at)
		if first, ok := seen[p.Name]; ok && p.Name != "" {
			d.wrong(name, at+".name", "%q is also the name of pools[%d]", p.Name, first)
		} else {
			seen[p.Name] = i
		}
		pools = append(pools, p)
	}
	return pools
}

// pool also returns the node of the pool's name.
func (d *decoder) pool(n *yaml.Node, path string) (Pool, *yaml.Node) {
	var p Pool
	nameNode := n
	present := d.mapping(n, path, fields{
		"name": func(n *yaml.Node, path string) {
			nameNode = n
			p.Name = d.text(n, path)
			if problems := validation.IsDNS1123Label(p.Name); p.Name != "" && (len(problems) > 0 || len(p.Name) > 50) {
				d.wrong(n, path, "%q cannot begin a node's name: use at most 50 lower case letters, digits and -", p.Name)
			}
		},
		"count":       func(n *yaml.Node, path string) { p.Count = int(d.integer(n, path, 1, maxNodes)) },
		"gpu":         func(n *yaml.Node, path string) { p.GPU = d.gpu(n, path) },
		"cpu":         func(n *yaml.Node, path string) { p.CPU = d.quantity(n, path) },
		"memory":      func(n *yaml.Node, path string) { p.Memory = d.quantity(n, path) },
		"labels":      func(n *yaml.Node, path string) { p.Labels = d.labels(n, path) },
		"taints":      func(n *yaml.Node, path string) { p.Taints = d.taints(n, path) },
		"annotations": func(n *yaml.Node, path string) { p.Annotations = d.annotations(n, path) },
		"resources":   func(n *yaml.Node, path string) { p.Resources = d.resources(n, path) },
		"zone": func(n *yaml.Node, path string) {
			p.Zone = d.text(n, path)
			if problems := validation.IsValidLabelValue(p.Zone); len(problems) > 0 {
				d.wrong(n, path, "%q is no label value: %s", p.Zone, problems[0])
			}
		},
		"rack":  func(n *yaml.Node, path string) { p.RackSize = d.size(n, path) },
		"block": func(n *yaml.Node, path string) { p.BlockSize = d.size(n, path) },
	})
	d.require(n, path, present, "name", "count")
	if p.RackSize > 0 && p.BlockSize > 0 && p.BlockSize%p.RackSize != 0 {
		d.wrong(present["block"], path+".block.size", "%d nodes are not whole racks of %d", p.BlockSize, p.RackSize)
	}
	return p, nameNode
}

func (d *decoder) size(n *yaml.Node, path string) int {
	size := 0
	present := d.mapping(n, path, fields{
		"size": func(n *yaml.Node, path string) { size = int(d.integer(n, path, 1, maxNodes)) },
	})
	d.require(n, path, present, "size")
	return size
}

func (d *decoder) gpu(n *yaml.Node, path string) *GPU {
	g := &GPU{}
	present := d.mapping(n, path, fields{
		"model": func(n *yaml.Node, path string) {
			if g.Model = d.text(n, path); labelValue(g.Model) == "" || len(g.Model) > 128 {
				d.wrong(n, path, "must have letters or digits, and at most 128 characters")
			}
		},
		"vendor": func(n *yaml.Node, path string) {
			g.Vendor = d.oneOf(n, path, vendorNVIDIA, vendorAMD, vendorIntel)
		},
		"accelerator": func(n *yaml.Node, path string) {
			g.Accelerator = d.text(n, path)
			if problems := validation.IsValidLabelValue(g.Accelerator); len(problems) > 0 {
				d.wrong(n, path, "%q is no label value: %s", g.Accelerator, problems[0])
			}
		},
		"count":     func(n *yaml.Node, path string) { g.Count = int(d.integer(n, path, 1, MaxGPUs)) },
		"memoryMiB": func(n *yaml.Node, path string) { g.MemoryMiB = d.integer(n, path, 1, maxMemory) },
		"memory":    func(n *yaml.Node, path string) { g.MemoryMiB = d.memory(n, path) },
		"sms":       func(n *yaml.Node, path string) { g.SMs = int32(d.integer(n, path, 1, 10_000)) },
		"mig":       func(n *yaml.Node, path string) { g.MIG = d.boolean(n, path) },
		"links":     func(n *yaml.Node, path string) { g.Layout, g.Links = d.links(n, path) },
		"numaNodes": func(n *yaml.Node, path string) { g.NUMANodes = int(d.integer(n, path, 1, maxNUMA)) },
	})
	d.require(n, path, present, "model", "count")
	d.checkGPU(g, path, present)
	return g
}

// checkGPU checks what one field says against another.
func (d *decoder) checkGPU(g *GPU, path string, present map[string]*yaml.Node) {
	known, ok := findProduct(g.Model)
	if g.Model != "" && !ok && present["memory"] == nil && present["memoryMiB"] == nil {
		d.wrong(present["model"], path+".memory", "is needed, as %q is not a model I know (%s)",
			g.Model, knownModels(func(product) bool { return true }))
	}
	if present["memory"] != nil && present["memoryMiB"] != nil {
		d.wrong(present["memoryMiB"], path+".memoryMiB", "is given twice: use memory or memoryMiB")
	}
	if g.MIG && g.Model != "" && len(known.profiles) == 0 {
		d.wrong(present["mig"], path+".mig", "no MIG profiles are known of %q, only of %s",
			g.Model, knownModels(func(p product) bool { return len(p.profiles) > 0 }))
	}
	if g.Count > 0 && g.NUMANodes > g.Count {
		d.wrong(present["numaNodes"], path+".numaNodes", "%d NUMA nodes for %d GPUs", g.NUMANodes, g.Count)
	}
	for i, l := range g.Links {
		for _, index := range l.Between {
			if g.Count > 0 && int(index) >= g.Count {
				at := element(present["links"], i)
				d.wrong(at, fmt.Sprintf("%s.links[%d].between", path, i), "names device %d; there are 0 to %d", index, g.Count-1)
			}
		}
	}
}

// links is a layout's name or an explicit list.
func (d *decoder) links(n *yaml.Node, path string) (string, []v1alpha1.Link) {
	n = resolve(n)
	if n.Kind != yaml.SequenceNode {
		return d.oneOf(n, path, linksNVSwitch, linksNVLink, linksPCIe), nil
	}
	links := []v1alpha1.Link{}
	for i, item := range d.list(n, path, 128) {
		links = append(links, d.link(item, fmt.Sprintf("%s[%d]", path, i)))
	}
	return "", links
}

func (d *decoder) link(n *yaml.Node, path string) v1alpha1.Link {
	var l v1alpha1.Link
	present := d.mapping(n, path, fields{
		"between": func(n *yaml.Node, path string) {
			seen := map[int64]bool{}
			items := d.list(n, path, MaxGPUs)
			for _, item := range items {
				index := d.integer(item, path, 0, MaxGPUs-1)
				if seen[index] {
					d.wrong(item, path, "names device %d twice", index)
				}
				seen[index] = true
				l.Between = append(l.Between, int32(index))
			}
			if len(items) < 2 {
				d.wrong(n, path, "must name at least two devices")
			}
		},
		"class": func(n *yaml.Node, path string) {
			l.Class = v1alpha1.LinkClass(d.oneOf(n, path, "NVSwitch", "NVLink", "PIX", "PXB", "PHB", "NODE", "SYS"))
		},
		"count": func(n *yaml.Node, path string) { l.Count = int32(d.integer(n, path, 0, 64)) },
	})
	d.require(n, path, present, "between", "class")
	return l
}

func (d *decoder) labels(n *yaml.Node, path string) map[string]string {
	labels := map[string]string{}
	d.eachPair(n, path, func(key, value *yaml.Node) {
		at := fmt.Sprintf("%s[%s]", path, key.Value)
		if problems := validation.IsQualifiedName(key.Value); len(problems) > 0 {
			d.wrong(key, at, "is no label name: %s", problems[0])
		}
		if key.Value == LabelPool || key.Value == v1.LabelHostname {
			d.wrong(key, at, "is set by %s itself", names.Group)
		}
		text := d.text(value, at)
		if problems := validation.IsValidLabelValue(text); len(problems) > 0 {
			d.wrong(value, at, "%q is no label value: %s", text, problems[0])
		}
		labels[key.Value] = text
	})
	return labels
}

func (d *decoder) annotations(n *yaml.Node, path string) map[string]string {
	annotations := map[string]string{}
	d.eachPair(n, path, func(key, value *yaml.Node) {
		at := fmt.Sprintf("%s[%s]", path, key.Value)
		if problems := validation.IsQualifiedName(strings.ToLower(key.Value)); len(problems) > 0 {
			d.wrong(key, at, "is no annotation name: %s", problems[0])
		}
		if key.Value == AnnotationSimulated {
			d.wrong(key, at, "is set by %s itself", names.Group)
		}
		if annotations[key.Value] = d.text(value, at); len(annotations[key.Value]) > maxAnnotation {
			d.wrong(value, at, "has %d bytes; at most %d", len(annotations[key.Value]), maxAnnotation)
		}
	})
	return annotations
}

// resources are extended resources: whole numbers, under the name of a vendor.
func (d *decoder) resources(n *yaml.Node, path string) v1.ResourceList {
	list := v1.ResourceList{}
	d.eachPair(n, path, func(key, value *yaml.Node) {
		at := fmt.Sprintf("%s[%s]", path, key.Value)
		if problems := validation.IsQualifiedName(key.Value); len(problems) > 0 {
			d.wrong(key, at, "is no resource name: %s", problems[0])
		} else if !strings.Contains(key.Value, "/") || strings.Contains(key.Value, v1.ResourceDefaultNamespacePrefix) {
			d.wrong(key, at, "must be an extended resource such as example.com/gpu; cpu and memory have fields of their own")
		}
		q := d.quantity(value, at)
		if q.CmpInt64(q.Value()) != 0 {
			d.wrong(value, at, "%s is not a whole number", q.String())
		}
		list[v1.ResourceName(key.Value)] = q
	})
	return list
}

func (d *decoder) taints(n *yaml.Node, path string) []v1.Taint {
	var taints []v1.Taint
	for i, item := range d.list(n, path, 50) {
		var t v1.Taint
		at := fmt.Sprintf("%s[%d]", path, i)
		present := d.mapping(item, at, fields{
			"key": func(n *yaml.Node, path string) {
				t.Key = d.text(n, path)
				if problems := validation.IsQualifiedName(t.Key); len(problems) > 0 {
					d.wrong(n, path, "%q is no taint key: %s", t.Key, problems[0])
				}
			},
			"value": func(n *yaml.Node, path string) {
				t.Value = d.text(n, path)
				if problems := validation.IsValidLabelValue(t.Value); len(problems) > 0 {
					d.wrong(n, path, "%q is no taint value: %s", t.Value, problems[0])
				}
			},
			"effect": func(n *yaml.Node, path string) {
				t.Effect = v1.TaintEffect(d.oneOf(n, path, "NoSchedule", "PreferNoSchedule", "NoExecute"))
			},
		})
		d.require(item, at, present, "key", "effect")
		taints = append(taints, t)
	}
	return taints
}
