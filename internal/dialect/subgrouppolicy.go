package dialect

import (
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

// policy is an entry of Volcano's subGroupPolicy: the pods that match its selector, cut into
// subgroups of so many by the values of some labels.
type policy struct {
	name            string
	selector        labels.Selector
	keys            []string
	size, least     int
	require, prefer model.Level
}

// volcanoPolicies reads subGroupPolicy. An entry is a subgroup of the gang, and the
// subgroups that its pods' labels make are inside it: which there are, the pods say
// (Group.WithLeaves).
func (g *Group) volcanoPolicies(o *unstructured.Unstructured, levels topology.Levels) (err error) {
	defer func() {
		if err != nil { // members that run go on as those of a gang without subgroups
			g.policies = nil
		}
	}()
	if err := fewer(o, maxPolicies, "subGroupPolicy"); err != nil {
		return err
	}
	list, _, _ := unstructured.NestedSlice(o.Object, "spec", "subGroupPolicy")
	sum, groups := 0, len(list)
	for i, entry := range list {
		object, _ := entry.(map[string]any)
		name := fmt.Sprintf("subGroupPolicy[%d]", i)
		r := reader{map[string]any{"spec": map[string]any{name: object}}, &err}
		at := func(field string) []string { return []string{"spec", name, field} }
		p := policy{name: r.text(at("name")...), size: 1}
		if p.name == "" {
			p.name = fmt.Sprint(i)
		}
		if strings.Contains(p.name, "/") {
			r.note(fmt.Errorf("%q has a slash", p.name), at("name"))
		}
		if slices.ContainsFunc(g.policies, func(o policy) bool { return o.name == p.name }) {
			r.note(fmt.Errorf("%q is there twice", p.name), at("name"))
		}
		if n, ok := r.number(at("subGroupSize")...); ok {
			p.size = int(max(1, min(n, maxGang)))
		}
		if n, ok := r.number(at("minSubGroups")...); ok {
			p.least = int(max(0, min(n, maxGang)))
		}
		if p.least == 0 && len(list) == 1 && g.Min%p.size == 0 {
			p.least = g.Min / p.size // the gang's own minimum says it
		}
		if p.least == 0 {
			r.note(fmt.Errorf("0: say how many subgroups start together, or one policy and a minMember that is a multiple of subGroupSize"), at("minSubGroups"))
		}
		if p.least > maxPolicyGroups {
			r.note(fmt.Errorf("%d is above %d", p.least, maxPolicyGroups), at("minSubGroups"))
		}
		sum += p.least * p.size
		groups += p.least
		p.keys, _, _ = unstructured.NestedStringSlice(r.object, at("matchLabelKeys")...)
		var selector metav1.LabelSelector
		if said, ok, _ := unstructured.NestedMap(r.object, at("labelSelector")...); ok {
			r.note(runtime.DefaultUnstructuredConverter.FromUnstructured(said, &selector), at("labelSelector"))
		}
		var problem error
		p.selector, problem = metav1.LabelSelectorAsSelector(&selector)
		r.note(problem, at("labelSelector"))
		if _, ok, _ := unstructured.NestedMap(r.object, at("networkTopology")...); ok {
			p.require, p.prefer = r.networkTopology(levels, at("networkTopology")...)
		}
		g.policies = append(g.policies, p)
	}
	spec := reader{o.Object, &err}
	switch {
	case len(list) == 0:
	case groups > gang.MaxSubgroups:
		spec.note(fmt.Errorf("%d subgroups, at most %d", groups, gang.MaxSubgroups), []string{"spec", "subGroupPolicy"})
	case len(g.MinTask) > 0:
		spec.note(fmt.Errorf("not beside spec.subGroupPolicy"), []string{"spec", "minTaskMember"})
	case g.Min > sum:
		spec.note(fmt.Errorf("%d, but the subgroups that start together by spec.subGroupPolicy have %d members", g.Min, sum), []string{"spec", "minMember"})
	}
	return err
}

// maxPolicies bounds the policies of a gang, maxPolicyGroups the subgroups of one.
const maxPolicies, maxPolicyGroups = 128, 512

// fewer says whether a list of an object's spec is longer than it may be, before its entries
// are read. The error names the field.
func fewer(o *unstructured.Unstructured, most int, field string) error {
	value, _, _ := unstructured.NestedFieldNoCopy(o.Object, "spec", field)
	if list, _ := value.([]any); len(list) > most {
		return fmt.Errorf("spec.%s: %d entries, at most %d", field, len(list), most)
	}
	return nil
}

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

// WithLeaves is the group with the subgroups that its pods make, as Leaf names them.
// Subgroups of a policy that no pod is in yet are waited for.
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
