package dialect

import (
	"fmt"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/tangram-dev/tangram/api/names"
	"github.com/tangram-dev/tangram/core/model"
	"github.com/tangram-dev/tangram/core/topology"
)

// Group is what a PodGroup states about its gang, or a controller that has fields for it.
type Group struct {
	// Min is how many members start together; 0 when each may start alone.
	Min      int
	MinTask  map[string]int
	Queue    string
	Priority string // a PriorityClass
	// Require is the level that all members must share, Prefer the one that they should.
	Require, Prefer model.Level
	// Subgroups are the gangs that this one is made of; empty for a plain gang. MinGroups is how many
	// of the topmost it needs, 0 for all; then Min does not count.
	Subgroups []Subgroup
	MinGroups int
	// Preemptible says whether others may take the gang's place; nil: the group says
	// nothing. PreemptionDelay is how long it waits before others are evicted for it.
	Preemptible     *bool
	PreemptionDelay time.Duration

	policies []policy
}

// GroupOf reads a PodGroup, Volcano's, KAI's, Grove's or Kubernetes' own, or a controller
// that States as much, on a cluster with the given levels of domains. An error names the field.
func GroupOf(o *unstructured.Unstructured, levels topology.Levels) (Group, error) {
	if k := kindOfObject(o); k.says != nil {
		return k.says(o)
	}
	return podGroup(o, levels)
}

// podGroup reads a PodGroup of any kind.
func podGroup(o *unstructured.Unstructured, levels topology.Levels) (Group, error) {
	g, err := podGroupOf(o, levels)
	text := o.GetAnnotations()[names.AnnotationGangGroups]
	if text == "" || err != nil {
		return g, err
	}
	if g.HasSubgroups() || len(g.MinTask) > 0 {
		return g, fmt.Errorf("%s: not beside subgroups or minimums of tasks in spec", annotation(names.AnnotationGangGroups))
	}
	said, err := GangGroups(text, levels)
	g.Min, g.Subgroups, g.MinGroups = max(1, g.Min), said.Subgroups, said.MinGroups
	return g, err
}

// podGroupOf reads a PodGroup's own words, without our annotation.
func podGroupOf(o *unstructured.Unstructured, levels topology.Levels) (Group, error) {
	group, _, _ := strings.Cut(o.GetAPIVersion(), "/")
	switch group {
	case KubeGroups.Group:
		return kubeGroup(o, levels)
	case KAIGroups.Group:
		return kaiGroup(o, levels)
	case GroveGangs.Group:
		return groveGroup(o, levels)
	}
	spec := readerOf(o).in("spec")
	g := Group{Min: spec.count("minMember", 1, 1), MinTask: map[string]int{}}
	if group == PodGroups.Group || group == "" { // others have no such fields
		g.Queue, g.Priority = spec.text("queue"), spec.text("priorityClassName")
	}
	tasks := spec.in("minTaskMember")
	for task := range tasks.object {
		g.MinTask[task] = tasks.count(task, 0, 0)
	}
	g.Require, g.Prefer = spec.networkTopology(levels)
	if spec.err() == nil {
		g.volcanoPolicies(spec, levels)
	}
	return g, spec.err()
}

// kubeGroup reads a PodGroup of scheduling.k8s.io.
func kubeGroup(o *unstructured.Unstructured, levels topology.Levels) (Group, error) {
	spec := readerOf(o).in("spec")
	g := Group{Priority: spec.text("priorityClassName"), Min: spec.count("schedulingPolicy.gang.minCount", 0, 1)}
	for _, c := range spec.list("schedulingConstraints.topology") { // one at most
		label := c.text("key")
		level, ok := levels.OfLabel(label)
		if label == v1.LabelHostname {
			level, ok = model.Level{Name: "node", Depth: model.NodeDepth}, true
		}
		if !ok {
			spec.fail("schedulingConstraints.topology.key", "%q is not the label of a level of domains", label)
		}
		g.Require = level
	}
	return g, spec.err()
}
