package dialect

import (
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/tangram-dev/tangram/api/names"
	"github.com/tangram-dev/tangram/core/model"
	"github.com/tangram-dev/tangram/core/topology"
)

// tiered are the default levels with three tiers of HyperNodes.
func tiered() topology.Levels {
	return append(topology.DefaultLevels(),
		topology.Level{Name: "tier-3", Label: tierLabel(3)}, topology.Level{Name: "leaf-switch", Label: tierLabel(1)})
}

// TestTopologyWords: levels that annotations of Kueue, KAI and Volcano name, and the field
// of what cannot be kept.
func TestTopologyWords(t *testing.T) {
	for name, tt := range map[string]struct {
		annotations     pairs
		selector        pairs
		require, prefer string
		want            string
	}{
		"Kueue requires":         {annotations: pairs{kueueRequired: "topology.kubernetes.io/rack"}, require: "rack"},
		"Kueue prefers":          {annotations: pairs{kueuePreferred: "topology.kubernetes.io/zone"}, prefer: "zone"},
		"Kueue, hosts":           {annotations: pairs{kueueRequired: v1.LabelHostname}, require: "node"},
		"Kueue, unconstrained":   {annotations: pairs{"kueue.x-k8s.io/podset-unconstrained-topology": "true"}},
		"Kueue, unknown":         {annotations: pairs{kueueRequired: "example.com/row"}, want: "metadata.annotations[" + kueueRequired + `]: "example.com/row" is not the label of a level`},
		"Kueue, assigned":        {annotations: pairs{kueueRequired: "example.com/row"}, selector: pairs{v1.LabelHostname: "n"}},
		"Kueue, slices":          {annotations: pairs{kueueSlice: "topology.kubernetes.io/rack"}, want: "metadata.annotations[" + kueueSlice + "]"},
		"Kueue, slices assigned": {annotations: pairs{kueueSlice: "topology.kubernetes.io/rack"}, selector: pairs{v1.LabelHostname: "n"}},

		"KAI both":    {annotations: pairs{kaiTopologyName: "t", kaiRequired: "topology.kubernetes.io/zone", kaiPreferred: "topology.kubernetes.io/rack"}, require: "zone", prefer: "rack"},
		"KAI, name":   {annotations: pairs{kaiRequired: "rack"}, require: "rack"},
		"KAI unknown": {annotations: pairs{kaiPreferred: "row"}, want: "metadata.annotations[" + kaiPreferred + `]: "row"`},

		"Volcano tier":      {annotations: pairs{volcanoTopologyMode: "hard", volcanoTopologyTier: "1"}, require: "leaf-switch"},
		"Volcano soft":      {annotations: pairs{volcanoTopologyMode: "soft", volcanoTopologyTier: "2"}, prefer: "leaf-switch"},
		"Volcano mode":      {annotations: pairs{volcanoTopologyMode: "firm"}, want: "metadata.annotations[" + volcanoTopologyMode + "]"},
		"Volcano number":    {annotations: pairs{volcanoTopologyTier: "one"}, want: "metadata.annotations[" + volcanoTopologyTier + "]"},
		"Volcano below":     {annotations: pairs{volcanoTopologyTier: "0"}, want: "metadata.annotations[" + volcanoTopologyTier + "]: 0 is below the lowest tier"},
		"Volcano above all": {annotations: pairs{volcanoTopologyTier: "9"}},

		"own word first": {annotations: pairs{names.AnnotationTopology: "required=rack", kueueRequired: "topology.kubernetes.io/zone"}, require: "rack"},
		"two words":      {annotations: pairs{kaiRequired: "topology.kubernetes.io/rack", kueueRequired: "topology.kubernetes.io/zone"}, want: "another annotation says zone"},
	} {
		t.Run(name, func(t *testing.T) {
			p := podWith(nil, tt.annotations, nil)
			p.Spec.NodeSelector = tt.selector
			p.Spec.Containers = []v1.Container{{Name: "c", Resources: v1.ResourceRequirements{Requests: v1.ResourceList{names.ResourceNVIDIA: resource.MustParse("1")}}}}
			r, err := RequestOn(p, tiered())
			switch {
			case tt.want != "":
				if err == nil || !strings.Contains(err.Error(), tt.want) {
					t.Errorf("got %v, want %s", err, tt.want)
				}
			case err != nil:
				t.Error(err)
			case r.Require.Level.Name != tt.require || r.Prefer.Level.Name != tt.prefer:
				t.Errorf("got %s and %s", r.Require.Level.Name, r.Prefer.Level.Name)
			}
		})
	}
}

// TestNetworkTopology: Volcano's PodGroups with tiers, with and without HyperNodes.
func TestNetworkTopology(t *testing.T) {
	for spec, tt := range map[string]struct {
		levels          topology.Levels
		require, prefer string
		want            string
	}{
		`{mode: hard, highestTierAllowed: 1}`:            {tiered(), "leaf-switch", "", ""},
		`{highestTierAllowed: 2}`:                        {tiered(), "leaf-switch", "", ""},
		`{highestTierAllowed: 3}`:                        {tiered(), "tier-3", "", ""},
		`{highestTierAllowed: 4}`:                        {tiered(), "", "", ""},
		`{mode: soft, highestTierAllowed: 1}`:            {tiered(), "", "leaf-switch", ""},
		`{highestTierName: Leaf Switch}`:                 {tiered(), "leaf-switch", "", ""},
		`{mode: hard}`:                                   {tiered(), "", "", ""},
		`{mode: hard, highestTierAllowed: 0}`:            {tiered(), "", "", "spec.networkTopology.highestTierAllowed: 0 is below the lowest tier of the cluster's HyperNodes, 1"},
		`{mode: hard, highestTierAllowed: 5}`:            {nil, "", "", "spec.networkTopology.highestTierAllowed: 5, but the cluster has no HyperNodes"},
		`{mode: soft, highestTierAllowed: 5}`:            {nil, "", "", ""},
		`{mode: firm}`:                                   {nil, "", "", `spec.networkTopology.mode: "firm"`},
		`{highestTierName: row}`:                         {nil, "", "", `spec.networkTopology.highestTierName: "row" is not one of zone`},
		`{highestTierName: rack, highestTierAllowed: 1}`: {tiered(), "", "", "spec.networkTopology.highestTierName: given beside highestTierAllowed"},
	} {
		levels := tt.levels
		if levels == nil {
			levels = topology.DefaultLevels()
		}
		g, err := GroupOf(parsed(t, `spec: {minMember: 2, networkTopology: `+spec+`}`), levels)
		switch {
		case tt.want != "":
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("%s: got %v, want %s", spec, err, tt.want)
			}
		case err != nil || g.Require.Name != tt.require || g.Prefer.Name != tt.prefer:
			t.Errorf("%s: got %s and %s, %v", spec, g.Require.Name, g.Prefer.Name, err)
		}
	}
}

// TestHyperNodes: the tree of tiers, members by name, pattern and label, gaps and faults.
func TestHyperNodes(t *testing.T) {
	objects := func(texts ...string) (out []*unstructured.Unstructured) {
		for _, text := range texts {
			out = append(out, parsed(t, text))
		}
		return out
	}
	tiers, problems := ReadTiers(objects(
		`{metadata: {name: s0}, spec: {tier: 1, members: [{type: Node, selector: {exactMatch: {name: n0}}}, {type: Node, selector: {exactMatch: {name: n1}}}]}}`,
		`{metadata: {name: s1}, spec: {tier: 1, tierName: Leaf, members: [{type: Node, selector: {regexMatch: {pattern: "^n[23]$"}}}]}}`,
		`{metadata: {name: s2}, spec: {tier: 1, members: [{type: Node, selector: {labelMatch: {matchLabels: {row: c}}}}]}}`,
		`{metadata: {name: spine}, spec: {tier: 2, members: [{type: HyperNode, selector: {regexMatch: {pattern: "^s[01]$"}}}]}}`,
		`{metadata: {name: bad}, spec: {tier: 1, members: [{type: Node, selector: {regexMatch: {pattern: "("}}}]}}`,
		`{metadata: {name: loop}, spec: {tier: 1, members: [{type: HyperNode, selector: {exactMatch: {name: spine}}}]}}`,
		`{metadata: {name: none}, spec: {tier: 1, members: [{type: Node, selector: {}}]}}`,
		`{metadata: {name: minus}, spec: {tier: -1}}`,
		`{metadata: {name: text}, spec: {tier: one}}`,
	))
	if got := strings.Join(tiers.Levels().Names(), ","); got != "tier-2,leaf" {
		t.Errorf("levels %s", got)
	}
	for name, field := range map[string]string{
		"bad": "spec.members[0]: selector.regexMatch.pattern", "loop": `spec.members[0]: HyperNode "spine" is of tier 2`, "none": "spec.members[0]: selector: empty", "minus": "spec.tier: -1", "text": "spec",
	} {
		if err := problems[name]; err == nil || !strings.Contains(err.Error(), field) {
			t.Errorf("%s: got %v, want %s", name, err, field)
		}
	}
	if len(problems) != 5 {
		t.Errorf("problems: %v", problems)
	}
	of := func(name string, labels pairs) string {
		values := tiers.Of(&v1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels}})
		return values[tierLabel(2)] + "/" + values[tierLabel(1)]
	}
	for name, want := range map[string]string{"n0": "spine/s0", "n1": "spine/s0", "n3": "spine/s1", "n9": "/"} {
		if got := of(name, nil); got != want {
			t.Errorf("%s is in %s, want %s", name, got, want)
		}
	}
	// s2 is in no HyperNode of tier 2: what may span that tier may be in s2 all the same.
	if got := of("m", pairs{"row": "c", tierLabel(1): "forged"}); got != "s2/s2" {
		t.Errorf("got %s", got)
	}
	f := Facts{Tiers: tiers, Levels: topology.Levels{{Name: "tier-2", Label: tierLabel(2)}, {Name: "row", Label: "row"}, {Name: "leaf", Label: tierLabel(1)}}}
	n, err := Describe(&v1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n0", Labels: pairs{"row": "a", tierLabel(1): "forged"}}}, f)
	if err != nil || strings.Join(n.Domains, "/") != "spine/a/s0" {
		t.Errorf("got %v, %v", n.Domains, err)
	}
	if (*Tiers)(nil).Of(&v1.Node{}) != nil || (*Tiers)(nil).Levels() != nil {
		t.Error("no HyperNodes are some")
	}
}

// TestTopologyLevels: levels of KAI's and Kueue's Topology objects.
func TestTopologyLevels(t *testing.T) {
	ls, err := TopologyLevels(parsed(t, `spec: {levels: [{nodeLabel: cloud.provider.com/topology-block, alias: Block}, {nodeLabel: cloud.provider.com/topology-rack}, {nodeLabel: kubernetes.io/hostname}]}`))
	if err != nil || len(ls) != 2 || ls[0].Name != "block" || ls[1].Name != "topology-rack" || ls[1].Label != "cloud.provider.com/topology-rack" {
		t.Errorf("got %v, %v", ls, err)
	}
	if level, err := levelCalled(ls, "Block"); err != nil || level.Depth != 0 {
		t.Errorf("by alias: %v, %v", level, err)
	}
	for _, word := range []string{"example.com/block", "other.provider.com/topology-rack"} {
		if level, err := levelCalled(ls, word); err == nil {
			t.Errorf("%s is taken for %v", word, level)
		}
	}
	if level, err := levelCalled(ls, v1.LabelHostname); err != nil || level.Depth != model.NodeDepth {
		t.Errorf("hosts: %v, %v", level, err)
	}
	if _, err := TopologyLevels(parsed(t, `spec: {levels: [{nodeLabel: a/b}, {}]}`)); err == nil || !strings.Contains(err.Error(), "spec.levels[1].nodeLabel") {
		t.Errorf("got %v", err)
	}
}
