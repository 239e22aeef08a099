package dialect

import v1 "k8s.io/api/core/v1"

// Tenants is the standing of tenants: 1 to 100, by the PriorityClass of a pod, else by its
// namespace. The API server decides which pods may use a class or a namespace.
type Tenants struct {
	PriorityClasses, Namespaces map[string]int
}

// DefaultTenants is requirement document 003's table.
func DefaultTenants() Tenants {
	return Tenants{
		PriorityClasses: map[string]int{"high-priority": 100, "medium-priority": 70, "low-priority": 30},
		Namespaces:      map[string]int{"production": 90, "critical": 90, "staging": 60, "testing": 60, "development": 40},
	}
}

// defaultTenants is read only.
var defaultTenants = DefaultTenants()

// Of is the standing of a pod's tenant; 0 when nothing is said of it.
func (t *Tenants) Of(pod *v1.Pod) int {
	if v, ok := t.PriorityClasses[pod.Spec.PriorityClassName]; ok {
		return v
	}
	return t.Namespaces[pod.Namespace]
}
