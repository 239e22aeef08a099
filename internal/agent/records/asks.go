package records

import (
	"fmt"
	"maps"
	"slices"

	v1 "k8s.io/api/core/v1"
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
func asks(pod *v1.Pod, resource string) (out []ask) {
	eachContainer(pod, func(c *v1.Container, path string, init bool) {
		if q, ok := c.Resources.Limits[v1.ResourceName(resource)]; ok && q.Value() > 0 {
			out = append(out, ask{c.Name, path, init, resource, int(min(q.Value(), 1<<20))})
		}
	})
	return out
}

// gpuAsks are a pod's requests of all resources that are of GPUs.
func gpuAsks(pod *v1.Pod) (out []ask) {
	eachContainer(pod, func(c *v1.Container, path string, init bool) {
		for _, name := range slices.Sorted(maps.Keys(c.Resources.Limits)) {
			if q := c.Resources.Limits[name]; readable(string(name)) && q.Value() > 0 {
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

// byAmount says whether a container asks for amounts of its cards, and with which word.
func byAmount(pod *v1.Pod, container string) (word v1.ResourceName, yes bool) {
	eachContainer(pod, func(c *v1.Container, _ string, _ bool) {
		if c.Name != container {
			return
		}
		for _, w := range amountWords {
			if q, ok := c.Resources.Limits[w]; ok && !q.IsZero() {
				word, yes = w, true
			}
		}
	})
	return word, yes
}

// AmountWord is the resource by which a container asks for an amount of its cards.
func AmountWord(pod *v1.Pod, container string) (word string, yes bool) {
	w, yes := byAmount(pod, container)
	return string(w), yes
}
