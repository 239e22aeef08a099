package autoscale

import (
	"slices"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tangram-dev/tangram/api/demand"
	"github.com/tangram-dev/tangram/api/names"
)

// Settings are how placeholders are made.
type Settings struct {
	Namespace, Image string // where placeholders are, and what they would run, if they could
	// Owner is the controller's own pod: placeholders go with it. nil: they stay until a
	// controller removes them.
	Owner *metav1.OwnerReference
}

// plan is what is to be done. Removals go first.
type plan struct {
	remove, create []*v1.Pod
	show           []*v1.Pod  // placeholders that do not say that they are unschedulable
	keep, free     []*v1.Node // nodes to mark, and to mark no longer
}

// decide compares what is asked for with what there is. member finds a pod by namespace and
// name, nil when it is gone; placeholders are all pods of the namespace that say they are.
func (s *Settings) decide(doc *demand.Document, member func(namespace, name string) *v1.Pod, placeholders []*v1.Pod, nodes []*v1.Node) plan {
	wanted := map[string]*v1.Pod{}
	var order []string
	for i := range doc.Gangs {
		g := &doc.Gangs[i]
		var waiting []*v1.Pod
		for _, m := range g.Members {
			if p := member(m.Namespace, m.Name); p != nil && string(p.UID) == m.UID && p.Spec.NodeName == "" && p.DeletionTimestamp == nil {
				waiting = append(waiting, p)
			}
		}
		if len(waiting) < len(g.Members) {
			continue // it starts, or is going: what it lacks is found out anew
		}
		for _, p := range s.placeholders(g, waiting) {
			if wanted[p.Name] == nil {
				order = append(order, p.Name)
			}
			wanted[p.Name] = p
		}
	}
	var out plan
	there := map[string]bool{}
	for _, p := range placeholders {
		switch {
		case p.DeletionTimestamp != nil:
			there[p.Name] = true
		case wanted[p.Name] == nil || s.orphaned(p):
			out.remove = append(out.remove, p)
		default:
			there[p.Name] = true
			if !shown(p) {
				out.show = append(out.show, p)
			}
		}
	}
	for _, name := range order {
		if !there[name] {
			out.create = append(out.create, wanted[name])
		}
	}
	for _, n := range nodes {
		kept := slices.Contains(doc.Kept, n.Name) && n.DeletionTimestamp == nil
		switch _, marked := n.Annotations[names.AnnotationKept]; {
		case kept && !marked:
			out.keep = append(out.keep, n)
		case !kept && marked:
			out.free = append(out.free, n)
		}
	}
	return out
}

// orphaned says that a placeholder was made by another controller: it will go with that
// one's pod.
func (s *Settings) orphaned(p *v1.Pod) bool {
	return s.Owner != nil && !slices.ContainsFunc(p.OwnerReferences, func(o metav1.OwnerReference) bool { return o.UID == s.Owner.UID })
}

// shown says whether autoscalers look at a placeholder.
func shown(p *v1.Pod) bool {
	return slices.ContainsFunc(p.Status.Conditions, func(c v1.PodCondition) bool {
		return c.Type == v1.PodScheduled && c.Status == v1.ConditionFalse && c.Reason == v1.PodReasonUnschedulable
	})
}
