package engine

import (
	"maps"
	"slices"

	v1 "k8s.io/api/core/v1"

	"github.com/tangram-dev/tangram/core/arbiter"
	"github.com/tangram-dev/tangram/internal/dialect"
)

// syncQuota reads what a namespace may use. An invalid quota is reported and counts as
// none.
func (e *Engine) syncQuota(name string) {
	delete(e.quotas, name)
	ns, err := e.namespaces.Get(name)
	if err != nil {
		e.complain("quota/"+name, nil, nil, "")
	} else {
		hard, problem := dialect.QuotaOf(ns)
		if hard != nil {
			e.quotas[name] = arbiter.Quota{Namespace: name, Hard: hard}
		}
		e.complain("quota/"+name, &v1.ObjectReference{APIVersion: "v1", Kind: "Namespace", Name: name, UID: ns.UID}, problem, "InvalidQuota")
	}
	var list []arbiter.Quota
	for _, name := range slices.Sorted(maps.Keys(e.quotas)) {
		list = append(list, e.quotas[name])
	}
	if err := e.core.SetQuotas(list); err != nil {
		e.logger.Error(err, "Quotas ignored") // their amounts have been checked
	}
}
