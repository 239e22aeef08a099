package autoscale

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	resourcehelper "k8s.io/component-helpers/resource"

	"github.com/tangram-dev/tangram/api/demand"
	"github.com/tangram-dev/tangram/api/names"
)

// placeholders are the pods that stand for a gang's members, named by what they ask for: one
// that asks for something else is another pod. members are those that exist and wait, in
// order; none may be nil.
func (s *Settings) placeholders(g *demand.Gang, members []*v1.Pod) []*v1.Pod {
	gang := demand.Digest(g.Name)
	if g.New != nil { // one opens the domain; where that is, the others are asked for next
		return []*v1.Pod{s.finish(members[0], s.spec(g, gang, members[0]), gang)}
	}
	if g.OneNode {
		return []*v1.Pod{s.finish(members[0], s.spec(g, gang, members...), gang)}
	}
	var out []*v1.Pod
	for _, m := range members {
		out = append(out, s.finish(m, s.spec(g, gang, m), gang))
	}
	return out
}

// finish is the placeholder with a specification, for a pod.
func (s *Settings) finish(of *v1.Pod, spec v1.PodSpec, gang string) *v1.Pod {
	text, err := json.Marshal(&spec)
	if err != nil {
		text = []byte(err.Error()) // plain values are always encoded
	}
	p := &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: s.Namespace, Name: fmt.Sprintf("for-%s-%s", of.UID, demand.Digest(string(text))),
			Labels:      map[string]string{names.LabelPlaceholder: "true", names.LabelPlaceholderGang: gang},
			Annotations: map[string]string{names.AnnotationPlaceholderFor: of.Namespace + "/" + of.Name},
		},
		Spec: spec,
	}
	if s.Owner != nil {
		p.OwnerReferences = []metav1.OwnerReference{*s.Owner}
	}
	return p
}

// spec is what an autoscaler has to find a place for: all that pods ask for together, where
// the first of them may go, in the domain.
func (s *Settings) spec(g *demand.Gang, gang string, members ...*v1.Pod) v1.PodSpec {
	first := &members[0].Spec
	no, grace := false, int64(0)
	yes := true
	spec := v1.PodSpec{
		SchedulerName: names.PlaceholderScheduler, SchedulingGates: []v1.PodSchedulingGate{{Name: names.GatePlaceholder}},
		NodeSelector: maps.Clone(first.NodeSelector), Tolerations: slices.Clone(first.Tolerations), PriorityClassName: first.PriorityClassName,
		Affinity: &v1.Affinity{NodeAffinity: inDomain(first.Affinity, g)}, RestartPolicy: v1.RestartPolicyNever,
		TerminationGracePeriodSeconds: &grace, AutomountServiceAccountToken: &no, EnableServiceLinks: &no,
		SecurityContext: &v1.PodSecurityContext{RunAsNonRoot: &yes, SeccompProfile: &v1.SeccompProfile{Type: v1.SeccompProfileTypeRuntimeDefault}},
		Containers: []v1.Container{{
			Name: "placeholder", Image: s.Image, Resources: together(members), Ports: hostPorts(members),
			SecurityContext: &v1.SecurityContext{AllowPrivilegeEscalation: &no, Capabilities: &v1.Capabilities{Drop: []v1.Capability{"ALL"}}},
		}},
	}
	own := metav1.LabelSelector{MatchLabels: map[string]string{names.LabelPlaceholderGang: gang}}
	if len(members) == 1 && alone(members[0]) {
		spec.Affinity.PodAntiAffinity = &v1.PodAntiAffinity{RequiredDuringSchedulingIgnoredDuringExecution: []v1.PodAffinityTerm{{LabelSelector: &own, TopologyKey: v1.LabelHostname}}}
	}
	return spec
}

// inDomain is a required node affinity with the domain's labels added to each alternative.
func inDomain(has *v1.Affinity, g *demand.Gang) *v1.NodeAffinity {
	var more []v1.NodeSelectorRequirement
	for _, label := range slices.Sorted(maps.Keys(g.Within)) {
		more = append(more, v1.NodeSelectorRequirement{Key: label, Operator: v1.NodeSelectorOpIn, Values: []string{g.Within[label]}})
	}
	if g.New != nil {
		more = append(more, v1.NodeSelectorRequirement{Key: g.New.Label, Operator: v1.NodeSelectorOpExists})
		if len(g.New.Not) > 0 {
			more = append(more, v1.NodeSelectorRequirement{Key: g.New.Label, Operator: v1.NodeSelectorOpNotIn, Values: g.New.Not})
		}
	}
	var terms []v1.NodeSelectorTerm
	if has != nil && has.NodeAffinity != nil && has.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution != nil {
		for _, t := range has.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms {
			terms = append(terms, v1.NodeSelectorTerm{MatchExpressions: slices.Concat(t.MatchExpressions, more), MatchFields: t.MatchFields})
		}
	} else if len(more) > 0 {
		terms = []v1.NodeSelectorTerm{{MatchExpressions: more}}
	}
	if len(terms) == 0 {
		return nil
	}
	return &v1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: &v1.NodeSelector{NodeSelectorTerms: terms}}
}

// together is what pods request, as one container. Resources that cannot be overcommitted
// need a limit.
func together(members []*v1.Pod) v1.ResourceRequirements {
	sum := v1.ResourceList{}
	for _, m := range members {
		for name, amount := range resourcehelper.PodRequests(m, resourcehelper.PodResourcesOptions{}) {
			total := sum[name]
			total.Add(amount)
			sum[name] = total
		}
	}
	out := v1.ResourceRequirements{Requests: v1.ResourceList{}}
	for name, amount := range sum {
		if amount.IsZero() {
			continue
		}
		// Equal amounts are spelt alike, so that equal pods have equal names.
		out.Requests[name] = *resource.NewMilliQuantity(amount.MilliValue(), amount.Format)
		if strings.Contains(string(name), "/") || strings.HasPrefix(string(name), v1.ResourceHugePagesPrefix) {
			if out.Limits == nil {
				out.Limits = v1.ResourceList{}
			}
			out.Limits[name] = out.Requests[name]
		}
	}
	return out
}

func hostPorts(members []*v1.Pod) (out []v1.ContainerPort) {
	for _, m := range members {
		for _, c := range m.Spec.Containers {
			for _, p := range c.Ports {
				if p.HostPort > 0 {
					out = append(out, v1.ContainerPort{ContainerPort: p.ContainerPort, HostPort: p.HostPort, Protocol: p.Protocol, HostIP: p.HostIP})
				}
			}
		}
	}
	return out
}

// alone says whether a pod keeps others like it off its node.
func alone(pod *v1.Pod) bool {
	if a := pod.Spec.Affinity; a != nil && a.PodAntiAffinity != nil {
		for _, t := range a.PodAntiAffinity.RequiredDuringSchedulingIgnoredDuringExecution {
			selector, err := metav1.LabelSelectorAsSelector(t.LabelSelector)
			if err == nil && t.TopologyKey == v1.LabelHostname && selector.Matches(labels.Set(pod.Labels)) {
				return true
			}
		}
	}
	return false
}
