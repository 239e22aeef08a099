package dialect

import (
	"fmt"

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
		name := pod.Labels[groveGang]
		return Owned{Name: name, Gang: "grove/" + pod.Namespace + "/" + name, Subgroup: pod.Labels[groveClique]}, name != ""
	},
}

// groveGroup reads a PodGang: its pod groups are leaves, of which all are needed; those that
// share a topology constraint are inside a subgroup that stands for it.
func groveGroup(o *unstructured.Unstructured, levels topology.Levels) (Group, error) {
	var err error
	spec := reader{o.Object, &err}
	g := Group{Min: 1, Priority: spec.text("spec", "priorityClassName")}
	g.Require, g.Prefer = spec.packConstraint(levels, "spec", "topologyConstraint")
	for _, list := range []string{"topologyConstraintGroupConfigs", "podgroups"} {
		if long := fewer(o, gang.MaxSubgroups, list); long != nil {
			return g, long
		}
	}
	parents, least := map[string]string{}, 0
	each := func(list string, do func(r reader, at func(fields ...string) []string)) {
		entries, _, _ := unstructured.NestedSlice(o.Object, "spec", list)
		for i, entry := range entries {
			object, _ := entry.(map[string]any)
			name := fmt.Sprintf("%s[%d]", list, i)
			do(reader{map[string]any{"spec": map[string]any{name: object}}, &err}, func(fields ...string) []string {
				return append([]string{"spec", name}, fields...)
			})
		}
	}
	each("topologyConstraintGroupConfigs", func(r reader, at func(...string) []string) {
		s := Subgroup{Name: "topology/" + r.text(at("name")...)}
		s.Require, s.Prefer = r.packConstraint(levels, at("topologyConstraint")...)
		members, _, _ := unstructured.NestedStringSlice(r.object, at("podGroupNames")...)
		for _, name := range members {
			if other, twice := parents[name]; twice {
				r.note(fmt.Errorf("pod group %q is also in %s", name, other), at("podGroupNames"))
			}
			parents[name] = s.Name
		}
		if len(members) > 0 {
			g.Subgroups = append(g.Subgroups, s)
		}
	})
	each("podgroups", func(r reader, at func(...string) []string) {
		s := Subgroup{Name: r.text(at("name")...), Min: 1}
		s.Parent = parents[s.Name]
		if n, ok := r.number(at("minReplicas")...); ok {
			s.Min = int(max(0, min(n, maxGang+1)))
		}
		s.Require, s.Prefer = r.packConstraint(levels, at("topologyConstraint")...)
		g.Subgroups = append(g.Subgroups, s)
		least += s.Min
	})
	g.Min = max(1, min(least, maxGang))
	if err == nil {
		err = g.CheckSubgroups(map[string]string{"": "spec.podgroups", "min": "minReplicas"})
	}
	return g, err
}

// packConstraint reads Grove's topologyConstraint, whose levels are labels of nodes.
func (r reader) packConstraint(levels topology.Levels, path ...string) (require, prefer model.Level) {
	for _, x := range []struct {
		field string
		into  *model.Level
	}{{"required", &require}, {"preferred", &prefer}} {
		at := append(append([]string{}, path...), "packConstraint", x.field)
		word := r.text(at...)
		if word == "" {
			continue
		}
		level, err := levelCalled(levels, word)
		if x.field == "required" { // a wish for what is unknown is met as well as any
			r.note(err, at)
		}
		*x.into = level
	}
	return require, prefer
}
