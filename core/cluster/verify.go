package cluster

import (
	"fmt"
	"maps"
	"slices"

	"github.com/tangram-dev/tangram/core/arbiter"
)

// Verify checks members' places against their claims, and what queues are charged against
// what members hold. Cost: all gangs.
func (c *Cluster) Verify() error {
	for _, id := range slices.Sorted(maps.Keys(c.gangs)) {
		if err := c.verifyGang(c.gangs[id]); err != nil {
			return fmt.Errorf("gang %s: %w", c.gangs[id].Name, err)
		}
	}
	return nil
}

func (c *Cluster) verifyGang(k *Tracked) error {
	have := make([]int, len(k.Roles))
	var used arbiter.Amounts
	for _, h := range k.PlacedMembers() {
		p := k.placed[h]
		node, claim, held := c.ledger.Claim(h)
		switch {
		case c.members[h].gang != k.ID:
			return fmt.Errorf("member %s has a place and is in gang %q", h, c.members[h].gang)
		case !held || node != p.Node:
			return fmt.Errorf("member %s should be on node %q, the ledger has it on %q", h, p.Node, node)
		case p.Bound == claim.Assumed:
			return fmt.Errorf("member %s: bound %v, claim assumed %v", h, p.Bound, claim.Assumed)
		}
		have[p.Role]++
		used = used.Plus(p.Charge)
	}
	if !slices.Equal(have, k.have) || !slices.Equal(used, k.used) {
		return fmt.Errorf("members by role %v, counted %v; charged %v, counted %v", have, k.have, used, k.used)
	}
	if job, ok := c.tree.Job(arbiter.JobID(k.ID)); ok && len(k.placed) > 0 && job.Queue != k.QueueName() {
		return fmt.Errorf("charged to queue %q, belongs to %q", job.Queue, k.QueueName())
	}
	if (c.running[k.ID] == k) != (len(k.placed) > 0) {
		return fmt.Errorf("listed as running: %v, members with a place: %d", c.running[k.ID] == k, len(k.placed))
	}
	return nil
}
