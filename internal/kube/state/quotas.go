package state

import (
	"maps"
	"slices"

	v1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/cache"

	"github.com/tangram-dev/tangram/api/names"
	"github.com/tangram-dev/tangram/core/arbiter"
	"github.com/tangram-dev/tangram/internal/dialect"
)

// syncQuota takes note of what a namespace may use. Nonsense counts as nothing said,
// and its owner is told.
func (c *Cluster) syncQuota(ns *v1.Namespace) {
	c.mu.Lock()
	hard, problem := dialect.QuotaOf(ns)
	delete(c.quotas, ns.Name)
	if now, err := c.namespaces.Get(ns.Name); err == nil && now.UID == ns.UID && hard != nil {
		c.quotas[ns.Name] = arbiter.Quota{Namespace: ns.Name, Hard: hard}
	}
	if c.active() {
		c.startEngine()
	}
	if c.gangs.engine != nil {
		c.setQuotas()
		c.gangs.engine.Changed()
	}
	complain := c.complainOnce("quota/"+ns.Name, problem)
	c.mu.Unlock()
	c.kick()
	if complain {
		c.report(&v1.ObjectReference{APIVersion: "v1", Kind: "Namespace", Name: ns.Name, UID: ns.UID}, "InvalidQuota", problem.Error())
	}
}

// setQuotas tells the engine. The caller holds the lock.
func (c *Cluster) setQuotas() {
	var list []arbiter.Quota
	for _, name := range slices.Sorted(maps.Keys(c.quotas)) {
		list = append(list, c.quotas[name])
	}
	_ = c.gangs.engine.Tree().SetQuotas(list) // amounts were checked
}

// quotaHandler follows namespaces; those who never had a quota cost nothing.
func (c *Cluster) quotaHandler() cache.ResourceEventHandler {
	sync := func(obj any) {
		if ns, ok := object[*v1.Namespace](obj); ok {
			c.mu.RLock()
			_, had := c.quotas[ns.Name]
			c.mu.RUnlock()
			if _, has := ns.Annotations[names.AnnotationQuota]; had || has {
				c.syncQuota(ns)
			}
		}
	}
	return cache.ResourceEventHandlerFuncs{AddFunc: sync, UpdateFunc: func(_, obj any) { sync(obj) }, DeleteFunc: sync}
}
