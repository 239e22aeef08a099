package engine

import (
	"slices"
	"time"

	"github.com/tangram-dev/tangram/core/model"
)

// followDomains takes note of a node's domains. Where HyperNodes or Topologies add levels,
// their order depends on how domains are nested, so it is looked at again.
func (d *driver) followDomains(id model.NodeID, path []string) {
	if slices.Equal(d.domains[id], path) {
		return
	}
	d.domains[id] = path
	d.levelsStale = d.levelsStale || d.inventory.Derived()
}

// readLevels reads the objects that define levels of domains anew. What they changed is
// read again: the nodes' domains, and what pods ask for.
func (d *driver) readLevels(now time.Time) {
	d.levelsStale = false
	changed, problems := d.inventory.Refresh()
	for _, p := range problems {
		d.complaints.Set("topology/"+p.About.APIVersion+"/"+p.About.Name, p.About, p.Err, "InvalidTopology")
	}
	if !changed {
		return
	}
	for _, n := range d.inventory.All() {
		d.readNode(n.Object.Name, now)
	}
	d.levelsStale = false // the order is that of these nodes
	d.work.LevelsChanged(now)
	d.feed.kick()
}
