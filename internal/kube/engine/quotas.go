package engine

import (
	"maps"
	"slices"

	v1 "k8s.io/api/core/v1"
	corelisters "k8s.io/client-go/listers/core/v1"

	"github.com/tangram-dev/tangram/core/arbiter"
	"github.com/tangram-dev/tangram/core/engine"
	"github.com/tangram-dev/tangram/internal/dialect"
	"github.com/tangram-dev/tangram/internal/kube/report"
)

// quotas is what namespaces may use.
type quotas struct {
	namespaces  corelisters.NamespaceLister
	byNamespace map[string]arbiter.Quota
}

// read reads the quota of a namespace. An invalid one is reported and counts as none.
func (q *quotas) read(name string, c *report.Complaints) {
	delete(q.byNamespace, name)
	ns, err := q.namespaces.Get(name)
	if err != nil {
		c.Clear("quota/" + name)
		return
	}
	hard, problem := dialect.QuotaOf(ns)
	if hard != nil {
		q.byNamespace[name] = arbiter.Quota{Namespace: name, Hard: hard}
	}
	c.Set("quota/"+name, namespaceRef(ns), problem, "InvalidQuota")
}

func namespaceRef(ns *v1.Namespace) *v1.ObjectReference {
	return &v1.ObjectReference{APIVersion: "v1", Kind: "Namespace", Name: ns.Name, UID: ns.UID}
}

// list are all quotas, sorted by namespace.
func (q *quotas) list() (out []arbiter.Quota) {
	for _, name := range slices.Sorted(maps.Keys(q.byNamespace)) {
		out = append(out, q.byNamespace[name])
	}
	return out
}

// readQuota makes core's quotas equal to what the API says.
func (d *driver) readQuota(namespace string) {
	d.quotas.read(namespace, &d.complaints)
	if err := d.tell(engine.QuotasSet{Quotas: d.quotas.list()}).Err; err != nil {
		d.logger.Error(err, "Quotas ignored") // their amounts have been checked
	}
}
