package workload

import (
	"slices"

	v1 "k8s.io/api/core/v1"
)

// systemPriority is the smallest priority of Kubernetes' system classes
// (system-cluster-critical, system-node-critical).
const systemPriority = 2_000_000_000

// defaultProtected are the namespaces whose pods are never evicted unless the
// configuration lists others.
var defaultProtected = []string{"kube-system"}

// Protect sets the namespaces whose pods are never victims, in place of kube-system.
func (r *Reader) Protect(namespaces []string) { r.protected.Store(&namespaces) }

// Protected says whether a pod is never a victim: a system-critical one, or one of a
// protected namespace.
func (r *Reader) Protected(pod *v1.Pod) bool {
	namespaces := defaultProtected
	if set := r.protected.Load(); set != nil {
		namespaces = *set
	}
	return priorityOf(pod) >= systemPriority || slices.Contains(namespaces, pod.Namespace)
}
