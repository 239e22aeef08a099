package engine

import (
	"errors"

	"github.com/tangram-dev/tangram/core/explain"
	"github.com/tangram-dev/tangram/core/memo"
	"github.com/tangram-dev/tangram/core/model"
	"github.com/tangram-dev/tangram/core/release"
)

// Apply tells the engine of events, in their order. The outcome is that of the last one, with
// the effects of all. now must not go back.
func (e *Engine) Apply(now int64, events ...Event) (out Outcome) {
	e.memo.Tick(now)
	for _, event := range events {
		out = Outcome{}
		event.apply(e, &out)
	}
	out.Effects = e.releases.Effects()
	if e.recorder != nil {
		e.recorder.Applied(now, events, &out)
	}
	return out
}

func (v NodeSet) apply(e *Engine, out *Outcome) {
	if v.Node == nil {
		out.Err = errors.New("node: missing")
		return
	}
	out.Changed, out.Err = e.cluster.SetNode(v.Node, v.Telemetry)
	if out.Changed {
		e.book.NodesChanged()
	}
}

func (v NodeGone) apply(e *Engine, out *Outcome) {
	if out.Changed = e.cluster.RemoveNode(v.Node); out.Changed {
		e.book.NodesChanged()
	}
}

func (v NodeRulesChanged) apply(e *Engine, _ *Outcome) {
	e.memo.LiftVetoes(v.Node)
	e.cluster.RulesChanged()
}

func (RulesChanged) apply(e *Engine, _ *Outcome) { e.cluster.RulesChanged() }

func (FleetCounted) apply(e *Engine, _ *Outcome) { e.cluster.CountFleet() }

func (v QueuesSet) apply(e *Engine, out *Outcome) { out.Err = e.cluster.SetQueues(v.Queues) }

func (v QuotasSet) apply(e *Engine, out *Outcome) { out.Err = e.cluster.SetQuotas(v.Quotas) }

func (v Arrived) apply(e *Engine, out *Outcome) {
	if v.Request == nil {
		out.Err = errors.New("request: missing")
		return
	}
	e.cluster.Arrive(v.Request)
}

func (v Submitted) apply(e *Engine, out *Outcome) {
	s, err := e.cluster.Submit(v.Gang)
	if err != nil {
		out.Err = err
		return
	}
	k := s.Gang
	e.book.Changed(k.ID, s.Fits)
	e.preemptor.Changed(k.ID)
	if !s.Alike {
		delete(e.mends, k.ID)
	}
	if s.Confirmed {
		e.preemptor.Confirmed(k.ID)
	}
	for _, h := range s.Lost {
		e.lose(h)
		e.cluster.Abandon(k, h)
	}
	e.recount(k)
}

func (v Withdrawn) apply(e *Engine, _ *Outcome) {
	k := e.cluster.Gang(v.Gang)
	if k == nil {
		return
	}
	for _, r := range k.Roles {
		for _, h := range r.Members {
			e.lose(h)
			e.cluster.Withdraw(h)
			e.preemptor.Stays(h)
		}
	}
	e.cluster.Remove(k)
	e.book.Forget(k.ID)
	e.preemptor.Forget(k.ID)
	delete(e.mends, k.ID)
}

func (v Bound) apply(e *Engine, _ *Outcome) {
	e.cluster.Bind(v.Node, v.Holders, v.Claims)
	for _, h := range v.Holders {
		e.lose(h)
		if k := e.cluster.GangOf(h); k != nil && e.cluster.Confirm(k, h) {
			e.preemptor.Confirmed(k.ID)
			e.recount(k)
		}
	}
}

func (v Ended) apply(e *Engine, _ *Outcome) {
	for _, h := range v.Holders {
		e.cluster.Drop(h)
		e.lose(h)
		e.preemptor.Gone(h)
		if k := e.cluster.GangOf(h); k != nil && e.cluster.Vacate(k, h) {
			e.recount(k)
		}
	}
}

func (v Leaving) apply(e *Engine, _ *Outcome) { e.preemptor.Leaves(v.Holder, v.Until) }

func (v EvictionRefused) apply(e *Engine, _ *Outcome) { e.preemptor.Refused(v.Holder) }

func (v StartUndone) apply(e *Engine, _ *Outcome) {
	e.undo(release.Undone{Gang: v.Gang, Members: v.Members})
}

func (v CycleBegan) apply(e *Engine, _ *Outcome) { e.releases.Seen(v.Holder, v.Ticket) }

func (v NodeTook) apply(e *Engine, _ *Outcome) {
	if r := e.cluster.RoleOf(v.Holder); r != nil && e.memo.AnyVeto() {
		e.memo.Took(r.Shape, v.Node)
	}
}

func (v NodeRefused) apply(e *Engine, _ *Outcome) {
	if r := e.cluster.RoleOf(v.Holder); r != nil {
		e.memo.WakeAt(e.memo.Veto(r.Shape, v.Node, v.Why, v.Late, e.memo.Now()))
		if !v.Late {
			e.cluster.GangOf(v.Holder).Memo.Refused(v.Why.Detail)
		}
	}
}

func (v AllNodesRefused) apply(e *Engine, _ *Outcome) {
	r := e.cluster.RoleOf(v.Holder)
	if r == nil {
		return
	}
	var some map[model.NodeID]bool
	if v.Limited {
		some = map[model.NodeID]bool{}
		for _, n := range v.Except {
			some[n] = true
		}
	}
	e.memo.WakeAt(e.memo.VetoEverywhere(r.Shape, v.Why, some, e.memo.Now()))
	e.cluster.GangOf(v.Holder).Memo.Refused(v.Why.Detail)
}

func (v NodeChosen) apply(e *Engine, out *Outcome) {
	r, current := e.releases.Current(v.Holder, v.Ticket)
	k := e.cluster.GangOf(v.Holder)
	switch {
	case !current || k == nil:
		out.Refusal = &explain.Refusal{Code: explain.Taken}
	case v.Node == r.Node.ID:
		out.Release = r
	case !r.Alone: // the others of its gang were planned with it
		out.Refusal = &explain.Refusal{Code: explain.Neighbor}
	case e.book.Keeps(k, v.Node):
		out.Refusal = &explain.Refusal{Code: explain.Taken, Need: int64(e.cluster.RoleOf(v.Holder).Request.Count())}
	default:
		node, grant, refusal := e.cluster.Move(k, v.Holder, v.Node)
		if out.Refusal = refusal; refusal == nil {
			out.Release = e.releases.Replan(v.Holder, node, grant)
		}
	}
}

func (v DevicesChosen) apply(e *Engine, out *Outcome) {
	r, current := e.releases.Current(v.Holder, v.Ticket)
	k := e.cluster.GangOf(v.Holder)
	if !current || k == nil {
		out.Refusal = &explain.Refusal{Code: explain.Taken}
		return
	}
	grant, refusal := e.cluster.Settle(v.Holder, r.Node, v.Claim)
	if out.Refusal = refusal; refusal == nil {
		e.recount(k)
		out.Release = e.releases.Replan(v.Holder, r.Node, grant)
	}
}

func (v MemberReserved) apply(e *Engine, out *Outcome) {
	out.Ready, out.Others, out.OK = e.releases.Reserved(v.Holder, v.Ticket)
}

func (v StartFailed) apply(e *Engine, _ *Outcome) {
	e.undo(e.releases.Fail(v.Holder, v.Ticket, v.AtFault, v.Why))
}

func (v Assumed) apply(e *Engine, out *Outcome) {
	if v.Request == nil {
		out.Err = errors.New("request: missing")
		return
	}
	node, grant, refusal := e.cluster.Assume(v.Holder, v.Request, v.Node)
	if out.Refusal = refusal; refusal == nil {
		out.Release = Release{Holder: v.Holder, Node: node, Grant: grant}
	}
}

func (v ClaimAssumed) apply(e *Engine, out *Outcome) {
	out.Refusal = e.cluster.AssumeChosen(v.Node, v.Claim)
}

func (v Unassumed) apply(e *Engine, _ *Outcome) { e.cluster.Forget(v.Holder) }

func (v Configured) apply(e *Engine, _ *Outcome) {
	facts := e.options.Facts
	*e.options = v.Options
	if e.options.Facts == nil {
		e.options.Facts = facts
	}
	e.options.Complete()
}

func (Suspended) apply(e *Engine, _ *Outcome) { e.memo.Suspend() }

func (Resumed) apply(e *Engine, _ *Outcome) { e.memo.Resume() }

// recount tells queues what a gang uses and wants. One that lacks members to start keeps no
// nodes.
func (e *Engine) recount(k *tracked) {
	if !e.cluster.Recount(k) {
		e.book.Drop(k.ID)
	}
}

// lose takes back the release of a member that is gone, or bound.
func (e *Engine) lose(h model.HolderID) { e.undo(e.releases.Lose(h)) }

// undo takes back the places of members whose release was taken back.
func (e *Engine) undo(u release.Undone) {
	k := e.cluster.Gang(u.Gang)
	if k == nil {
		return
	}
	undone := e.cluster.Undo(k, u.Members)
	for _, h := range undone {
		e.preemptor.Stays(h)
	}
	if len(undone) > 0 {
		e.preemptor.Undone(k)
	}
	e.memo.Note(memo.GangChanged)
	e.recount(k)
}
