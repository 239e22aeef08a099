package release

import (
	"github.com/tangram-dev/tangram/core/cluster"
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
	Gang   cluster.ID
	Holder model.HolderID
	// Node is the inventory of the planned node; not to be changed.
	Node  *model.Node
	Grant place.Grant
	// Alone: no other member waits for this one, so it may as well take another node.
	Alone bool
}

// issued is a Release with what is known of its way.
type issued struct {
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

// Effects are what the adapter has to carry out, in this order.
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

// Undone is members whose release was taken back: the caller takes their places back.
type Undone struct {
	Gang    cluster.ID
	Members []model.HolderID
}
