package state

import (
	"github.com/tangram-dev/tangram/core/topology"
	"github.com/tangram-dev/tangram/internal/dialect"
)

// Levels are the levels of domains, outermost first; not to be changed.
func (c *Cluster) Levels() topology.Levels { return *c.levels.Load() }

// SetLevels sets the levels of domains, which are the default ones before, and looks
// at every node again. They must be valid.
func (c *Cluster) SetLevels(levels topology.Levels) {
	if levels == nil {
		levels = topology.Levels{} // none, which is not the default
	}
	c.levels.Store(&levels)
	c.everyNode()
}

// facts is what is known of a node beside its Node object.
func (c *Cluster) facts(name string) dialect.Facts {
	return dialect.Facts{GPUNode: c.gpuNodes.get(name), Topology: c.topologies.get(name), Levels: c.Levels()}
}
