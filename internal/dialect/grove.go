package dialect

import (
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/tangram-dev/tangram/core/gang"
	"github.com/tangram-dev/tangram/core/model"
	"github.com/tangram-dev/tangram/core/topology"
)

// GroveGangs are the PodGangs that Grove makes for its PodCliqueSets.
var GroveGangs = schema.GroupVersionResource{Group: "scheduler.grove.io", Version: "v1alpha1", Resource: "podgangs"}

// Labels of Grove's pods: the PodGang, and the PodClique, which is a pod group of it.
const (
	groveGang   = "grove.io/podgang"
	groveClique = "grove.io/podclique"
)

var groveGangs = OwnerKind{
	Kind: "PodGang", Resource: GroveGangs, Label: groveGang, group: true, field: label(groveGang), size: groupSize,
	find: func(pod *v1.Pod) (Owned, bool) {
		o, ok := labelledWith(groveGang, "grove/")(pod)
		o.Subgroup = pod.Labels[groveClique]
		return o, ok
	},
}

// groveGroup reads a PodGang: its pod groups are leaves, of which all are needed; those that
// share a topology constraint are inside a subgroup that stands for it.
func groveGroup(o *unstructured.Unstructured, levels topology.Levels) (Group, error) {
	spec := readerOf(o).in("spec")
	g := Group{Min: 1, Priority: spec.text("priorityClassName")}
	g.Require, g.Prefer = spec.packConstraint(levels)
	parents, least := map[string]string{}, 0
	for _, r := range spec.listOf("topologyConstraintGroupConfigs", gang.MaxSubgroups) {
		s := Subgroup{Name: "topology/" + r.text("name")}
		s.Require, s.Prefer = r.packConstraint(levels)
		members, _, _ := unstructured.NestedStringSlice(r.object, "podGroupNames")
		for _, name := range members {
			if other, twice := parents[name]; twice {
				r.fail("podGroupNames", "pod group %q is also in %s", name, other)
			}
			parents[name] = s.Name
		}
		if len(members) > 0 {
			g.Subgroups = append(g.Subgroups, s)
		}
	}
	for _, r := range spec.listOf("podgroups", gang.MaxSubgroups) {
		s := Subgroup{Name: r.text("name"), Min: 1}
		s.Parent = parents[s.Name]
		if n, ok := r.number("minReplicas"); ok {
			s.Min = int(max(0, min(n, maxGang+1)))
		}
		s.Require, s.Prefer = r.packConstraint(levels)
		g.Subgroups = append(g.Subgroups, s)
		least += s.Min
	}
	g.Min = max(1, min(least, maxGang))
	if spec.err() != nil {
		return g, spec.err()
	}
	return g, g.CheckSubgroups(map[string]string{"": "spec.podgroups", "min": "minReplicas"})
}

// packConstraint reads Grove's topologyConstraint by labels of nodes. A preferred level may be unknown.
func (r reader) packConstraint(levels topology.Levels) (require, prefer model.Level) {
	return r.level(levels, "topologyConstraint.packConstraint.required", true), r.level(levels, "topologyConstraint.packConstraint.preferred", false)
}
