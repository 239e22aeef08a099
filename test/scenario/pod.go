package scenario

import (
	"fmt"
	"strconv"
	"strings"

	v1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tangram-dev/tangram/api/names"
)

// pod makes a Pod, and its PriorityClass if it names one.
func (l *line) pod(name string) (*v1.Pod, *schedulingv1.PriorityClass, error) {
	noGrace := int64(0) // there is no kubelet that would end a grace period
	pod := &v1.Pod{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"},
		ObjectMeta: metav1.ObjectMeta{
			Name: name, Namespace: l.text("namespace", metav1.NamespaceDefault),
			Labels: l.pairs("label"), Annotations: l.pairs("annotation"),
		},
		Spec: v1.PodSpec{
			SchedulerName: l.text("scheduler", names.SchedulerName),
			NodeSelector:  l.pairs("selector"), Affinity: l.affinity(), Tolerations: l.tolerations(),
			TerminationGracePeriodSeconds: &noGrace,
		},
		Status: v1.PodStatus{Phase: v1.PodPending},
	}
	if workload := l.text("workload", ""); workload != "" {
		pod.Labels[names.LabelWorkload] = workload
	}
	l.membership(pod)
	l.containers(pod)
	class := l.priority(pod)
	return pod, class, l.done()
}

// containers reads gpus= (the main container), container= (more of them), init=
// and sidecar= (in the order they are written, which is the order they start).
// All but the first may name another resource: container=amd.com/gpu:1.
func (l *line) containers(pod *v1.Pod) {
	gpu := v1.ResourceName(l.text("resource", names.ResourceNVIDIA))
	main := container("main", gpu, l.text("gpus", "0"), l)
	for _, value := range l.all("limit") {
		name, amount, _ := strings.Cut(value, ":")
		l.ask(&main, v1.ResourceName(name), amount)
	}
	for _, r := range []struct {
		key  string
		name v1.ResourceName
	}{{"gpu-memory", names.ResourceGPUMemory}, {"cpu", v1.ResourceCPU}, {"ram", v1.ResourceMemory}} {
		if amount := l.text(r.key, ""); amount != "" {
			l.ask(&main, r.name, amount)
		}
	}
	pod.Spec.Containers = []v1.Container{main}
	for i, amount := range l.all("container") {
		pod.Spec.Containers = append(pod.Spec.Containers, container(fmt.Sprintf("main-%d", i+1), gpu, amount, l))
	}
	l.all("init")
	l.all("sidecar")
	for _, f := range l.fields {
		if f.key != "init" && f.key != "sidecar" {
			continue
		}
		c := container(fmt.Sprintf("%s-%d", f.key, len(pod.Spec.InitContainers)), gpu, f.value, l)
		if f.key == "sidecar" {
			always := v1.ContainerRestartPolicyAlways
			c.RestartPolicy = &always
		}
		pod.Spec.InitContainers = append(pod.Spec.InitContainers, c)
	}
}

func container(name string, gpu v1.ResourceName, amount string, l *line) v1.Container {
	if other, n, ok := strings.Cut(amount, ":"); ok {
		gpu, amount = v1.ResourceName(other), n
	}
	c := v1.Container{Name: name, Image: "scenario", Resources: v1.ResourceRequirements{
		Requests: v1.ResourceList{}, Limits: v1.ResourceList{},
	}}
	if amount != "0" {
		l.ask(&c, gpu, amount)
	}
	return c
}

// ask adds a resource to a container, as request and as limit.
func (l *line) ask(c *v1.Container, name v1.ResourceName, amount string) {
	q := l.quantity(string(name), amount)
	c.Resources.Requests[name], c.Resources.Limits[name] = q, q
}

// priority reads priority=100 or priority=high-priority:100. Only a class can
// give a pod a priority, so one is made.
func (l *line) priority(pod *v1.Pod) *schedulingv1.PriorityClass {
	text := l.text("priority", "")
	if text == "" {
		return nil
	}
	name, number, named := strings.Cut(text, ":")
	if !named {
		name, number = "scenario-"+text, text
	}
	n, err := strconv.ParseInt(number, 10, 32)
	if err != nil {
		l.fail("priority: %q is not a number, and no name:number", text)
	}
	value := int32(n)
	pod.Spec.Priority, pod.Spec.PriorityClassName = &value, name
	return &schedulingv1.PriorityClass{
		TypeMeta:   metav1.TypeMeta{APIVersion: "scheduling.k8s.io/v1", Kind: "PriorityClass"},
		ObjectMeta: metav1.ObjectMeta{Name: name}, Value: value,
	}
}

// affinity reads require=key=a|b and require=key>4 (which all must hold), and
// prefer=key=a|b.
func (l *line) affinity() *v1.Affinity {
	node := &v1.NodeAffinity{}
	var required []v1.NodeSelectorRequirement
	for _, value := range l.all("require") {
		required = append(required, l.requirement("require", value))
	}
	if len(required) > 0 {
		node.RequiredDuringSchedulingIgnoredDuringExecution = &v1.NodeSelector{
			NodeSelectorTerms: []v1.NodeSelectorTerm{{MatchExpressions: required}},
		}
	}
	for _, value := range l.all("prefer") {
		node.PreferredDuringSchedulingIgnoredDuringExecution = append(node.PreferredDuringSchedulingIgnoredDuringExecution,
			v1.PreferredSchedulingTerm{Weight: 100, Preference: v1.NodeSelectorTerm{
				MatchExpressions: []v1.NodeSelectorRequirement{l.requirement("prefer", value)},
			}})
	}
	if len(required) == 0 && len(node.PreferredDuringSchedulingIgnoredDuringExecution) == 0 {
		return nil
	}
	return &v1.Affinity{NodeAffinity: node}
}

func (l *line) requirement(key, value string) v1.NodeSelectorRequirement {
	if label, number, ok := strings.Cut(value, ">"); ok {
		return v1.NodeSelectorRequirement{Key: label, Operator: v1.NodeSelectorOpGt, Values: []string{number}}
	}
	label, values, ok := strings.Cut(value, "=")
	if !ok {
		l.fail("%s: %q is neither label=a|b nor label>number", key, value)
	}
	return v1.NodeSelectorRequirement{Key: label, Operator: v1.NodeSelectorOpIn, Values: strings.Split(values, "|")}
}

// tolerations reads tolerate=key=value, for every effect.
func (l *line) tolerations() []v1.Toleration {
	var out []v1.Toleration
	for _, value := range l.all("tolerate") {
		k, v, _ := strings.Cut(value, "=")
		out = append(out, v1.Toleration{Key: k, Operator: v1.TolerationOpEqual, Value: v})
	}
	return out
}
