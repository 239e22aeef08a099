package engine

import (
	"iter"

	"github.com/tangram-dev/tangram/core/answer"
	"github.com/tangram-dev/tangram/core/arbiter"
	"github.com/tangram-dev/tangram/core/explain"
	"github.com/tangram-dev/tangram/core/gang"
	"github.com/tangram-dev/tangram/core/ledger"
	"github.com/tangram-dev/tangram/core/measure"
	"github.com/tangram-dev/tangram/core/memo"
	"github.com/tangram-dev/tangram/core/model"
	"github.com/tangram-dev/tangram/core/planner"
	"github.com/tangram-dev/tangram/core/score"
)

// Tests tell events one by one, at the time of the last one, and gather effects until they
// ask for them.

// mailbox is what tests have not asked for yet.
var mailbox = map[*Engine]*Effects{}

func (e *Engine) tell(v Event) Outcome {
	out := e.Apply(e.memo.Now(), v)
	e.post(out.Effects)
	return out
}

func (e *Engine) post(fx Effects) {
	m := mailbox[e]
	if m == nil {
		m = &Effects{}
		mailbox[e] = m
	}
	m.Revoked, m.Stop = append(m.Revoked, fx.Revoked...), append(m.Stop, fx.Stop...)
	m.Released = append(m.Released, fx.Released...)
	m.Activate, m.Requeue = append(m.Activate, fx.Activate...), append(m.Requeue, fx.Requeue...)
}

// Decide is Step with its effects put by for Effects.
func (e *Engine) Decide(now int64) Plan {
	p := e.Step(now)
	e.post(p.Effects)
	return p
}

// Effects returns what is to be carried out since the last call.
func (e *Engine) Effects() (out Effects) {
	if m := mailbox[e]; m != nil {
		out = *m
		delete(mailbox, e)
	}
	return out
}

func (e *Engine) Submit(g Gang) error { return e.tell(Submitted{g}).Err }
func (e *Engine) Withdraw(id ID)      { e.tell(Withdrawn{id}) }
func (e *Engine) Tick(now int64)      { e.Apply(now) }
func (e *Engine) SetNode(n *model.Node, t []model.Telemetry) (bool, error) {
	out := e.tell(NodeSet{n, t})
	return out.Changed, out.Err
}
func (e *Engine) RemoveNode(id model.NodeID) bool          { return e.tell(NodeGone{id}).Changed }
func (e *Engine) NodeRulesChanged(id model.NodeID)         { e.tell(NodeRulesChanged{id}) }
func (e *Engine) Changed()                                 { e.tell(RulesChanged{}) }
func (e *Engine) CountFleet()                              { e.tell(FleetCounted{}) }
func (e *Engine) SetQueues(q []arbiter.Queue) error        { return e.tell(QueuesSet{q}).Err }
func (e *Engine) SetQuotas(q []arbiter.Quota) error        { return e.tell(QuotasSet{q}).Err }
func (e *Engine) Arrive(r *model.Request)                  { e.tell(Arrived{r}) }
func (e *Engine) Ended(h ...model.HolderID)                { e.tell(Ended{h}) }
func (e *Engine) Leaves(h model.HolderID, until int64)     { e.tell(Leaving{h, until}) }
func (e *Engine) EvictionRefused(h model.HolderID)         { e.tell(EvictionRefused{h}) }
func (e *Engine) Undo(id ID, members []model.HolderID)     { e.tell(StartUndone{id, members}) }
func (e *Engine) Seen(h model.HolderID, t Ticket)          { e.tell(CycleBegan{h, t}) }
func (e *Engine) Took(h model.HolderID, n model.NodeID)    { e.tell(NodeTook{h, n}) }
func (e *Engine) Unassume(h model.HolderID)                { e.tell(Unassumed{h}) }
func (e *Engine) Suspend()                                 { e.tell(Suspended{}) }
func (e *Engine) Resume()                                  { e.tell(Resumed{}) }
func (e *Engine) Restore(l Learned, now int64)             { e.Apply(now, Restored{l}) }
func (e *Engine) RestorePassing(p Passing)                 { e.tell(PassingRestored{p}) }
func (e *Engine) Holds(h model.HolderID, t Ticket) bool    { return e.Answers.Releases.Holds(h, t) }
func (e *Engine) Release(h model.HolderID) (Release, bool) { return e.Answers.Releases.Of(h) }
func (e *Engine) Pauses(h model.HolderID) bool             { return e.Answers.Releases.Pauses(h) }
func (e *Engine) Open() int                                { return e.Answers.Releases.Open() }
func (e *Engine) Tree() *arbiter.Tree                      { return e.cluster.Tree() }
func (e *Engine) Bound(n model.NodeID, hs []model.HolderID, cs []ledger.Claim) {
	e.tell(Bound{n, hs, cs})
}

func (e *Engine) Refused(h model.HolderID, n model.NodeID, why explain.Refusal, late bool) {
	e.tell(NodeRefused{h, n, why, late})
}

func (e *Engine) RefusedEverywhere(h model.HolderID, why explain.Refusal, except []model.NodeID) {
	e.tell(AllNodesRefused{h, why, except, except != nil})
}

func (e *Engine) Move(h model.HolderID, t Ticket, n model.NodeID) (Release, *explain.Refusal) {
	out := e.tell(NodeChosen{h, t, n})
	return out.Release, out.Refusal
}

func (e *Engine) Settle(h model.HolderID, t Ticket, c ledger.Claim) (Release, *explain.Refusal) {
	out := e.tell(DevicesChosen{h, t, c})
	return out.Release, out.Refusal
}

func (e *Engine) Reserved(h model.HolderID, t Ticket) (bool, []model.HolderID, bool) {
	out := e.tell(MemberReserved{h, t})
	return out.Ready, out.Others, out.OK
}

func (e *Engine) StartFailed(h model.HolderID, t Ticket, atFault bool, why string) {
	e.tell(StartFailed{h, t, atFault, why})
}

func (e *Engine) Assume(h model.HolderID, r *model.Request, n model.NodeID) (Release, *explain.Refusal) {
	out := e.tell(Assumed{h, r, n})
	return out.Release, out.Refusal
}

func (e *Engine) Pend(n model.NodeID, c ledger.Claim) *explain.Refusal {
	return e.tell(ClaimAssumed{n, c}).Refusal
}

func (e *Engine) Configure(change func(*Options)) {
	o := e.Options()
	change(&o)
	e.tell(Configured{o})
}

func (e *Engine) Why(id ID) explain.Reason { return e.Reasons.Why(id) }
func (e *Engine) Expect(id ID, r *explain.Reason) answer.Expectation {
	return e.Reasons.Expect(id, r)
}
func (e *Engine) Placed(id ID) int                                 { return e.Gangs.Placed(id) }
func (e *Engine) Gang(id ID) (Gang, bool)                          { return e.Gangs.Gang(id) }
func (e *Engine) Of(h model.HolderID) (ID, bool)                   { return e.Gangs.Of(h) }
func (e *Engine) NodeOf(h model.HolderID) model.NodeID             { return e.Gangs.NodeOf(h) }
func (e *Engine) QueueOf(h model.HolderID) string                  { return e.Gangs.QueueOf(h) }
func (e *Engine) Account(id ID) (answer.Account, bool)             { return e.Gangs.Account(id) }
func (e *Engine) GangState(id ID) (answer.GangState, bool)         { return e.Gangs.GangState(id) }
func (e *Engine) Reservation(id ID) (int64, []model.NodeID, bool)  { return e.Gangs.Reservation(id) }
func (e *Engine) Freeing(id ID) bool                               { return e.Gangs.Freeing(id) }
func (e *Engine) KeptNodes() []model.NodeID                        { return e.Nodes.KeptNodes() }
func (e *Engine) Held(h model.HolderID) (model.NodeID, model.Mask) { return e.Nodes.Held(h) }
func (e *Engine) Confirmed() string                                { return e.Nodes.Confirmed() }
func (e *Engine) Fit(r *model.Request, n model.NodeID, t *answer.Trial) *explain.Refusal {
	return e.Nodes.Fit(r, n, t)
}
func (e *Engine) Candidates(r *model.Request, w score.Weights) iter.Seq[planner.Candidate] {
	return e.Nodes.Candidates(r, w)
}
func (e *Engine) Alternatives(h model.HolderID, t Ticket, n int) []model.NodeID {
	return e.Nodes.Alternatives(h, t, n)
}
func (e *Engine) Count(of func(model.NodeID) answer.Condition, idle *measure.Idle, now int64) answer.Census {
	return e.Figures.Count(of, idle, now)
}

// Leftovers counts what an engine without gangs must not remember.
func (e *Engine) Leftovers() int {
	s := e.preemptor.Save()
	partial := 0
	for range e.cluster.Partial() {
		partial++
	}
	return len(e.cluster.Gangs()) + len(e.cluster.Running()) + partial + len(e.cluster.Ranks()) + len(e.book.All()) + len(s.Leaving) + len(e.mends)
}

// Kept says whether nodes are kept for a gang, or a holder is to leave.
func (e *Engine) Kept() bool { return len(e.book.All())+len(e.preemptor.Save().Leaving) > 0 }

// Vetoes counts what is remembered of refused nodes.
func (e *Engine) Vetoes() int { return len(e.memo.SaveVetoes()) }

// Freed counts what may have given a place to a gang that had none.
func (e *Engine) RoomVersion() uint64 { return e.memo.RoomVersion() }

// Demand is what a gang needs now.
func (e *Engine) Demand(id ID) *gang.Ask {
	k := e.cluster.Gang(id)
	ask := k.Demand()
	e.cluster.Constrain(k, ask, nil)
	return ask
}

// Mending is how many groups of a running gang have been tried that must be made whole, and
// whether they are worth trying.
func (e *Engine) Mending(id ID) (tried int, worth bool) {
	if m := e.mends[id]; m != nil {
		tried = len(m.tried)
	}
	return tried, e.memo.WorthTrying(&e.cluster.Gang(id).Memo, memo.Mending)
}

// Found tells of a member that runs already since a time: the ledger has its claim.
func (e *Engine) Found(h model.HolderID, node model.NodeID, since int64) {
	k := e.cluster.GangOf(h)
	placement := gang.Placement{Holder: h, Role: e.cluster.RoleNumber(h), Node: node}
	e.cluster.Take(k, &gang.Plan{Placements: []gang.Placement{placement}}, since)
	if since < k.Started() {
		e.cluster.RestoreStart(k, since)
	}
	e.recount(k)
}

func (e *Engine) Size() (int, int)                                     { return e.Gangs.Size() }
func (e *Engine) Assumes(h model.HolderID) bool                        { return e.Nodes.Assumes(h) }
func (e *Engine) Unfree(n model.NodeID, but model.HolderID) model.Mask { return e.Nodes.Unfree(n, but) }
