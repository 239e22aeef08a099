package dialect

import (
	"cmp"
	"fmt"
	"maps"
	"regexp"
	"slices"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/tangram-dev/tangram/core/topology"
)

// Kinds that describe a cluster's network. All of them are cluster-scoped.
var (
	// HyperNodes are Volcano's: groups of nodes, and groups of groups, in tiers.
	HyperNodes = schema.GroupVersionResource{Group: "topology.volcano.sh", Version: "v1alpha1", Resource: "hypernodes"}
	// KAITopologies and KueueTopologies list node labels, outermost first.
	KAITopologies   = schema.GroupVersionResource{Group: "kai.scheduler", Version: "v1alpha1", Resource: "topologies"}
	KueueTopologies = schema.GroupVersionResource{Group: "kueue.x-k8s.io", Version: "v1beta2", Resource: "topologies"}
)

// Topologies are these kinds, in the order in which their levels are added.
func Topologies() []schema.GroupVersionResource {
	return []schema.GroupVersionResource{HyperNodes, KAITopologies, KueueTopologies}
}

// TopologyLevels reads a Topology of KAI's or Kueue's: the levels it lists, outermost
// first, without that of hosts, which is no level of domains. An error names the field.
func TopologyLevels(o *unstructured.Unstructured) (topology.Levels, error) {
	list, _, err := unstructured.NestedSlice(o.Object, "spec", "levels")
	if err != nil {
		return nil, fmt.Errorf("spec.levels: %w", err)
	}
	var out topology.Levels
	for i, entry := range list {
		object, _ := entry.(map[string]any)
		label, _, err := unstructured.NestedString(object, "nodeLabel")
		if err != nil || label == "" {
			return nil, fmt.Errorf("spec.levels[%d].nodeLabel: empty", i)
		}
		alias, _, _ := unstructured.NestedString(object, "alias")
		if label != v1.LabelHostname {
			out = append(out, topology.Level{Name: levelName(cmp.Or(alias, label)), Label: label})
		}
	}
	return out, nil
}

// hyperNode is a HyperNode as far as Tangram reads it.
type hyperNode struct {
	Tier     int64  `json:"tier"`
	TierName string `json:"tierName"`
	Members  []struct {
		Type     string `json:"type"`
		Selector struct {
			ExactMatch *struct {
				Name string `json:"name"`
			} `json:"exactMatch"`
			RegexMatch *struct {
				Pattern string `json:"pattern"`
			} `json:"regexMatch"`
			LabelMatch *metav1.LabelSelector `json:"labelMatch"`
		} `json:"selector"`
	} `json:"members"`
}

// Tiers is the tree of a cluster's HyperNodes. It is read only.
type Tiers struct {
	tier map[string]int64
	// parents are the HyperNodes that have another as a member, sorted.
	parents map[string][]string
	// exact finds the HyperNodes that name a node; the others select nodes by name or label.
	exact    map[string][]string
	patterns []nodePattern
	levels   topology.Levels // widest tier first
	tiers    []int64         // of the levels
}

// nodePattern is a member that selects nodes.
type nodePattern struct {
	hyperNode string
	name      *regexp.Regexp // or
	labels    labels.Selector
}

// ReadTiers reads all HyperNodes. problems are those of invalid ones, by name; their valid members count.
func ReadTiers(objects []*unstructured.Unstructured) (*Tiers, map[string]error) {
	t := &Tiers{tier: map[string]int64{}, parents: map[string][]string{}, exact: map[string][]string{}}
	problems := map[string]error{}
	specs := map[string]hyperNode{}
	for _, o := range objects {
		spec, _, _ := unstructured.NestedMap(o.Object, "spec")
		var h hyperNode
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(spec, &h); err != nil {
			problems[o.GetName()] = fmt.Errorf("spec: %w", err)
			continue
		}
		if h.Tier < 0 {
			problems[o.GetName()] = fmt.Errorf("spec.tier: %d is negative", h.Tier)
			continue
		}
		specs[o.GetName()], t.tier[o.GetName()] = h, h.Tier
	}
	tierNames := map[int64]string{}
	for _, name := range slices.Sorted(maps.Keys(specs)) {
		h := specs[name]
		if tierNames[h.Tier] == "" {
			tierNames[h.Tier] = levelName(h.TierName)
		}
		if err := t.add(name, &h); err != nil {
			problems[name] = err
		}
	}
	t.tiers = slices.Sorted(maps.Keys(tierNames))
	slices.Reverse(t.tiers)
	for _, tier := range t.tiers {
		t.levels = append(t.levels, topology.Level{Name: cmp.Or(tierNames[tier], fmt.Sprintf("tier-%d", tier)), Label: tierLabel(tier)})
	}
	return t, problems
}

// add takes note of the members of a HyperNode; the error is that of the last invalid one.
func (t *Tiers) add(name string, h *hyperNode) (problem error) {
	for i, m := range h.Members {
		fail := func(format string, args ...any) {
			problem = fmt.Errorf("spec.members[%d]: %s", i, fmt.Sprintf(format, args...))
		}
		s := &m.Selector
		var pattern *regexp.Regexp
		if s.RegexMatch != nil {
			var err error
			if pattern, err = regexp.Compile(s.RegexMatch.Pattern); err != nil {
				fail("selector.regexMatch.pattern: %v", err)
				continue
			}
		}
		switch {
		case m.Type == "HyperNode" && (s.ExactMatch != nil || pattern != nil):
			for child, tier := range t.tier {
				if s.ExactMatch != nil && s.ExactMatch.Name != child || pattern != nil && !pattern.MatchString(child) {
					continue
				}
				switch {
				case tier < h.Tier:
					t.parents[child] = sortedWith(t.parents[child], name)
				case s.ExactMatch != nil:
					fail("HyperNode %q is of tier %d, which is not below %d", child, tier, h.Tier)
				}
			}
		case m.Type != "Node":
			fail("type %q with its selector selects nothing", m.Type)
		case s.ExactMatch != nil:
			t.exact[s.ExactMatch.Name] = sortedWith(t.exact[s.ExactMatch.Name], name)
		case pattern != nil:
			t.patterns = append(t.patterns, nodePattern{hyperNode: name, name: pattern})
		case s.LabelMatch != nil:
			selector, err := metav1.LabelSelectorAsSelector(s.LabelMatch)
			if err != nil {
				fail("selector.labelMatch: %v", err)
				continue
			}
			t.patterns = append(t.patterns, nodePattern{hyperNode: name, labels: selector})
		default:
			fail("selector: empty")
		}
	}
	return problem
}

// sortedWith is a sorted list with one more entry, once.
func sortedWith(list []string, entry string) []string {
	at, found := slices.BinarySearch(list, entry)
	if found {
		return list
	}
	return slices.Insert(list, at, entry)
}

// Levels are the tiers as levels of domains, the widest first.
func (t *Tiers) Levels() topology.Levels {
	if t == nil {
		return nil
	}
	return t.levels
}

// Of are a node's values for the labels of the tiers: in each tier the widest HyperNode of it or a
// lower one, so that a job that may span a tier may be in a group outside of it; of two in one tier
// the first by name. Cost: the members that select by pattern.
func (t *Tiers) Of(node *v1.Node) map[string]string {
	if t == nil || len(t.levels) == 0 {
		return nil
	}
	seen := map[string]bool{}
	var open []string
	visit := func(names []string) {
		for _, name := range names {
			if !seen[name] {
				seen[name] = true
				open = append(open, name)
			}
		}
	}
	visit(t.exact[node.Name])
	for _, p := range t.patterns {
		if p.name != nil && p.name.MatchString(node.Name) || p.labels != nil && p.labels.Matches(labels.Set(node.Labels)) {
			visit([]string{p.hyperNode})
		}
	}
	in := map[int64]string{}
	for len(open) > 0 {
		name := open[len(open)-1]
		open = open[:len(open)-1]
		if tier := t.tier[name]; in[tier] == "" || name < in[tier] {
			in[tier] = name
		}
		visit(t.parents[name])
	}
	out := map[string]string{}
	widest := ""
	for _, tier := range slices.Backward(t.tiers) { // lowest first
		if widest = cmp.Or(in[tier], widest); widest != "" {
			out[tierLabel(tier)] = widest
		}
	}
	return out
}
