package dialect

import "k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

// statefulSetLater: by default a StatefulSet creates each pod when those before it are
// ready. With podManagementPolicy Parallel it creates all at once.
func statefulSetLater(o *unstructured.Unstructured) int {
	var err error
	set := reader{o.Object, &err}
	if set.text("spec", "podManagementPolicy") == "Parallel" {
		return 0
	}
	replicas, ok := set.number("spec", "replicas")
	if !ok {
		replicas = 1
	}
	replicas = max(0, min(replicas, maxGang))
	ready, _ := set.number("status", "readyReplicas")
	return int(max(0, replicas-max(0, ready)-1))
}
