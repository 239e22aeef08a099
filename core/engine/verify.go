package engine

import (
	"fmt"
	"maps"
	"slices"

	"github.com/tangram-dev/tangram/core/arbiter"
	"github.com/tangram-dev/tangram/core/ledger"
	"github.com/tangram-dev/tangram/core/model"
)

// Verify checks what the engine relies on: members' places against their claims, what
// queues are charged against what members hold, and released members that do not come to
// their scheduling cycle and should have been taken back. Cost: all gangs.
func (e *Engine) Verify() error {
	for _, id := range slices.Sorted(maps.Keys(e.gangs)) {
		if err := e.verifyGang(e.gangs[id]); err != nil {
			return fmt.Errorf("gang %s: %w", e.gangs[id].Name, err)
		}
	}
	for _, h := range slices.Sorted(maps.Keys(e.releases)) {
		if r := e.releases[h]; !r.seen && e.now > later(r.batch.since, int64(e.options.BatchTimeout)+2*int64(e.options.Timing.NudgeAfter)) {
			return fmt.Errorf("gang %s: member %s was released and does not come to its scheduling cycle", r.Gang, h)
		}
	}
	return nil
}

func (e *Engine) verifyGang(k *known) error {
	have := make([]int, len(k.Roles))
	var used arbiter.Amounts
	for _, h := range slices.Sorted(maps.Keys(k.placed)) {
		s := k.placed[h]
		node, claim, held := e.ledger.Claim(h)
		switch {
		case e.of[h].id != k.ID:
			return fmt.Errorf("member %s has a place and is in gang %q", h, e.of[h].id)
		case !held || node != s.node:
			return fmt.Errorf("member %s should be on node %q, the ledger has it on %q", h, s.node, node)
		case s.bound == claim.Assumed:
			return fmt.Errorf("member %s: bound %v, claim assumed %v", h, s.bound, claim.Assumed)
		}
		have[s.role]++
		used = used.Plus(s.charge)
	}
	if !slices.Equal(have, k.have) || !slices.Equal(used, k.used) {
		return fmt.Errorf("members by role %v, counted %v; charged %v, counted %v", have, k.have, used, k.used)
	}
	if job, ok := e.tree.Job(arbiter.JobID(k.ID)); ok && len(k.placed) > 0 && job.Queue != k.queue() {
		return fmt.Errorf("charged to queue %q, belongs to %q", job.Queue, k.queue())
	}
	return nil
}

// NodeInWords is what is held on a node, without what is only promised; empty when the
// node is not there.
func (e *Engine) NodeInWords(id model.NodeID) string {
	v, there := e.ledger.View(id)
	if !there {
		return ""
	}
	one := ledger.New()
	if one.SetNode(v.Node) != nil {
		return ""
	}
	for _, c := range e.ledger.Claims(id) {
		if !c.Assumed {
			one.Put(id, c)
		}
	}
	return one.String()
}
