package engine

import (
	"slices"
	"time"

	"github.com/tangram-dev/tangram/core/model"
)

// followDomains takes note of a node's domains. Where HyperNodes or Topologies add levels,
// their order depends on how domains are nested, so it is looked at again.
func (e *Engine) followDomains(id model.NodeID, path []string) {
	if slices.Equal(e.paths[id], path) {
		return
	}
	e.paths[id] = path
	e.levelsStale = e.levelsStale || e.inventory.Derived()
}

// syncLevels reads the objects that define levels of domains anew. What they changed is
// read again: the nodes' domains, and what pods ask for. The caller holds the lock.
func (e *Engine) syncLevels(now time.Time) {
	e.levelsStale = false
	changed, problems := e.inventory.Refresh()
	for _, p := range problems {
		e.complain("topology/"+p.About.APIVersion+"/"+p.About.Name, p.About, p.Err, "InvalidTopology")
	}
	if !changed {
		return
	}
	for _, d := range e.inventory.All() {
		e.syncNode(d.Object.Name, now)
	}
	e.levelsStale = false // the order is that of these nodes
	e.work.LevelsChanged(now)
	e.feed.kick()
}
