package cluster

import (
	"slices"
	"time"

	"github.com/tangram-dev/tangram/core/arbiter"
	"github.com/tangram-dev/tangram/core/explain"
	"github.com/tangram-dev/tangram/core/ledger"
	"github.com/tangram-dev/tangram/core/memo"
	"github.com/tangram-dev/tangram/core/model"
	"github.com/tangram-dev/tangram/core/place"
	"github.com/tangram-dev/tangram/core/planner"
)

// What happens outside comes in here: nodes, and pods that are bound or gone.

// SetNode adds a node or replaces its inventory, with what was measured on its devices.
// It says whether that changed what can be placed there.
func (c *Cluster) SetNode(n *model.Node, t []model.Telemetry) (changed bool, err error) {
	before := c.ledger.Version()
	if err := c.ledger.SetNode(n); err != nil {
		return false, err
	}
	c.ledger.SetTelemetry(n.ID, t)
	return c.nodesChanged(before), nil
}

// RemoveNode takes a node away. What is bound there counts again when it returns.
func (c *Cluster) RemoveNode(id model.NodeID) (changed bool) {
	before := c.ledger.Version()
	c.ledger.RemoveNode(id)
	c.memo.LiftVetoes(id)
	return c.nodesChanged(before)
}

func (c *Cluster) nodesChanged(before uint64) bool {
	if c.ledger.Version() == before {
		return false
	}
	c.memo.Note(memo.FleetChanged)
	return true
}

// SetQueues replaces the queues; see arbiter.Tree.SetQueues.
func (c *Cluster) SetQueues(queues []arbiter.Queue) error {
	c.RulesChanged()
	return c.tree.SetQueues(queues)
}

// SetQuotas replaces the quotas of all namespaces.
func (c *Cluster) SetQuotas(quotas []arbiter.Quota) error {
	c.RulesChanged()
	return c.tree.SetQuotas(quotas)
}

// RulesChanged tells that nodes may take what they refused before, for reasons that core
// does not know.
func (c *Cluster) RulesChanged() {
	c.memo.Note(memo.RulesChanged)
	c.memo.ForgetImpossible()
}

// Arrive tells of a new request, so that the planner learns what is asked for.
func (c *Cluster) Arrive(r *model.Request) { c.planner.Arrive(r) }

// Bind notes what a pod that is bound to a node holds there. holders are all names under
// which it may hold something. What was assumed for it is confirmed or replaced.
func (c *Cluster) Bind(node model.NodeID, holders []model.HolderID, claims []ledger.Claim) {
	for _, h := range holders {
		if !slices.ContainsFunc(claims, func(c ledger.Claim) bool { return c.Holder == h }) {
			c.Drop(h)
		}
	}
	for _, claim := range claims {
		was, old, known := c.ledger.Claim(claim.Holder)
		_, held := c.ledger.Held(claim.Holder)
		c.ledger.Put(node, claim)
		_, holds := c.ledger.Held(claim.Holder)
		// Who else may be there depends on devices and on labels.
		moved := known && (was != node || held != holds || old.Count != claim.Count || len(old.Parts) != len(claim.Parts))
		labels := !known || !slices.Equal(old.Labels, claim.Labels) || !slices.EqualFunc(old.Apart, claim.Apart, model.AffinityRule.Equal)
		if moved || labels && c.affine > 0 {
			c.memo.Note(memo.ClaimMoved)
		}
	}
}

// Confirm notes that a member is bound, if its claim says so; Recount must follow then.
func (c *Cluster) Confirm(k *Tracked, h model.HolderID) bool {
	node, claim, held := c.ledger.Claim(h)
	if p := k.placed[h]; !held || claim.Assumed || p.Bound && p.Node == node {
		return false
	}
	since := c.memo.Now()
	if claim.Since < memo.Never/int64(time.Second) {
		since = claim.Since * int64(time.Second)
	}
	c.found(k, h, node, since)
	p := k.placed[h]
	p.Bound = true
	k.placed[h] = p
	k.Memo.Started()
	return true
}

// found notes that a member runs since a time.
func (c *Cluster) found(k *Tracked, h model.HolderID, node model.NodeID, since int64) {
	if len(k.placed) == 0 || since < k.started {
		k.started = since
	}
	c.put(k, h, Place{Role: c.members[h].role, Node: node})
}

// Drop ends what a holder holds.
func (c *Cluster) Drop(h model.HolderID) {
	if _, _, held := c.ledger.Claim(h); held {
		c.ledger.Drop(h)
		c.memo.Note(memo.ClaimEnded)
	}
}

// Forget ends what a holder was promised. What its pod holds is confirmed and stays until
// the pod is gone, whatever becomes of its gang.
func (c *Cluster) Forget(h model.HolderID) {
	if _, claim, held := c.ledger.Claim(h); held && claim.Assumed {
		c.ledger.Drop(h)
		c.memo.Note(memo.ClaimEnded)
	}
}

// Assume holds devices for a holder outside of any gang: of the planner's choice on a node.
func (c *Cluster) Assume(h model.HolderID, r *model.Request, node model.NodeID) (*model.Node, place.Grant, *explain.Refusal) {
	return c.promise(h, r, node, explain.NoDevices)
}

// promise holds devices of the planner's choice on a node; missing is the refusal's code when
// there is no such node.
func (c *Cluster) promise(h model.HolderID, r *model.Request, node model.NodeID, missing explain.Code) (*model.Node, place.Grant, *explain.Refusal) {
	v, there := c.ledger.View(node)
	if !there {
		return nil, place.Grant{}, &explain.Refusal{Code: missing, Need: int64(r.Count())}
	}
	grant, refusal := c.planner.Fit(r, v)
	if refusal != nil {
		return nil, place.Grant{}, refusal
	}
	claim := grant.Claim(h, r, v.Node)
	claim.Assumed = true
	c.ledger.Put(node, claim)
	return v.Node, grant, nil
}

// AssumeChosen holds devices for a holder outside of any gang, which something else has
// chosen, until it is confirmed (Bind) or ended. It says why not when others hold them.
func (c *Cluster) AssumeChosen(node model.NodeID, claim ledger.Claim) *explain.Refusal {
	tx := c.ledger.Begin()
	if _, refusal := c.assume(node, claim); refusal != nil {
		tx.Rollback()
		return refusal
	}
	tx.Keep()
	return nil
}

// assume puts a claim whose devices are all known, if all of them are free.
func (c *Cluster) assume(node model.NodeID, claim ledger.Claim) (model.Mask, *explain.Refusal) {
	taken := &explain.Refusal{Code: explain.Taken, Need: int64(claim.Count + len(claim.Parts))}
	v, there := c.ledger.View(node)
	if !there {
		return 0, taken
	}
	var want model.Mask
	for _, d := range claim.Devices {
		slot := v.Node.Slot(d.Index, d.UUID)
		if slot < 0 || v.Held.Has(slot) || want.Has(slot) {
			return 0, taken
		}
		want = want.With(slot)
	}
	for _, p := range claim.Parts {
		slot := v.Node.Slot(p.Device.Index, p.Device.UUID)
		if slot < 0 || v.Held.Has(slot) && !v.Shared.Has(slot) {
			return 0, taken
		}
		want = want.With(slot)
	}
	debt := c.ledger.Debt(node)
	claim.Assumed = true
	c.ledger.Put(node, claim)
	if _, got := c.ledger.Held(claim.Holder); got != want || c.ledger.Debt(node) > debt {
		return 0, taken // a part did not fit at its place
	}
	return want, nil
}

// Restore replaces what queues and planner had learned; gap is for how long queues are taken
// to have gone on as they were since.
func (c *Cluster) Restore(queues arbiter.Saved, mix planner.Mix, now int64, gap time.Duration) {
	c.tree.Restore(queues, now, gap)
	c.planner.Restore(mix)
	c.RulesChanged()
}
