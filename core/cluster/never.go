package cluster

import (
	"github.com/tangram-dev/tangram/core/explain"
	"github.com/tangram-dev/tangram/core/gang"
	"github.com/tangram-dev/tangram/core/model"
)

// Never says why a gang can never fit, or nil: no change of running pods, cordons,
// taints or queues would let it. It is asked once per shape, until the fleet changes.
func (c *Cluster) Never(k *Tracked) *explain.Reason {
	return c.memo.Never(k.shape, c.ledger.FleetVersion(), func() *explain.Reason { return c.findNever(k) })
}

func (c *Cluster) findNever(k *Tracked) *explain.Reason {
	if c.empty == nil {
		c.empty = gang.NewEmpty(c.ledger)
	}
	whole := k.Whole()
	c.Constrain(k, whole, nil)
	if whole.May != nil {
		whole.May = func(role int, node model.NodeID) *explain.Refusal {
			if r := c.options.Facts.May(k.Roles[role].Shape, node); r != nil && r.Code.Permanence() == explain.Fixed {
				return r
			}
			return nil
		}
	}
	failure := c.empty.Never(whole)
	// On an empty fleet only the gang itself is in its way, or a fault.
	if failure == nil || failure.Nodes.Administered() || failure.Bounded {
		return nil
	}
	r := failure.Reason()
	r.Never = true
	return &r
}
