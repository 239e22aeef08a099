package ledger

import "github.com/tangram-dev/tangram/core/model"

// changes lists the nodes that changed since the last call of Changes, each once, for
// an index that is kept outside the ledger.
type changes struct {
	nodes []model.NodeID
	seen  map[model.NodeID]bool
}

func (c *changes) add(id model.NodeID) {
	if c.seen[id] {
		return
	}
	if c.seen == nil {
		c.seen = map[model.NodeID]bool{}
	}
	c.seen[id] = true
	c.nodes = append(c.nodes, id)
}

// take hands out the list and empties it.
func (c *changes) take() []model.NodeID {
	out := c.nodes
	c.nodes = nil
	for _, id := range out { // clear would cost as much as the map ever held
		delete(c.seen, id)
	}
	return out
}

// Changes hands out the nodes that changed since the last call, in the order of
// their first change, and forgets them: there is one reader.
func (l *Ledger) Changes() []model.NodeID { return l.changes.take() }

// FleetVersion counts changes of which nodes there are and of what they have: equal
// versions of one ledger mean the same inventories.
func (l *Ledger) FleetVersion() uint64 { return l.fleetVersion }
