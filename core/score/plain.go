package score

import "github.com/tangram-dev/tangram/core/model"

// Plain says whether the request's scores depend on nothing but its size, tenant
// priority, workload and placement.
func Plain(r *model.Request) bool {
	return len(r.UseModels) == 0 && len(r.PreferModels) == 0 && len(r.AvoidModels) == 0 && len(r.ProfileModels) == 0 &&
		len(r.UseUUIDs) == 0 && len(r.AvoidUUIDs) == 0 && len(r.UseIndexes) == 0 && len(r.Attributes) == 0 && r.MinMemory == 0 &&
		r.Require == (model.Closeness{}) && r.Prefer == (model.Closeness{})
}
