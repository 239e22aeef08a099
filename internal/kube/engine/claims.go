package engine

import (
	"time"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/tangram-dev/tangram/core/engine"
	"github.com/tangram-dev/tangram/core/explain"
	"github.com/tangram-dev/tangram/core/ledger"
	"github.com/tangram-dev/tangram/core/model"
	"github.com/tangram-dev/tangram/internal/kube/claims"
	"github.com/tangram-dev/tangram/internal/kube/dra"
)

// readClaim applies an event about what ResourceClaims depend on.
func (d *driver) readClaim(ev *Event, now time.Time) {
	switch ev.kind {
	case aboutClaim:
		d.readPods(d.claims.Users(ev.key, nil), now)
		d.updateClaim(ev.key, now)
	case aboutSelectors:
		d.readPods(d.claims.Evaluated(ev.key), now)
	case aboutMatches:
		d.readPods(d.claims.Waiting(), now)
		d.tell(engine.NodeRulesChanged{Node: model.NodeID(ev.key)})
	case aboutClasses:
		for _, n := range d.inventory.All() {
			if len(n.Published) > 0 {
				d.readNode(n.Object.Name, now)
			}
		}
		d.readPods(d.claims.WaitingByClass(), now)
		d.tell(engine.RulesChanged{})
	}
}

// updateClaim tells core what a claim holds in its own name.
func (d *driver) updateClaim(key string, now time.Time) {
	c := d.claims.Update(key, now)
	before, _ := d.core.Nodes.Held(c.Was)
	d.tell(engine.Ended{Holders: c.Ended})
	if c.Hold.Holder != "" {
		d.tell(engine.Bound{Node: c.Node, Holders: []model.HolderID{c.Hold.Holder}, Claims: []ledger.Claim{c.Hold}})
	}
	if after, _ := d.core.Nodes.Held(c.Is); after != "" && after != before {
		d.reportContests(d.contests.Look(after, now))
	}
	if before != "" {
		d.reportContests(d.contests.Look(before, now)) // what it gave free may settle a contest
	}
}

// Allocated tells which GPUs kube-scheduler's allocator has chosen for the pod's claims: what
// was planned, or, where the allocator was to choose (loose), something else on the planned
// node. A refusal says why the ledger does not agree.
func (c *Cycle) Allocated(loose bool, list []*resourceapi.ResourceClaim) (refusal *explain.Refusal) {
	c.engine.do("allocated", func(d *driver, _ time.Time) {
		r, ok := d.core.Releases.Of(c.Holder)
		if !ok || r.Ticket != c.Ticket {
			refusal = &explain.Refusal{Code: explain.Taken}
			return
		}
		var ask *dra.Ask
		if m := d.work.Member(c.Holder); m != nil {
			ask = m.Ask
		}
		var chosen ledger.Claim
		chosen, refusal = d.claims.Chosen(&r, ask, list)
		switch {
		case refusal != nil:
		case len(chosen.Devices)+len(chosen.Parts) == 0: // claims for other devices: GPUs it asks for as a resource
		case loose:
			out := d.tell(engine.DevicesChosen{Holder: c.Holder, Ticket: c.Ticket, Claim: chosen})
			r, refusal = out.Release, out.Refusal
		case !claims.AsPlanned(&chosen, &r):
			refusal = &explain.Refusal{Code: explain.Taken}
		}
		if refusal == nil {
			c.moved(d, r)
		}
	})
	return refusal
}

// HoldClaims holds the GPUs that kube-scheduler's allocator has chosen for claims of a pod
// that the engine does not place. It says why not when others hold them: then none is held.
func (e *Engine) HoldClaims(list []*resourceapi.ResourceClaim) (refusal *explain.Refusal) {
	e.do("allocated", func(d *driver, _ time.Time) {
		for i, claim := range list {
			a, ok := d.claims.Allocation(claim)
			if !ok {
				continue
			}
			if refusal = d.tell(engine.ClaimAssumed{Node: a.Node, Claim: a.Hold}).Refusal; refusal != nil {
				d.unhold(list[:i])
				return
			}
			d.claims.Held(&a)
		}
	})
	return refusal
}

// UnholdClaims takes back what HoldClaims held, unless the API has confirmed it meanwhile.
func (e *Engine) UnholdClaims(list []*resourceapi.ResourceClaim) {
	if len(list) > 0 {
		e.do("allocated", func(d *driver, _ time.Time) { d.unhold(list) })
	}
}

func (d *driver) unhold(list []*resourceapi.ResourceClaim) {
	ended, again := d.claims.Unhold(list)
	d.tell(engine.Ended{Holders: ended})
	d.lookAtClaims(again)
}

// lookAtClaims has claims looked at with the next events.
func (d *driver) lookAtClaims(keys []string) {
	for _, key := range keys {
		d.feed.push(ClaimEvent(key))
	}
}

// Taken are the cards of nodes, by UUID, that the ledger holds for others than a pod.
func (e *Engine) Taken(nodes []string, but types.UID) map[string]map[string]bool {
	out := make(map[string]map[string]bool, len(nodes))
	e.do("allocated", func(d *driver, _ time.Time) {
		for _, node := range nodes {
			out[node] = d.claims.Taken(model.NodeID(node), model.HolderID(but))
		}
	})
	return out
}

// GaveBack tells that a claim was given back, or that this has to be tried again.
func (e *Engine) GaveBack(key string, again bool) {
	e.do("given back", func(d *driver, now time.Time) { d.claims.GaveBack(key, again, now) })
}
