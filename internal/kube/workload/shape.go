package workload

import (
	"maps"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"

	"github.com/tangram-dev/tangram/core/engine"
	"github.com/tangram-dev/tangram/core/model"
	"github.com/tangram-dev/tangram/internal/kube/dra"
)

// Rules are what Kubernetes' own filters look at in pods of one shape.
type Rules struct {
	Tolerations []v1.Toleration
	// Affinity is nodeSelector and required node affinity, if Selects; Selector: in words.
	Affinity nodeaffinity.RequiredNodeAffinity
	Selects  bool
	Selector string
	Claims   *dra.Ask // what the pods' ResourceClaims mean; nil when they have none that matter
	Parts    bool     // the pods ask for parts of GPUs, and not through claims
	apart    *apart
	example  *v1.Pod // one pod of the shape: its namespace and labels are the shape's
	members  int     // members counts the pods of the shape that are known
}

// Apart says why pods of two shapes may not share a node: host ports, or required
// anti-affinity of either. Empty when they may.
func (r *Rules) Apart(o *Rules) string {
	why := ""
	if r.apart != nil {
		why = r.apart.from(o.example)
	}
	if why == "" && o.apart != nil {
		why = o.apart.from(r.example)
	}
	return why
}

// shapes are the rules of all shapes that a known pod has.
type shapes map[engine.Shape]*Rules

// enter counts a pod of a shape.
func (s shapes) enter(m *Member) *Rules {
	id, pod := m.Shape, m.Pod
	r := s[id]
	if r == nil {
		r = &Rules{
			Tolerations: pod.Spec.Tolerations, Affinity: nodeaffinity.GetRequiredNodeAffinity(pod),
			Selects: len(pod.Spec.NodeSelector) > 0 || pod.Spec.Affinity != nil && pod.Spec.Affinity.NodeAffinity != nil,
			apart:   apartOf(pod), example: pod, Claims: m.Ask, Parts: m.Request.Vendor != "" && m.Request.Kind() != model.Whole && (m.Ask == nil || m.Ask.By == nil),
		}
		if r.Selects {
			r.Selector = selectorOf(pod)
		}
		s[id] = r
	}
	r.members++
	return r
}

// leave forgets a pod, and the shape with its last one.
func (s shapes) leave(id engine.Shape) {
	if r := s[id]; r != nil {
		if r.members--; r.members == 0 {
			delete(s, id)
		}
	}
}

// selectorOf is what a pod selects nodes by, in words.
func selectorOf(pod *v1.Pod) string {
	if len(pod.Spec.NodeSelector) == 0 {
		return "the pod's node affinity"
	}
	return "nodeSelector " + labels.FormatLabels(pod.Spec.NodeSelector)
}

// shapeOf is equal for pods of one task that ask for the same and that Kubernetes' own
// rules treat alike. What filters say of one of them holds for all, so everything they
// may look at is part of it, the namespace first: volumes and affinity are by namespace.
func shapeOf(pod *v1.Pod, task string, r *model.Request, rules *apart, ask *dra.Ask) engine.Shape {
	var b strings.Builder
	b.WriteString(pod.Namespace + "\x00" + task + "\x00" + r.FitKey() + r.RankKey())
	for _, k := range slices.Sorted(maps.Keys(pod.Spec.NodeSelector)) {
		b.WriteString("|s" + k + "=" + pod.Spec.NodeSelector[k])
	}
	byLabels := rules != nil
	if pod.Spec.Affinity != nil {
		b.WriteString("|a" + pod.Spec.Affinity.String())
		byLabels = byLabels || pod.Spec.Affinity.PodAffinity != nil || pod.Spec.Affinity.PodAntiAffinity != nil
	}
	for _, t := range pod.Spec.Tolerations {
		b.WriteString("|t" + t.Key + string(t.Operator) + t.Value + string(t.Effect))
	}
	for i := range pod.Spec.TopologySpreadConstraints {
		b.WriteString("|d" + pod.Spec.TopologySpreadConstraints[i].String())
		byLabels = true
	}
	for i := range pod.Spec.Volumes {
		v := &pod.Spec.Volumes[i]
		switch { // those that decide where a pod may run
		case v.PersistentVolumeClaim != nil:
			b.WriteString("|v" + v.PersistentVolumeClaim.ClaimName)
		case v.Ephemeral != nil:
			b.WriteString("|e" + pod.Name + "-" + v.Name) // a claim of its own
		case v.CSI != nil:
			b.WriteString("|c" + v.CSI.Driver)
		}
	}
	for _, c := range pod.Spec.ResourceClaims {
		b.WriteString("|r" + c.Name)
		switch {
		case c.ResourceClaimName != nil:
			b.WriteString("=" + *c.ResourceClaimName)
		case c.ResourceClaimTemplateName != nil:
			b.WriteString("/" + *c.ResourceClaimTemplateName)
		}
	}
	if ask != nil {
		b.WriteString("|k" + ask.Key)
	}
	b.WriteString(rules.String())
	if byLabels { // a pod's labels count for its own rules about others
		for _, k := range slices.Sorted(maps.Keys(pod.Labels)) {
			b.WriteString("|l" + k + "=" + pod.Labels[k])
		}
	}
	b.WriteString("|p" + pod.Spec.SchedulerName) // profiles may have other filters
	return engine.Shape(b.String())
}
