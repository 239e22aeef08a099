package dialect

import (
	"fmt"
	"strings"
	"testing"

	"github.com/tangram-dev/tangram/api/names"
	"github.com/tangram-dev/tangram/core/model"
	"github.com/tangram-dev/tangram/core/topology"
)

// inWords is a group's subgroups, one after the other.
func inWords(g *Group) string {
	var out []string
	for _, s := range g.Subgroups {
		text := fmt.Sprintf("%s/%s min=%d groups=%d", s.Parent, s.Name, s.Min, s.MinGroups)
		if s.Require != (model.Level{}) {
			text += " required=" + s.Require.Name
		}
		if s.Prefer != (model.Level{}) {
			text += " preferred=" + s.Prefer.Name
		}
		out = append(out, text)
	}
	return fmt.Sprintf("%d of %s", g.MinGroups, strings.Join(out, ", "))
}

func TestGangGroups(t *testing.T) {
	for text, want := range map[string]string{
		"a: min=4": "0 of /a min=4 groups=0",
		" a  b :min=4 required=rack ; c: min=2 ;":                                "0 of /a min=4 groups=0 required=rack, /b min=4 groups=0 required=rack, /c min=2 groups=0",
		"*: groups=1; p: groups=1 required=zone; a b: in=p min=2 preferred=rack": "1 of /p min=0 groups=1 required=zone, p/a min=2 groups=0 preferred=rack, p/b min=2 groups=0 preferred=rack",
		"a:\n min=1;\nb: min=1 required=node":                                    "0 of /a min=1 groups=0, /b min=1 groups=0 required=node",
	} {
		g, err := GangGroups(text, topology.DefaultLevels())
		if err != nil || inWords(&g) != want {
			t.Errorf("%q: %s, %v, want %s", text, inWords(&g), err, want)
		}
	}
	for text, want := range map[string]string{
		";":                        "names no subgroups",
		"a":                        `"a" is not NAME: min=NUMBER`,
		": min=1":                  `": min=1" is not NAME: min=NUMBER`,
		"a: min=x":                 `"a: min=x": "min=x" is not a number from 1 to 100000`,
		"a: min=0":                 `"a: min=0": "min=0" is not a number from 1 to 100000`,
		"a: size=4":                `"a: size=4": "size=4" is not min=, groups=, in=, required= or preferred=`,
		"a: required=row min=1":    `"a: required=row min=1": "required=row": "row" is not one of zone, block, rack, clique, node, numa, phb, pxb, pix, nvlink, nvswitch`,
		"a: required=nvlink min=1": `"a: required=nvlink min=1": "required=nvlink": a word for devices of one node; a subgroup shares node, zone, block, rack, clique`,
		"a: in=b":                  `in of subgroup "a": there is no subgroup "b"`,
		"a: in=b; b: in=a":         `in of subgroup "a": "b" is inside "a" itself`,
		"a a: min=1":               `name of subgroup "a": "a" is also the name of [0]`,
		"a: min=1; b: in=a min=1":  `min of subgroup "a": 1 members, but the subgroup has subgroups of its own, and members are in those`,
		"a: groups=1 min=1":        `groups of subgroup "a": 1, but the subgroup has no subgroups`,
		"a: required=rack":         `min of subgroup "a": 0 is below 1`,
		"*: groups=2; a: min=1":    "2, but there are only 1",
		"*: min=2; a: min=1":       `"*: min=2": * is the gang itself, of which groups=NUMBER is said here`,
		strings.Repeat("x", 1<<17): "longer than 65536 bytes",
	} {
		if _, err := GangGroups(text, topology.DefaultLevels()); err == nil || err.Error() != "metadata.annotations[tangram.dev/gang-groups]: "+want {
			t.Errorf("%q: %v, want %s", text[:min(len(text), 40)], err, want)
		}
	}
}

// A pod names its subgroup, and is told what is missing.
func TestSubgroupOfPod(t *testing.T) {
	const groups = "a b: min=2"
	for _, tt := range []struct {
		labels, annotations pairs
		subgroup, want      string
	}{
		{pairs{names.LabelGang: "g", names.LabelGangGroup: "a"}, pairs{names.AnnotationGangGroups: groups}, "a", ""},
		{pairs{names.LabelGang: "g", names.LabelGangGroup: "a"}, nil, "", `metadata.annotations[tangram.dev/gang-groups]: missing, which subgroups gang "g" has`},
		{pairs{names.LabelGang: "g"}, pairs{names.AnnotationGangGroups: groups}, "", "metadata.labels[tangram.dev/gang-group]: missing, which of the gang's subgroups the pod is in"},
		{pairs{names.LabelGang: "g", names.LabelGangGroup: "a", names.LabelGangSize: "4"}, pairs{names.AnnotationGangGroups: groups}, "",
			"metadata.labels[tangram.dev/gang-size]: 4, but metadata.annotations[tangram.dev/gang-groups] says how many members each subgroup has"},
		{pairs{names.LabelGangGroup: "a"}, nil, "", `metadata.labels[tangram.dev/gang-group]: "a", but the pod is in no gang: neither metadata.labels[tangram.dev/gang] nor a PodGroup says so`},
		{nil, pairs{names.AnnotationGangGroups: groups}, "", "metadata.annotations[tangram.dev/gang-groups]: counts for pods with metadata.labels[tangram.dev/gang], or on the pod's PodGroup"},
		{pairs{names.LabelGangGroup: "a"}, pairs{names.AnnotationKubeGroup: "pg"}, "a", ""},
	} {
		m, err := MembershipOf(podWith(tt.labels, tt.annotations, nil))
		switch {
		case err == nil && (tt.want != "" || m.Subgroup != tt.subgroup):
			t.Errorf("%v: in %q, want %q %s", tt.labels, m.Subgroup, tt.subgroup, tt.want)
		case err != nil && err.Error() != tt.want:
			t.Errorf("%v: %v, want %s", tt.labels, err, tt.want)
		}
	}
}

// What PodGroups of others say of subgroups.
func TestGroupsOfOthers(t *testing.T) {
	for _, tt := range []struct{ object, want, wrong string }{
		{`{apiVersion: scheduling.volcano.sh/v1beta1, kind: PodGroup, metadata: {annotations: {tangram.dev/gang-groups: "a b: min=2 required=rack"}}, spec: {minMember: 4}}`,
			"0 of /a min=2 groups=0 required=rack, /b min=2 groups=0 required=rack", ""},
		{`{apiVersion: scheduling.k8s.io/v1alpha2, kind: PodGroup, metadata: {annotations: {tangram.dev/gang-groups: "a: min=2"}}, spec: {}}`, "0 of /a min=2 groups=0", ""},
		{`{apiVersion: scheduling.volcano.sh/v1beta1, kind: PodGroup, metadata: {annotations: {tangram.dev/gang-groups: "a: min=2"}}, spec: {minTaskMember: {a: 1}}}`,
			"", "metadata.annotations[tangram.dev/gang-groups]: not beside subgroups or minimums of tasks in spec"},
		{`{apiVersion: scheduler.grove.io/v1alpha1, kind: PodGang, spec: {topologyConstraint: {packConstraint: {required: topology.kubernetes.io/zone}},
			topologyConstraintGroupConfigs: [{name: replica-0, podGroupNames: [d], topologyConstraint: {packConstraint: {required: topology.kubernetes.io/rack, preferred: kubernetes.io/hostname}}}],
			podgroups: [{name: p, minReplicas: 2, topologyConstraint: {packConstraint: {preferred: topology.kubernetes.io/rack}}}, {name: d, minReplicas: 4}]}}`,
			"0 of /topology/replica-0 min=0 groups=0 required=rack preferred=node, /p min=2 groups=0 preferred=rack, topology/replica-0/d min=4 groups=0", ""},
		{`{apiVersion: scheduler.grove.io/v1alpha1, kind: PodGang, spec: {podgroups: [{name: p, minReplicas: 0}]}}`, "", "spec.podgroups[0].minReplicas: 0 is below 1"},
		{`{apiVersion: scheduler.grove.io/v1alpha1, kind: PodGang, spec: {podgroups: [{name: p, minReplicas: 1, topologyConstraint: {packConstraint: {required: nowhere}}}]}}`,
			"", `spec.podgroups[0].topologyConstraint.packConstraint.required: `},
		{`{apiVersion: scheduling.volcano.sh/v1beta1, kind: PodGroup, spec: {minMember: 8, subGroupPolicy: [{name: p, subGroupSize: 4, matchLabelKeys: [x]}]}}`,
			"0 of /p min=0 groups=2, p/p/1 min=4 groups=0, p/p/(1) min=4 groups=0", ""},
		{`{apiVersion: scheduling.volcano.sh/v1beta1, kind: PodGroup, spec: {minMember: 6, subGroupPolicy: [
			{name: p, subGroupSize: 4, minSubGroups: 1, matchLabelKeys: [x], networkTopology: {mode: hard, highestTierName: rack}},
			{name: d, subGroupSize: 2, minSubGroups: 1, labelSelector: {matchLabels: {y: z}}}]}}`,
			"0 of /p min=0 groups=1, p/p/1 min=4 groups=0 required=rack, /d min=0 groups=1, d/d/(0) min=2 groups=0", ""},
		{`{apiVersion: scheduling.volcano.sh/v1beta1, kind: PodGroup, spec: {minMember: 7, subGroupPolicy: [{name: p, subGroupSize: 4, matchLabelKeys: [x]}]}}`,
			"", "spec.subGroupPolicy[0].minSubGroups: 0: say how many subgroups start together, or one policy and a minMember that is a multiple of subGroupSize"},
		{`{apiVersion: scheduling.volcano.sh/v1beta1, kind: PodGroup, spec: {minMember: 9, subGroupPolicy: [{name: p, subGroupSize: 4, minSubGroups: 2, matchLabelKeys: [x]}]}}`,
			"", "spec.minMember: 9, but the subgroups that start together by spec.subGroupPolicy have 8 members"},
		{`{apiVersion: scheduling.volcano.sh/v1beta1, kind: PodGroup, spec: {minTaskMember: {a: 1}, subGroupPolicy: [{name: p, minSubGroups: 1}]}}`,
			"", "spec.minTaskMember: not beside spec.subGroupPolicy"},
	} {
		g, err := GroupOf(parsed(t, tt.object), topology.DefaultLevels())
		switch {
		case tt.wrong != "" && (err == nil || !strings.HasPrefix(err.Error(), tt.wrong)):
			t.Errorf("%s: %v, want %s", tt.object, err, tt.wrong)
		case tt.wrong == "" && err != nil:
			t.Errorf("%s: %v", tt.object, err)
		case tt.wrong == "":
			var leaves []string
			if len(g.policies) > 0 {
				leaf, err := g.Leaf(&Membership{}, map[string]string{"x": "1"})
				if err != nil {
					t.Error(err)
				}
				leaves = append(leaves, leaf)
			}
			g = g.WithLeaves(leaves)
			if got := inWords(&g); got != tt.want {
				t.Errorf("%s, want %s", got, tt.want)
			}
			if err := g.CheckSubgroups(nil); err != nil {
				t.Error(err)
			}
		}
	}
}

// Lists that are too long are not read, and what is made of an object that is wrong has no
// subgroups: its members that run are looked at again and again.
func TestGroupsBounded(t *testing.T) {
	many := func(entry string, n int) string { return "[" + strings.Repeat(entry+", ", n) + entry + "]" }
	for object, want := range map[string]string{
		`{apiVersion: scheduling.volcano.sh/v1beta1, kind: PodGroup, spec: {subGroupPolicy: ` + many("{minSubGroups: 512}", 128) + `}}`:     "spec.subGroupPolicy: 129 entries, at most 128",
		`{apiVersion: scheduling.volcano.sh/v1beta1, kind: PodGroup, spec: {subGroupPolicy: ` + many("{minSubGroups: 512}", 2) + `}}`:       "spec.subGroupPolicy: 1539 subgroups, at most 1024",
		`{apiVersion: scheduling.volcano.sh/v1beta1, kind: PodGroup, spec: {subGroupPolicy: [{minSubGroups: 513}]}}`:                        "spec.subGroupPolicy[0].minSubGroups: 513 is above 512",
		`{apiVersion: scheduling.run.ai/v2alpha2, kind: PodGroup, spec: {subGroups: ` + many("{name: a}", 1024) + `}}`:                      "spec.subGroups: 1025 entries, at most 1024",
		`{apiVersion: scheduler.grove.io/v1alpha1, kind: PodGang, spec: {podgroups: ` + many("{name: a}", 1024) + `}}`:                      "spec.podgroups: 1025 entries, at most 1024",
		`{apiVersion: scheduler.grove.io/v1alpha1, kind: PodGang, spec: {topologyConstraintGroupConfigs: ` + many("{name: a}", 1024) + `}}`: "spec.topologyConstraintGroupConfigs: 1025 entries, at most 1024",
	} {
		g, err := GroupOf(parsed(t, object), topology.DefaultLevels())
		if err == nil || err.Error() != want {
			t.Errorf("%v, want %s", err, want)
		}
		if g.HasSubgroups() {
			t.Errorf("%s: %d subgroups, %d policies", want, len(g.Subgroups), len(g.policies))
		}
	}
}

// FuzzGangGroups: whatever the annotation says, what is read is valid.
func FuzzGangGroups(f *testing.F) {
	for _, text := range []string{"a b: min=2 required=rack; *: groups=1", "p: groups=1; a: in=p min=3 preferred=zone", "a:;;:", "a: in=a"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		g, err := GangGroups(text, topology.DefaultLevels())
		if err == nil && (len(g.Subgroups) == 0 || g.CheckSubgroups(nil) != nil) {
			t.Errorf("%q: %s", text, inWords(&g))
		}
		_, _ = g.Leaf(&Membership{Subgroup: text}, nil)
	})
}
