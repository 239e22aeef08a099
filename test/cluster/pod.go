package cluster

import (
	"fmt"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tangram-dev/tangram/api/names"
)

// Change makes a pod something else.
type Change = func(*v1.Pod)

// Pod is a pod of gpu-scheduler that asks for GPUs. It gets its namespace when it is
// created.
func Pod(name string, gpus int, change ...Change) *v1.Pod {
	p := &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: map[string]string{}, Labels: map[string]string{}},
		Spec: v1.PodSpec{
			SchedulerName: names.SchedulerName,
			Containers: []v1.Container{{
				Name: "main", Image: "pause",
				Resources: v1.ResourceRequirements{Limits: v1.ResourceList{}, Requests: v1.ResourceList{}},
			}},
		},
	}
	if gpus > 0 {
		p.Spec.Containers[0].Resources.Limits[names.ResourceNVIDIA] = *resource.NewQuantity(int64(gpus), resource.DecimalSI)
	}
	return changed(p, change)
}

// changed is a pod after changes.
func changed(p *v1.Pod, change []Change) *v1.Pod {
	for _, c := range change {
		c(p)
	}
	return p
}

// Label adds a label.
func Label(key, value string) Change { return func(p *v1.Pod) { p.Labels[key] = value } }

// Annotate adds an annotation.
func Annotate(key, value string) Change { return func(p *v1.Pod) { p.Annotations[key] = value } }

// Queue puts a pod into a queue.
func Queue(name string) Change { return Label(names.LabelQueue, name) }

// Priority gives a pod a PriorityClass.
func Priority(class string) Change { return func(p *v1.Pod) { p.Spec.PriorityClassName = class } }

// Model asks for GPUs of a model.
func Model(name string) Change { return Annotate(names.AnnotationUseModel, name) }

// Gang makes a pod a member of a gang by labels.
func Gang(name string, size any) Change {
	return func(p *v1.Pod) {
		p.Labels[names.LabelGang], p.Labels[names.LabelGangSize] = name, fmt.Sprint(size)
	}
}

// Members are the pods of a gang: name-0, name-1 and so on.
func Members(gang string, size, gpus int, change ...Change) (out []*v1.Pod) {
	for i := range size {
		out = append(out, changed(Pod(fmt.Sprintf("%s-%d", gang, i), gpus, Gang(gang, size)), change))
	}
	return out
}

// In puts a pod into a namespace.
func In(namespace string) Change { return func(p *v1.Pod) { p.Namespace = namespace } }

// On binds a pod to nodes with a label.
func On(key, value string) Change {
	return func(p *v1.Pod) {
		if p.Spec.NodeSelector == nil {
			p.Spec.NodeSelector = map[string]string{}
		}
		p.Spec.NodeSelector[key] = value
	}
}

// Needs adds a request, and for an extended resource the limit that it needs.
func Needs(name, amount string) Change {
	return func(p *v1.Pod) {
		r := p.Spec.Containers[0].Resources
		r.Requests[v1.ResourceName(name)] = resource.MustParse(amount)
		if strings.Contains(name, "/") {
			r.Limits[v1.ResourceName(name)] = resource.MustParse(amount)
		}
	}
}

// Immediate ends a pod at once when it is deleted.
func Immediate(p *v1.Pod) {
	now := int64(0)
	p.Spec.TerminationGracePeriodSeconds = &now
}

// Scheduled is a pod's PodScheduled condition, which says why it waits; without one, the
// zero value.
func Scheduled(p *v1.Pod) v1.PodCondition {
	for _, c := range p.Status.Conditions {
		if c.Type == v1.PodScheduled {
			return c
		}
	}
	return v1.PodCondition{}
}

// Waiting is the reason and the message of a pod's PodScheduled condition.
func Waiting(p *v1.Pod) string {
	if c := Scheduled(p); c.Type != "" {
		return c.Reason + ": " + c.Message
	}
	return "no PodScheduled condition"
}

// Live says whether a pod wants or holds devices.
func Live(p *v1.Pod) bool {
	return p.DeletionTimestamp == nil && p.Status.Phase != v1.PodSucceeded && p.Status.Phase != v1.PodFailed
}
