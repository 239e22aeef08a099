package ground

import (
	"math"

	"github.com/tangram-dev/tangram/core/cluster"
	"github.com/tangram-dev/tangram/core/model"
	"github.com/tangram-dev/tangram/core/place"
)

// Size is how many nodes are enough for a search for so many members; all: it may be made on
// all nodes at once.
func Size(c *cluster.Cluster, members int) (size int, all bool) {
	size = max(c.Options().Ground, groundPerMember*members)
	nodes, _ := c.Ledger().Size()
	return size, nodes <= 2*size
}

// Judge says of a node how it compares with others, given what is free there and what the
// largest member needs, in thousandths of devices; gives is what holders there could give up.
// Not ok: it is no place to search.
type Judge func(id model.NodeID, free, need int64) (order, then, gives int64, ok bool)

// Sites lists the nodes with what is free there, and asks what else could be.
func Sites(c *cluster.Cluster, k *cluster.Tracked, judge Judge) []Site {
	var largest *model.Request
	need, least := int64(1), int64(math.MaxInt64)
	for _, r := range k.Demand().Roles {
		if len(r.Members) == 0 {
			continue
		}
		d := c.Planner().Demand(r.Request)
		if largest == nil || d > need {
			largest, need = r.Request, max(1, d)
		}
		least = min(least, max(1, d))
	}
	var out []Site
	for id := range c.Ledger().Nodes() { // sorted later
		domain, ok := DomainOf(c, id, k.Require)
		if !ok {
			continue
		}
		free := int64(0)
		if v, ok := c.Ledger().View(id); ok && largest != nil && largest.Kind() == model.Whole {
			free = int64(v.Room(largest.Vendor)) * 1000
		}
		if order, then, gives, ok := judge(id, free, need); ok {
			if hosts := (free + gives) / least; hosts > 0 {
				out = append(out, Site{ID: id, Domain: domain, Order: order, Then: then, Hosts: int(hosts)})
			}
		}
	}
	return out
}

// DomainOf names a node's domain at a level; false when it has none.
func DomainOf(c *cluster.Cluster, id model.NodeID, l model.Level) (string, bool) {
	switch {
	case l.Name == "":
		return "", true
	case l.Depth == model.NodeDepth:
		return string(id), true
	}
	d, ok := c.Ledger().Domains().Of(id, l.Depth)
	return d.Path, ok
}

// Hosts returns what says whether a node could take a member of a gang once the gangs
// there are gone that go.
func Hosts(c *cluster.Cluster, k *cluster.Tracked, goes func(*cluster.Tracked) bool) func(model.NodeID) bool {
	ask := k.Demand()
	c.Constrain(k, ask, nil)
	return func(id model.NodeID) bool {
		v, ok := c.Ledger().ViewWith(id, func(h model.HolderID) bool {
			o := c.GangOf(h)
			return o != nil && goes(o)
		}, nil)
		if !ok {
			return false
		}
		for i, r := range ask.Roles {
			if ask.May != nil && ask.May(i, id) != nil {
				continue
			}
			if _, refusal := place.Fit(r.Request, v); refusal == nil && v.Covers(r.Request) {
				return true
			}
		}
		return false
	}
}

// DemandOf is what a holder on a node gives up when it goes, in thousandths of devices.
func DemandOf(c *cluster.Cluster, k *cluster.Tracked, h model.HolderID) int64 {
	p, _ := k.PlaceOf(h)
	return c.Planner().Demand(k.Roles[p.Role].Request)
}
