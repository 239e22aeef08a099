package engine

import (
	"github.com/tangram-dev/tangram/core/arbiter"
	"github.com/tangram-dev/tangram/core/explain"
	"github.com/tangram-dev/tangram/core/ledger"
	"github.com/tangram-dev/tangram/core/model"
)

// Event is something that happened, or that an adapter asks for outside of a step. Events
// are plain values: a run of an engine is a list of events and steps, and can be written
// down, replayed and compared (core/replay). The engine keeps what an event refers to, so the
// caller must not change it afterwards.
type Event interface{ apply(*Engine, *Outcome) }

// Outcome is what came of events. Each kind of event says which fields it sets.
type Outcome struct {
	// Effects are what the adapter has to carry out.
	Effects Effects
	// Err: the event was refused, and names the field that is wrong.
	Err error
	// Changed: what can be placed has changed.
	Changed bool
	// Release is where a member goes now; Refusal says why not.
	Release Release
	Refusal *explain.Refusal
	// OK: the ticket is good. Ready: all members of the batch may be bound now, Others are
	// those beside this one.
	OK, Ready bool
	Others    []model.HolderID
}

// The fleet and its rules.
type (
	// NodeSet adds a node or replaces its inventory, with what was measured on its devices.
	// Sets Changed and Err.
	NodeSet struct {
		Node      *model.Node
		Telemetry []model.Telemetry
	}
	// NodeGone takes a node away. What is bound there counts again when it returns. Sets
	// Changed.
	NodeGone struct{ Node model.NodeID }
	// NodeRulesChanged says: a node may take what it refused before: its labels, taints or cordon
	// changed, or what filters look at there.
	NodeRulesChanged struct{ Node model.NodeID }
	// RulesChanged says: nodes may take what they refused before, for reasons that core does not
	// know.
	RulesChanged struct{}
	// FleetCounted tells the tree of queues what the nodes offer now.
	FleetCounted struct{}
	// QueuesSet replaces the queues. Sets Err.
	QueuesSet struct{ Queues []arbiter.Queue }
	// QuotasSet replaces the quotas of all namespaces. Sets Err.
	QuotasSet struct{ Quotas []arbiter.Quota }
)

// Gangs and their members.
type (
	// Arrived tells of a new request, once per pod, so that the planner learns what is asked
	// for.
	Arrived struct{ Request *model.Request }
	// Submitted adds a gang or tells what is new about it: members came or went, it changed.
	// What was promised to members that are gone is taken back. Sets Err.
	Submitted struct{ Gang Gang }
	// Withdrawn takes a gang away, with all that was promised to it.
	Withdrawn struct{ Gang ID }
	// Bound tells what a pod that is bound to a node holds there. Holders are all names under
	// which it may hold something. What was assumed for it is confirmed or replaced.
	Bound struct {
		Node    model.NodeID
		Holders []model.HolderID
		Claims  []ledger.Claim
	}
	// Ended says: holders have no place any more: their pod ended, was evicted or is gone. A member
	// that still exists waits again.
	Ended struct{ Holders []model.HolderID }
	// Leaving says: a holder is terminating, for whatever reason, and is expected to be gone by
	// Until. It must be in a gang that is known, and should be alone in it.
	Leaving struct {
		Holder model.HolderID
		Until  int64
	}
	// EvictionRefused says: a victim may not be evicted now: it is left alone for a while, and the
	// gang it should have made room for has to find others.
	EvictionRefused struct{ Holder model.HolderID }
	// StartUndone takes back the start of members that could not be carried out: they wait
	// again. Members that are confirmed by now run, and stay. A caller that undoes one member
	// of a start undoes all, or the gang stays below its minimum until it is repaired. For
	// engines without releases.
	StartUndone struct {
		Gang    ID
		Members []model.HolderID
	}
)

// A member's scheduling cycle.
type (
	// CycleBegan says: a member's scheduling cycle has begun.
	CycleBegan struct {
		Holder model.HolderID
		Ticket Ticket
	}
	// NodeTook says: kube-scheduler's filters let a member onto a node.
	NodeTook struct {
		Holder model.HolderID
		Node   model.NodeID
	}
	// NodeRefused says: kube-scheduler's filters refused a planned node for a member, and what they
	// said; Late when they judged by pods that are gone.
	NodeRefused struct {
		Holder model.HolderID
		Node   model.NodeID
		Why    explain.Refusal
		Late   bool
	}
	// AllNodesRefused says: kube-scheduler's filters refuse a member on every node, but for Except
	// when Limited (the nodes its volumes are on).
	AllNodesRefused struct {
		Holder  model.HolderID
		Why     explain.Refusal
		Except  []model.NodeID
		Limited bool
	}
	// NodeChosen confirms that a member has its planned node, or lets one that starts alone
	// take another node, for reasons that core does not know (preferred affinity). Sets
	// Release and Refusal.
	NodeChosen struct {
		Holder model.HolderID
		Ticket Ticket
		Node   model.NodeID
	}
	// DevicesChosen gives a member the devices of its planned node that an allocator has
	// chosen instead of the plan's: the whole devices and parts of Claim. Sets Release, or
	// Refusal when others hold them; then nothing has changed.
	DevicesChosen struct {
		Holder model.HolderID
		Ticket Ticket
		Claim  ledger.Claim
	}
	// MemberReserved says: a member waits for the others of its batch only. Sets OK, Ready and
	// Others; not OK when the member's place was taken back meanwhile.
	MemberReserved struct {
		Holder model.HolderID
		Ticket Ticket
	}
	// StartFailed says: a member's cycle failed: its release is taken back, and with it those of all
	// members planned with it. AtFault: the planned node was wrong, so planning anew helps at
	// once; otherwise the gang rests.
	StartFailed struct {
		Holder  model.HolderID
		Ticket  Ticket
		AtFault bool
		Why     string
	}
)

// Holders outside of any gang.
type (
	// Assumed holds devices of the planner's choice on a node for a holder (the extender binds
	// what its kube-scheduler has chosen). Sets Release and Refusal.
	Assumed struct {
		Holder  model.HolderID
		Request *model.Request
		Node    model.NodeID
	}
	// ClaimAssumed holds devices for a holder which something else has chosen, until it is
	// confirmed (Bound) or ended. Sets Refusal when others hold them.
	ClaimAssumed struct {
		Node  model.NodeID
		Claim ledger.Claim
	}
	// Unassumed takes back what was assumed, unless it has been confirmed.
	Unassumed struct{ Holder model.HolderID }
)

// The engine itself.
type (
	// Configured changes the options from the next step on. Facts stay when it has none.
	Configured struct{ Options Options }
	// Suspended says: starts cannot be carried out now: none is decided for a while, longer each
	// time.
	Suspended struct{}
	// Resumed says: a start was carried out.
	Resumed struct{}
	// Restored replaces what was learned. It comes before the first step, when nodes, queues
	// and gangs are known and the fleet is counted.
	Restored struct{ Learned Learned }
	// PassingRestored gives an engine that has not decided yet what another one knew. It comes
	// after Restored. What is about gangs, holders and nodes that are not known here is left
	// out.
	PassingRestored struct{ Passing Passing }
	// CountersRestored makes an engine that has not decided yet count on where another one was
	// (Checkpoint). It comes before PassingRestored, whose pauses are counted in steps.
	CountersRestored struct{ Counters Counters }
)
