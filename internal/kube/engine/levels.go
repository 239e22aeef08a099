package engine

import (
	"time"
)

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
