package engine

import (
	"maps"
	"slices"

	"github.com/tangram-dev/tangram/core/explain"
	"github.com/tangram-dev/tangram/core/gang"
	"github.com/tangram-dev/tangram/core/model"
	"github.com/tangram-dev/tangram/core/place"
)

// Ticket identifies one permission to start. It is never used twice, so a scheduling
// cycle that lost its place cannot go on with it, and a late failure cannot undo the
// next plan.
type Ticket uint64

// Release is a member's permission to be scheduled, and where.
type Release struct {
	Ticket Ticket
	Gang   ID
	Holder model.HolderID
	// Node is the inventory of the planned node; not to be changed.
	Node  *model.Node
	Grant place.Grant
	// Alone: no other member waits for this one, so it may as well take another node.
	Alone bool
}

// release is a Release with what the engine has to know.
type release struct {
	Release
	batch *batch
	// seen: the member's scheduling cycle has begun; nudges is how often the member was
	// activated again because it had not, nudge when to look next.
	seen   bool
	nudges int
	nudge  int64
	// failures is how often its Binding failed; pauses: it is let go again at nudge.
	failures int
	pauses   bool
}

// batch is members that were planned together: they are bound together, or none.
type batch struct {
	id      uint64
	members []model.HolderID
	// reserved are those that have passed everything but the wait for the others.
	reserved map[model.HolderID]bool
	// going: the last has come, and all are being bound. From here on each stands for
	// itself: a Binding cannot be taken back.
	going bool
	since int64
}

// Effects are what the adapter has to carry out, in this order. They gather until
// Effects is called.
type Effects struct {
	// Revoked are members whose release was taken back.
	Revoked []model.HolderID
	// Stop are members that must stop waiting at Permit: a member planned with them
	// failed.
	Stop []model.HolderID
	// Released are members that may be scheduled now.
	Released []Release
	// Activate are members to be put into kube-scheduler's queue again, Requeue those
	// which that queue seems to have lost.
	Activate, Requeue []model.HolderID
}

// Effects returns what is to be carried out since the last call.
func (e *Engine) Effects() Effects {
	out := e.effects
	e.effects = Effects{}
	return out
}

// release lets members go to the places planned for them.
func (e *Engine) release(k *known, plan *gang.Plan) {
	if e.options.BatchTimeout == 0 {
		return // starts are carried out at once
	}
	b := e.newBatch()
	for _, p := range plan.Placements {
		v, _ := e.ledger.View(p.Node) // it was planned on just now
		b.members = append(b.members, p.Holder)
		e.issue(Release{Gang: k.ID, Holder: p.Holder, Node: v.Node, Grant: p.Grant, Alone: k.exists == 1}, b)
	}
}

// newBatch is an empty batch that is waited for.
func (e *Engine) newBatch() *batch {
	e.batchIDs++
	b := &batch{id: e.batchIDs, reserved: map[model.HolderID]bool{}, since: e.now}
	e.batches[b.id] = b
	e.watchBy(later(e.now, int64(e.options.BatchTimeout)))
	return b
}

// watchBy makes sure that releases are looked at by a time.
func (e *Engine) watchBy(at int64) {
	if e.watchAt == 0 || at < e.watchAt {
		e.watchAt = at
	}
}

// issue makes a release known under a new ticket.
func (e *Engine) issue(r Release, b *batch) {
	e.tickets++
	r.Ticket = e.tickets
	e.releases[r.Holder] = &release{Release: r, batch: b, nudge: later(e.now, int64(e.options.Timing.NudgeAfter))}
	e.effects.Released = append(e.effects.Released, r)
	e.watchBy(later(e.now, int64(e.options.Timing.NudgeAfter)))
}

// Release returns a holder's release; false when it has none, or not yet.
func (e *Engine) Release(h model.HolderID) (Release, bool) {
	if r := e.releases[h]; r != nil && !r.pauses {
		return r.Release, true
	}
	return Release{}, false
}

// current is a holder's release if the ticket is still good.
func (e *Engine) current(h model.HolderID, t Ticket) *release {
	if r := e.releases[h]; r != nil && r.Ticket == t {
		return r
	}
	return nil
}

// Seen tells that a member's scheduling cycle has begun.
func (e *Engine) Seen(h model.HolderID, t Ticket) {
	if r := e.current(h, t); r != nil {
		r.seen = true
	}
}

// Holds says whether a ticket is good and the ledger still gives the holder exactly the
// devices of its release: the last check before the Binding is written.
func (e *Engine) Holds(h model.HolderID, t Ticket) bool {
	r := e.current(h, t)
	if r == nil {
		return false
	}
	node, set := e.ledger.Held(h)
	return node == r.Node.ID && set == r.Grant.Set && !e.inTheWay(h, node)
}

// inTheWay says whether what is promised to a holder is what pods on its node miss that
// were bound without a record.
func (e *Engine) inTheWay(h model.HolderID, node model.NodeID) bool {
	debt := e.ledger.Debt(node)
	if debt == 0 {
		return false
	}
	tx := e.ledger.Begin()
	defer tx.Rollback()
	e.ledger.Drop(h)
	return e.ledger.Debt(node) < debt
}

// Move confirms that a member has its planned node, or lets one that starts alone take
// another node, for reasons that core does not know (preferred affinity). It says why
// not.
func (e *Engine) Move(h model.HolderID, t Ticket, node model.NodeID) (Release, *explain.Refusal) {
	r := e.current(h, t)
	k := e.gangOf(h)
	switch {
	case r == nil || k == nil:
		return Release{}, &explain.Refusal{Code: explain.Taken}
	case node == r.Node.ID:
		return r.Release, nil
	case !r.Alone: // the others of its gang were planned with it
		return Release{}, &explain.Refusal{Code: explain.Neighbor}
	}
	role := k.placed[h].role
	tx := e.ledger.Begin()
	e.ledger.Drop(h)
	v, there := e.ledger.View(node)
	if !there || e.isKept(k, node) {
		tx.Rollback()
		return Release{}, &explain.Refusal{Code: explain.Taken, Need: int64(k.Roles[role].Request.Count())}
	}
	grant, refusal := e.planner.Fit(k.Roles[role].Request, v)
	if refusal != nil {
		tx.Rollback()
		return Release{}, refusal
	}
	claim := grant.Claim(h, k.Roles[role].Request, v.Node)
	claim.Assumed = true
	e.ledger.Put(node, claim)
	tx.Keep()
	e.put(k, h, spot{role: role, node: node})
	r.Node, r.Grant = v.Node, grant
	e.freed++ // the planned node
	return r.Release, nil
}

// isKept says whether a node is kept for another gang than this one.
func (e *Engine) isKept(k *known, node model.NodeID) bool {
	return slices.ContainsFunc(e.closing(k, e.now), func(r *reservation) bool { return r.has(node) })
}

// Reserved tells that a member waits for the others of its batch only. It says whether
// all may go now, and who the others are; not ok when the member's place was taken back
// meanwhile.
func (e *Engine) Reserved(h model.HolderID, t Ticket) (ready bool, others []model.HolderID, ok bool) {
	r := e.current(h, t)
	if r == nil {
		return false, nil, false
	}
	b := r.batch
	b.reserved[h] = true
	if len(b.reserved) < len(b.members) {
		return false, nil, true
	}
	b.going = true
	delete(e.batches, b.id)
	for _, o := range b.members {
		if o != h {
			others = append(others, o)
		}
	}
	return true, others, true
}

// StartFailed tells that a member's cycle failed: its release is taken back, and with it
// those of all members planned with it. atFault: the planned node was wrong, so planning
// anew helps at once; otherwise trying again at once would fail as well, and the gang
// rests. While the others are being bound, a member keeps its place and tries again, a
// few times: a pod that took the place meanwhile would leave the gang in part.
func (e *Engine) StartFailed(h model.HolderID, t Ticket, atFault bool, why string) {
	r := e.current(h, t)
	if r == nil {
		return // taken back before, with another member's
	}
	k := e.gangs[r.Gang]
	if k != nil && !atFault {
		k.lastRefusal = why
		if r.batch.going && (k.Min > 1 || len(k.placed) > 1) && r.failures < e.options.Timing.BindTries {
			e.tryAgain(r)
			return
		}
		e.rest(k)
	}
	e.effects.Stop = append(e.effects.Stop, e.takeBack(h, r)...)
}

// tryAgain lets a member go to its place once more, by itself, after a pause. It keeps
// its devices meanwhile.
func (e *Engine) tryAgain(r *release) {
	e.revoke(r.Holder)
	b := e.newBatch()
	b.members = append(b.members, r.Holder)
	again := &release{Release: r.Release, batch: b, failures: r.failures + 1, pauses: true, nudge: later(e.now, int64(e.options.Timing.Start.First))}
	e.tickets++
	again.Ticket = e.tickets
	e.releases[r.Holder] = again
	e.watchBy(again.nudge)
}

// takeBack undoes a release and returns the members that wait for it at Permit.
func (e *Engine) takeBack(h model.HolderID, r *release) (waiting []model.HolderID) {
	undone := []model.HolderID{h}
	if !r.batch.going {
		undone = r.batch.members
		delete(e.batches, r.batch.id)
	}
	var gone []model.HolderID
	for _, o := range undone {
		if x := e.releases[o]; x == nil || x.batch != r.batch {
			continue
		}
		e.revoke(o)
		if o != h {
			waiting = append(waiting, o)
		}
		gone = append(gone, o)
	}
	e.Undo(r.Gang, gone)
	slices.Sort(waiting)
	return waiting
}

func (e *Engine) revoke(h model.HolderID) {
	delete(e.releases, h)
	e.effects.Revoked = append(e.effects.Revoked, h)
}

// lose takes back the release of a member that is gone, or bound. Members that wait for
// one that is gone are told to stop.
func (e *Engine) lose(h model.HolderID) {
	r := e.releases[h]
	if r == nil {
		return
	}
	if r.batch.going {
		e.revoke(h)
		return
	}
	e.effects.Stop = append(e.effects.Stop, e.takeBack(h, r)...)
}

// rest leaves a gang alone for a while, longer each time.
func (e *Engine) rest(k *known) {
	k.restUntil = later(e.now, e.options.Timing.Start.after(k.failures))
	k.failures++
	e.wakeAt(k.restUntil)
}

// watchReleases lets members go again whose pause is over, activates those again that
// have not come to their cycle, and takes back batches that did not come together in
// time.
func (e *Engine) watchReleases(now int64) {
	if e.watchAt == 0 || now < e.watchAt {
		return
	}
	e.watchAt = 0
	for _, h := range slices.Sorted(maps.Keys(e.releases)) {
		r := e.releases[h]
		if r.seen {
			continue
		}
		if r.nudge > now {
			e.watchBy(r.nudge)
			continue
		}
		switch {
		case r.pauses:
			r.pauses = false
			e.effects.Released = append(e.effects.Released, r.Release)
		case r.nudges < e.options.Timing.Nudges:
			r.nudges++
			e.effects.Activate = append(e.effects.Activate, h)
		default:
			e.effects.Requeue = append(e.effects.Requeue, h)
		}
		r.nudge = later(now, int64(e.options.Timing.NudgeAfter))
		e.watchBy(r.nudge)
	}
	for _, id := range slices.Sorted(maps.Keys(e.batches)) {
		b := e.batches[id]
		if end := later(b.since, int64(e.options.BatchTimeout)); now < end {
			e.watchBy(end)
			continue
		}
		delete(e.batches, id)
		for _, h := range b.members {
			if r := e.releases[h]; r != nil && r.batch == b {
				if k := e.gangs[r.Gang]; k != nil {
					k.lastRefusal = "kube-scheduler did not schedule all members in time"
					e.rest(k)
				}
				e.effects.Stop = append(e.effects.Stop, append(e.takeBack(h, r), h)...)
				break
			}
		}
	}
}

// Open is how many members have a release and are not bound.
func (e *Engine) Open() int { return len(e.releases) }

// EachRelease visits members that have a release and are not bound, sorted.
func (e *Engine) EachRelease(visit func(Release)) {
	for _, h := range slices.Sorted(maps.Keys(e.releases)) {
		visit(e.releases[h].Release)
	}
}
