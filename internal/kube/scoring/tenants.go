package scoring

import (
	"fmt"
	"maps"
	"slices"

	"github.com/tangram-dev/tangram/internal/dialect"
)

// TenantArgs are the standing of tenants, which the objective "priority" compares with the
// hardware: the higher, the better the GPUs. 1 to 100; any hardware suits pods about which
// nothing is said.
type TenantArgs struct {
	// PriorityClasses are by the name of a pod's PriorityClass.
	PriorityClasses map[string]int `json:"priorityClasses,omitempty"`
	// Namespaces are for pods whose class is not listed.
	Namespaces map[string]int `json:"namespaces,omitempty"`
}

// standing checks the standing of tenants; requirement document 003's when nothing is said.
func (a *Args) standing() (dialect.Tenants, error) {
	if a.Tenants == nil {
		return dialect.DefaultTenants(), nil
	}
	for _, list := range []struct {
		field string
		names map[string]int
	}{{"priorityClasses", a.Tenants.PriorityClasses}, {"namespaces", a.Tenants.Namespaces}} {
		for _, name := range slices.Sorted(maps.Keys(list.names)) {
			if name == "" {
				return dialect.Tenants{}, fmt.Errorf("tenants.%s: an empty name", list.field)
			}
			if v := list.names[name]; v < 1 || v > 100 {
				return dialect.Tenants{}, fmt.Errorf("tenants.%s[%s]: %d is not between 1 and 100", list.field, name, v)
			}
		}
	}
	return dialect.Tenants{PriorityClasses: a.Tenants.PriorityClasses, Namespaces: a.Tenants.Namespaces}, nil
}
