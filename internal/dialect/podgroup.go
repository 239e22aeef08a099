package dialect

import (
	"fmt"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/tangram-dev/tangram/core/gang"
	"github.com/tangram-dev/tangram/core/model"
	"github.com/tangram-dev/tangram/core/topology"
)

// Group is what a PodGroup states about its gang.
type Group struct {
	// Min is how many members start together; 0 when each may start alone.
	Min      int
	MinTask  map[string]int
	Queue    string
	Priority string // a PriorityClass
	// Require is the level all members must share, when the group asks for one; Prefer
	// the level that they should.
	Require, Prefer model.Level
	// Subgroups are the gangs that this one is made of; empty for a plain gang. MinGroups
	// is how many of those directly below the gang it needs; 0: all. Min does not count
	// then.
	Subgroups []Subgroup
	MinGroups int
}

// Subgroup is a part of a gang that runs whole or not at all. Parent is empty for those
// directly below the gang. Min is how many members a leaf needs, at least 1; MinGroups how
// many of its subgroups an inner one needs, 0 for all.
type Subgroup = gang.Subgroup

// CheckSubgroups says what is wrong with a group's subgroups. words are the vocabulary's
// own names of the list ("") and of the fields name, parent, min and minGroups.
func (g *Group) CheckSubgroups(words map[string]string) error {
	err := gang.ValidateSubgroups(g.Subgroups, g.MinGroups)
	for i, s := range g.Subgroups {
		inner := slices.ContainsFunc(g.Subgroups, func(o Subgroup) bool { return o.Parent == s.Name })
		switch {
		case err != nil:
		case !inner && s.Min < 1:
			err = &gang.SubgroupError{Index: i, Field: "min", Problem: fmt.Sprintf("%d is below 1", s.Min)}
		case s.Min > maxGang:
			err = &gang.SubgroupError{Index: i, Field: "min", Problem: fmt.Sprintf("%d is above %d", s.Min, maxGang)}
		}
	}
	if err == nil {
		return nil
	}
	err.Words, err.List = words, words[""]
	return err
}

// GroupOf reads a PodGroup, Volcano's or Kubernetes' own, on a cluster with the given
// levels of domains. An error names the field.
func GroupOf(o *unstructured.Unstructured, levels topology.Levels) (Group, error) {
	if strings.HasPrefix(o.GetAPIVersion(), KubeGroups.Group+"/") {
		return kubeGroup(o, levels)
	}
	var err error
	spec := reader{o.Object, &err}
	g := Group{Min: 1, MinTask: map[string]int{}, Queue: spec.text("spec", "queue"), Priority: spec.text("spec", "priorityClassName")}
	if n, ok := spec.number("spec", "minMember"); ok {
		g.Min = int(max(1, min(n, maxGang)))
	}
	tasks, _, _ := unstructured.NestedMap(o.Object, "spec", "minTaskMember")
	for task := range tasks {
		if n, ok := spec.number("spec", "minTaskMember", task); ok {
			g.MinTask[task] = int(max(0, min(n, maxGang)))
		}
	}
	if name := spec.text("spec", "networkTopology", "highestTierName"); name != "" && spec.text("spec", "networkTopology", "mode") == "hard" {
		level, ok := levels.Find(name)
		if !ok {
			spec.note(fmt.Errorf("%q is not one of %s", name, strings.Join(levels.Names(), ", ")), []string{"spec", "networkTopology", "highestTierName"})
		}
		g.Require = level
	}
	return g, err
}

// kubeGroup reads a PodGroup of scheduling.k8s.io.
func kubeGroup(o *unstructured.Unstructured, levels topology.Levels) (Group, error) {
	var err error
	spec := reader{o.Object, &err}
	g := Group{Priority: spec.text("spec", "priorityClassName")}
	if n, ok := spec.number("spec", "schedulingPolicy", "gang", "minCount"); ok {
		g.Min = int(max(1, min(n, maxGang)))
	}
	constraints, _, _ := unstructured.NestedSlice(o.Object, "spec", "schedulingConstraints", "topology")
	for _, c := range constraints { // one at most
		constraint, _ := c.(map[string]any)
		label := reader{constraint, &err}.text("key")
		level, ok := levels.OfLabel(label)
		if label == v1.LabelHostname {
			level, ok = model.Level{Name: "node", Depth: model.NodeDepth}, true
		}
		if !ok {
			spec.note(fmt.Errorf("%q is not the label of a level of domains", label), []string{"spec", "schedulingConstraints", "topology", "key"})
		}
		g.Require = level
	}
	return g, err
}
