package dialect

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/tangram-dev/tangram/core/gang"
	"github.com/tangram-dev/tangram/core/model"
	"github.com/tangram-dev/tangram/core/topology"
)

// policy is an entry of Volcano's subGroupPolicy: pods by selector, cut into subgroups by the values of labels.
type policy struct {
	name            string
	selector        labels.Selector
	keys            []string
	size, least     int
	require, prefer model.Level
}

// volcanoPolicies reads subGroupPolicy: an entry is a subgroup, with those inside it that its pods'
// labels make (Group.WithLeaves). With an invalid one the gang has no subgroups: members that run go
// on.
func (g *Group) volcanoPolicies(spec reader, levels topology.Levels) {
	list := spec.listOf("subGroupPolicy", maxPolicies)
	sum, groups := 0, len(list)
	for i, r := range list {
		p := policy{name: cmp.Or(r.text("name"), fmt.Sprint(i)), size: r.count("subGroupSize", 1, 1), least: r.count("minSubGroups", 0, 0)}
		if strings.Contains(p.name, "/") {
			r.fail("name", "%q has a slash", p.name)
		}
		if slices.ContainsFunc(g.policies, func(o policy) bool { return o.name == p.name }) {
			r.fail("name", "%q is there twice", p.name)
		}
		if p.least == 0 && len(list) == 1 && g.Min%p.size == 0 {
			p.least = g.Min / p.size // the gang's own minimum says it
		}
		if p.least == 0 {
			r.fail("minSubGroups", "0: say how many subgroups start together, or one policy and a minMember that is a multiple of subGroupSize")
		}
		if p.least > maxPolicyGroups {
			r.fail("minSubGroups", "%d is above %d", p.least, maxPolicyGroups)
		}
		sum += p.least * p.size
		groups += p.least
		p.keys, _, _ = unstructured.NestedStringSlice(r.object, "matchLabelKeys")
		var selector metav1.LabelSelector
		if said := r.in("labelSelector").object; said != nil {
			r.note(runtime.DefaultUnstructuredConverter.FromUnstructured(said, &selector), "labelSelector")
		}
		var problem error
		p.selector, problem = metav1.LabelSelectorAsSelector(&selector)
		r.note(problem, "labelSelector")
		p.require, p.prefer = r.networkTopology(levels)
		g.policies = append(g.policies, p)
	}
	switch {
	case len(list) == 0:
	case groups > gang.MaxSubgroups:
		spec.fail("subGroupPolicy", "%d subgroups, at most %d", groups, gang.MaxSubgroups)
	case len(g.MinTask) > 0:
		spec.fail("minTaskMember", "not beside spec.subGroupPolicy")
	case g.Min > sum:
		spec.fail("minMember", "%d, but the subgroups that start together by spec.subGroupPolicy have %d members", g.Min, sum)
	}
	if spec.err() != nil {
		g.policies = nil
	}
}

// maxPolicies bounds the policies of a gang, maxPolicyGroups the subgroups of one.
const maxPolicies, maxPolicyGroups = 128, 512

// policyLeaf is the subgroup that a pod is in by its labels.
func (g *Group) policyLeaf(of map[string]string) (string, error) {
	for i, p := range g.policies {
		if !p.selector.Matches(labels.Set(of)) {
			continue
		}
		values := []string{p.name}
		for _, key := range p.keys {
			value, ok := of[key]
			if !ok {
				return "", fmt.Errorf("%s: missing, by which spec.subGroupPolicy[%d] of the PodGroup makes subgroups", label(key), i)
			}
			values = append(values, value)
		}
		if len(values) == 1 {
			values = append(values, "all")
		}
		return strings.Join(values, "/"), nil
	}
	return "", fmt.Errorf("metadata.labels: spec.subGroupPolicy of the PodGroup has no entry that selects the pod")
}

// WithLeaves is the group with the subgroups that its pods make (Leaf), and those of policies still waited for.
func (g *Group) WithLeaves(leaves []string) Group {
	out := *g
	for _, p := range g.policies {
		out.Subgroups = append(out.Subgroups, Subgroup{Name: p.name, MinGroups: p.least})
		have := 0
		for _, name := range leaves {
			if strings.HasPrefix(name, p.name+"/") {
				have++
				out.Subgroups = append(out.Subgroups, Subgroup{Name: name, Parent: p.name, Min: p.size, Require: p.require, Prefer: p.prefer})
			}
		}
		for ; have < p.least; have++ {
			name := fmt.Sprintf("%s/(%d)", p.name, have)
			out.Subgroups = append(out.Subgroups, Subgroup{Name: name, Parent: p.name, Min: p.size})
		}
	}
	return out
}

// HasSubgroups says whether the gang is made of subgroups.
func (g *Group) HasSubgroups() bool { return len(g.Subgroups)+len(g.policies) > 0 }
