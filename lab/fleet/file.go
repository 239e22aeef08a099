package fleet

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/tangram-dev/tangram/api/names"
	"github.com/tangram-dev/tangram/api/v1alpha1"
	"github.com/tangram-dev/tangram/internal/strictyaml"
)

// Parse reads a fleet file; name is what errors call it. Unknown fields, wrong types and
// impossible values are reported together, each with its line, in the order of the lines.
// docs/guides/local-cluster.md describes the format.
func Parse(name string, data []byte) (*Fleet, error) {
	r, root := strictyaml.Parse(name, data)
	d := decoder{r}
	f := &Fleet{}
	if root != nil {
		d.refuseNull(root, "")
		d.Object(root, "", strictyaml.Fields{"pools": func(n *yaml.Node, path string) { f.Pools = d.pools(n, path) }})
	}
	if len(d.Problems()) == 0 && len(f.Pools) == 0 {
		d.Fail(root, "pools", "is missing or empty: a fleet needs at least one pool")
	}
	if nodes, _ := f.Size(); nodes > maxNodes {
		d.Fail(root, "pools", "%d nodes in all, want at most %d", nodes, maxNodes)
	}
	slices.SortStableFunc(d.Problems(), func(a, b strictyaml.Problem) int {
		return cmp.Or(a.Line-b.Line, strings.Compare(a.Field, b.Field))
	})
	if err := d.Err(); err != nil {
		return nil, err
	}
	return f, nil
}

func (d decoder) pools(n *yaml.Node, path string) (pools []Pool) {
	seen := map[string]int{}
	d.List(n, path, maxPools, func(n *yaml.Node, path string) {
		p, name := d.pool(n, path)
		if first, ok := seen[p.Name]; ok && p.Name != "" {
			d.Fail(name, path+".name", "%q is also the name of pools[%d]", p.Name, first)
		} else {
			seen[p.Name] = len(pools)
		}
		pools = append(pools, p)
	})
	return pools
}

// pool also returns the node of the pool's name.
func (d decoder) pool(n *yaml.Node, path string) (Pool, *yaml.Node) {
	var p Pool
	nameNode := n
	present := d.Object(n, path, strictyaml.Fields{
		"name": func(n *yaml.Node, path string) {
			nameNode = n
			p.Name = d.text(n, path)
			if problems := validation.IsDNS1123Label(p.Name); p.Name != "" && (len(problems) > 0 || len(p.Name) > 50) {
				d.Fail(n, path, "%q cannot begin a node's name: use at most 50 lower case letters, digits and -", p.Name)
			}
		},
		"count":       func(n *yaml.Node, path string) { p.Count = d.integer(n, path, 1, maxNodes) },
		"gpu":         func(n *yaml.Node, path string) { p.GPU = d.gpu(n, path) },
		"cpu":         func(n *yaml.Node, path string) { p.CPU, _ = d.quantity(n, path) },
		"memory":      func(n *yaml.Node, path string) { p.Memory, _ = d.quantity(n, path) },
		"labels":      func(n *yaml.Node, path string) { p.Labels = d.labels(n, path) },
		"taints":      func(n *yaml.Node, path string) { p.Taints = d.taints(n, path) },
		"annotations": func(n *yaml.Node, path string) { p.Annotations = d.annotations(n, path) },
		"resources":   func(n *yaml.Node, path string) { p.Resources = d.resources(n, path) },
		"zone": func(n *yaml.Node, path string) {
			p.Zone = d.checked(n, path, "label value", validation.IsValidLabelValue)
		},
		"rack":  func(n *yaml.Node, path string) { p.RackSize = d.size(n, path) },
		"block": func(n *yaml.Node, path string) { p.BlockSize = d.size(n, path) },
	})
	d.require(n, path, present, "name", "count")
	if p.RackSize > 0 && p.BlockSize > 0 && p.BlockSize%p.RackSize != 0 {
		d.Fail(present["block"], path+".block.size", "%d nodes are not whole racks of %d", p.BlockSize, p.RackSize)
	}
	return p, nameNode
}

func (d decoder) size(n *yaml.Node, path string) int {
	size := 0
	present := d.Object(n, path, strictyaml.Fields{
		"size": func(n *yaml.Node, path string) { size = d.integer(n, path, 1, maxNodes) },
	})
	d.require(n, path, present, "size")
	return size
}

func (d decoder) gpu(n *yaml.Node, path string) *GPU {
	g := &GPU{}
	present := d.Object(n, path, strictyaml.Fields{
		"model": func(n *yaml.Node, path string) {
			if g.Model = d.text(n, path); labelValue(g.Model) == "" || len(g.Model) > 128 {
				d.Fail(n, path, "must have letters or digits, and at most 128 characters")
			}
		},
		"vendor": func(n *yaml.Node, path string) {
			g.Vendor = d.oneOf(n, path, vendorNVIDIA, vendorAMD, vendorIntel)
		},
		"accelerator": func(n *yaml.Node, path string) {
			g.Accelerator = d.checked(n, path, "label value", validation.IsValidLabelValue)
		},
		"count":     func(n *yaml.Node, path string) { g.Count = d.integer(n, path, 1, MaxGPUs) },
		"memoryMiB": func(n *yaml.Node, path string) { g.MemoryMiB = int64(d.integer(n, path, 1, maxMemory)) },
		"memory":    func(n *yaml.Node, path string) { g.MemoryMiB = d.memory(n, path) },
		"sms":       func(n *yaml.Node, path string) { g.SMs = int32(d.integer(n, path, 1, 10_000)) },
		"mig":       func(n *yaml.Node, path string) { g.MIG = d.Bool(n, path) },
		"links":     func(n *yaml.Node, path string) { g.Layout, g.Links = d.links(n, path) },
		"numaNodes": func(n *yaml.Node, path string) { g.NUMANodes = d.integer(n, path, 1, maxNUMA) },
	})
	d.require(n, path, present, "model", "count")
	d.checkGPU(g, path, present)
	return g
}

// checkGPU checks what one field says against another.
func (d decoder) checkGPU(g *GPU, path string, present map[string]*yaml.Node) {
	known, ok := findProduct(g.Model)
	if g.Model != "" && !ok && present["memory"] == nil && present["memoryMiB"] == nil {
		d.Fail(present["model"], path+".memory", "is needed, as %q is not a known model (%s)",
			g.Model, knownModels(func(product) bool { return true }))
	}
	if present["memory"] != nil && present["memoryMiB"] != nil {
		d.Fail(present["memoryMiB"], path+".memoryMiB", "is given twice: use memory or memoryMiB")
	}
	if g.MIG && g.Model != "" && len(known.profiles) == 0 {
		d.Fail(present["mig"], path+".mig", "no MIG profiles are known of %q, only of %s",
			g.Model, knownModels(func(p product) bool { return len(p.profiles) > 0 }))
	}
	if g.Count > 0 && g.NUMANodes > g.Count {
		d.Fail(present["numaNodes"], path+".numaNodes", "%d NUMA nodes for %d GPUs", g.NUMANodes, g.Count)
	}
	for i, l := range g.Links {
		for _, index := range l.Between {
			if g.Count > 0 && int(index) >= g.Count {
				d.Fail(present["links"].Content[i], fmt.Sprintf("%s.links[%d].between", path, i), "names device %d; there are 0 to %d", index, g.Count-1)
			}
		}
	}
}

// links is a layout's name or an explicit list.
func (d decoder) links(n *yaml.Node, path string) (string, []v1alpha1.Link) {
	if n.Kind != yaml.SequenceNode {
		return d.oneOf(n, path, linksNVSwitch, linksNVLink, linksPCIe), nil
	}
	links := []v1alpha1.Link{}
	d.List(n, path, 128, func(n *yaml.Node, path string) { links = append(links, d.link(n, path)) })
	return "", links
}

func (d decoder) link(n *yaml.Node, path string) v1alpha1.Link {
	var l v1alpha1.Link
	present := d.Object(n, path, strictyaml.Fields{
		"between": func(n *yaml.Node, path string) {
			before := len(d.Problems())
			d.List(n, path, MaxGPUs, func(item *yaml.Node, _ string) {
				index, ok := d.Int(item, path, 0, MaxGPUs-1, "")
				if ok && slices.Contains(l.Between, int32(index)) {
					d.Fail(item, path, "names device %d twice", index)
				}
				l.Between = append(l.Between, int32(index))
			})
			if len(d.Problems()) == before && len(l.Between) < 2 {
				d.Fail(n, path, "must name at least two devices")
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

func (d decoder) labels(n *yaml.Node, path string) map[string]string {
	labels := map[string]string{}
	d.eachPair(n, path, func(key, value *yaml.Node, at string) {
		if problems := validation.IsQualifiedName(key.Value); len(problems) > 0 {
			d.Fail(key, at, "is no label name: %s", problems[0])
		}
		if key.Value == LabelPool || key.Value == v1.LabelHostname {
			d.Fail(key, at, "is set by %s itself", names.Group)
		}
		labels[key.Value] = d.checked(value, at, "label value", validation.IsValidLabelValue)
	})
	return labels
}

func (d decoder) annotations(n *yaml.Node, path string) map[string]string {
	annotations := map[string]string{}
	d.eachPair(n, path, func(key, value *yaml.Node, at string) {
		if problems := validation.IsQualifiedName(strings.ToLower(key.Value)); len(problems) > 0 {
			d.Fail(key, at, "is no annotation name: %s", problems[0])
		}
		if key.Value == AnnotationSimulated {
			d.Fail(key, at, "is set by %s itself", names.Group)
		}
		if annotations[key.Value] = d.text(value, at); len(annotations[key.Value]) > maxAnnotation {
			d.Fail(value, at, "has %d bytes; at most %d", len(annotations[key.Value]), maxAnnotation)
		}
	})
	return annotations
}

// resources are extended resources: whole numbers, under the name of a vendor.
func (d decoder) resources(n *yaml.Node, path string) v1.ResourceList {
	list := v1.ResourceList{}
	d.eachPair(n, path, func(key, value *yaml.Node, at string) {
		if problems := validation.IsQualifiedName(key.Value); len(problems) > 0 {
			d.Fail(key, at, "is no resource name: %s", problems[0])
		} else if !strings.Contains(key.Value, "/") || strings.Contains(key.Value, v1.ResourceDefaultNamespacePrefix) {
			d.Fail(key, at, "must be an extended resource such as example.com/gpu; cpu and memory have fields of their own")
		}
		q, _ := d.quantity(value, at)
		if q.CmpInt64(q.Value()) != 0 {
			d.Fail(value, at, "%s is not a whole number", q.String())
		}
		list[v1.ResourceName(key.Value)] = q
	})
	return list
}

func (d decoder) taints(n *yaml.Node, path string) []v1.Taint {
	var taints []v1.Taint
	d.List(n, path, 50, func(item *yaml.Node, at string) {
		var t v1.Taint
		present := d.Object(item, at, strictyaml.Fields{
			"key": func(n *yaml.Node, path string) {
				t.Key = d.checked(n, path, "taint key", validation.IsQualifiedName)
			},
			"value": func(n *yaml.Node, path string) {
				t.Value = d.checked(n, path, "taint value", validation.IsValidLabelValue)
			},
			"effect": func(n *yaml.Node, path string) {
				t.Effect = v1.TaintEffect(d.oneOf(n, path, "NoSchedule", "PreferNoSchedule", "NoExecute"))
			},
		})
		d.require(item, at, present, "key", "effect")
		taints = append(taints, t)
	})
	return taints
}
