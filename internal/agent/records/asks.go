package records

import (
	"fmt"
	"maps"
	"slices"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// ask is what one container asks of one resource that kubelet hands out.
type ask struct {
	container string
	// path is where the container stands in the pod's spec, such as spec.containers[1].
	path string
	// init: the container ends before the next one starts. Kubelet then gives its
	// devices to later containers of the pod, and podresources does not list it.
	init     bool
	resource string
	count    int
}

// asks are a pod's requests of a resource in the order in which kubelet serves them:
// init containers first.
func asks(pod *v1.Pod, resource string) []ask {
	return asksOf(pod, func(r string) bool { return r == resource })
}

// gpuAsks are a pod's requests of all resources that are of GPUs.
func gpuAsks(pod *v1.Pod) []ask { return asksOf(pod, readable) }

func asksOf(pod *v1.Pod, wanted func(resource string) bool) (out []ask) {
	eachContainer(pod, func(c *v1.Container, path string, init bool) {
		for _, name := range slices.Sorted(maps.Keys(c.Resources.Limits)) {
			if q := c.Resources.Limits[name]; wanted(string(name)) && q.Value() > 0 {
				out = append(out, ask{c.Name, path, init, string(name), int(min(q.Value(), 1<<20))})
			}
		}
	})
	return out
}

// eachContainer visits a pod's containers in the order in which kubelet starts them.
func eachContainer(pod *v1.Pod, visit func(c *v1.Container, path string, init bool)) {
	for i := range pod.Spec.InitContainers {
		c := &pod.Spec.InitContainers[i]
		sidecar := c.RestartPolicy != nil && *c.RestartPolicy == v1.ContainerRestartPolicyAlways
		visit(c, fmt.Sprintf("spec.initContainers[%d]", i), !sidecar)
	}
	for i := range pod.Spec.Containers {
		visit(&pod.Spec.Containers[i], fmt.Sprintf("spec.containers[%d]", i), false)
	}
}

// amountWords are resources by which a container says how much of each card it wants;
// their amounts are in the record, not in device IDs.
var amountWords = []v1.ResourceName{"nvidia.com/gpumem", "nvidia.com/gpumem-percentage", "nvidia.com/gpucores"}

// ByAmount says whether a container asks for amounts of its cards, and by which resource.
func ByAmount(pod *v1.Pod, container string) (word v1.ResourceName, yes bool) {
	c := ContainerOf(pod, container)
	for _, w := range amountWords {
		if c != nil && !c.Resources.Limits.Name(w, resource.DecimalSI).IsZero() {
			word, yes = w, true
		}
	}
	return word, yes
}

// ContainerOf is a pod's container of a name; nil when there is none.
func ContainerOf(pod *v1.Pod, name string) (out *v1.Container) {
	eachContainer(pod, func(c *v1.Container, _ string, _ bool) {
		if c.Name == name {
			out = c
		}
	})
	return out
}
