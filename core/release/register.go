package release

import (
	"iter"
	"maps"
	"slices"

	"github.com/tangram-dev/tangram/core/cluster"
	"github.com/tangram-dev/tangram/core/gang"
	"github.com/tangram-dev/tangram/core/memo"
	"github.com/tangram-dev/tangram/core/model"
	"github.com/tangram-dev/tangram/core/place"
)

// Register is all releases. Not safe for concurrent use.
type Register struct {
	cluster *cluster.Cluster
	memo    *memo.Memo
	options *cluster.Options

	releases map[model.HolderID]*issued
	batches  map[uint64]*batch
	batchIDs uint64
	tickets  Ticket
	effects  Effects
	// watchAt is when releases are to be looked at; 0: there are none to watch.
	watchAt int64
}

// New returns a register without releases.
func New(c *cluster.Cluster) *Register {
	return &Register{
		cluster: c, memo: c.Memo(), options: c.Options(),
		releases: map[model.HolderID]*issued{}, batches: map[uint64]*batch{},
	}
}

// Effects returns what is to be carried out since the last call.
func (d *Register) Effects() Effects {
	out := d.effects
	d.effects = Effects{}
	return out
}

// Issue lets members go to the places planned for them.
func (d *Register) Issue(k *cluster.Tracked, plan *gang.Plan) {
	if d.options.BatchTimeout == 0 {
		return // starts are carried out at once
	}
	b := d.newBatch()
	for _, p := range plan.Placements {
		v, _ := d.cluster.Ledger().View(p.Node) // it was planned on just now
		b.members = append(b.members, p.Holder)
		d.issue(Release{Gang: k.ID, Holder: p.Holder, Node: v.Node, Grant: p.Grant, Alone: k.Exists() == 1}, b)
	}
}

// newBatch is an empty batch that is waited for.
func (d *Register) newBatch() *batch {
	d.batchIDs++
	b := &batch{id: d.batchIDs, reserved: map[model.HolderID]bool{}, since: d.memo.Now()}
	d.batches[b.id] = b
	d.watchBy(memo.Later(d.memo.Now(), int64(d.options.BatchTimeout)))
	return b
}

// issue makes a release known under a new ticket.
func (d *Register) issue(r Release, b *batch) {
	d.tickets++
	r.Ticket = d.tickets
	nudge := memo.Later(d.memo.Now(), int64(d.options.Timing.NudgeAfter))
	d.releases[r.Holder] = &issued{Release: r, batch: b, nudge: nudge}
	d.effects.Released = append(d.effects.Released, r)
	d.watchBy(nudge)
}

// Release returns a holder's release; false when it has none, or not yet.
func (d *Register) Release(h model.HolderID) (Release, bool) {
	if r := d.releases[h]; r != nil && !r.pauses {
		return r.Release, true
	}
	return Release{}, false
}

// Released says whether a holder is on its way to its place.
func (d *Register) Released(h model.HolderID) bool { return d.releases[h] != nil }

// Pauses says whether a holder has no release for a moment only: its Binding failed while
// the others of its gang were being bound, it keeps its devices, and is let go again.
func (d *Register) Pauses(h model.HolderID) bool {
	r := d.releases[h]
	return r != nil && r.pauses
}

// Current is a holder's release if the ticket is still good.
func (d *Register) Current(h model.HolderID, t Ticket) (Release, bool) {
	if r := d.current(h, t); r != nil {
		return r.Release, true
	}
	return Release{}, false
}

func (d *Register) current(h model.HolderID, t Ticket) *issued {
	if r := d.releases[h]; r != nil && r.Ticket == t {
		return r
	}
	return nil
}

// Seen notes that a member's scheduling cycle has begun.
func (d *Register) Seen(h model.HolderID, t Ticket) {
	if r := d.current(h, t); r != nil {
		r.seen = true
	}
}

// Holds says whether a ticket is good and the ledger still gives the holder exactly the
// devices of its release: the last check before the Binding is written.
func (d *Register) Holds(h model.HolderID, t Ticket) bool {
	r := d.current(h, t)
	if r == nil {
		return false
	}
	node, set := d.cluster.Ledger().Held(h)
	return node == r.Node.ID && set == r.Grant.Set && !d.inTheWay(h, node)
}

// inTheWay says whether what is promised to a holder is what pods on its node miss that
// were bound without a record.
func (d *Register) inTheWay(h model.HolderID, node model.NodeID) bool {
	debt := d.cluster.Ledger().Debt(node)
	if debt == 0 {
		return false
	}
	t := d.cluster.Begin()
	defer t.Rollback()
	t.Drop(h)
	return d.cluster.Ledger().Debt(node) < debt
}

// Replan changes where a member goes: its node, or its devices there.
func (d *Register) Replan(h model.HolderID, node *model.Node, g place.Grant) Release {
	r := d.releases[h]
	r.Node, r.Grant = node, g
	return r.Release
}

// Reserved notes that a member waits for the others of its batch only. It says whether
// all may go now, and who the others are; not ok when the member's place was taken back
// meanwhile.
func (d *Register) Reserved(h model.HolderID, t Ticket) (ready bool, others []model.HolderID, ok bool) {
	r := d.current(h, t)
	if r == nil {
		return false, nil, false
	}
	b := r.batch
	b.reserved[h] = true
	if len(b.reserved) < len(b.members) {
		return false, nil, true
	}
	b.going = true
	delete(d.batches, b.id)
	for _, o := range b.members {
		if o != h {
			others = append(others, o)
		}
	}
	return true, others, true
}

// Open is how many members have a release and are not bound.
func (d *Register) Open() int { return len(d.releases) }

// Each are the members that have a release and are not bound, sorted.
func (d *Register) Each() iter.Seq[Release] {
	return func(yield func(Release) bool) {
		for _, h := range slices.Sorted(maps.Keys(d.releases)) {
			if !yield(d.releases[h].Release) {
				return
			}
		}
	}
}

// Counters are the numbers that were given out.
type Counters struct {
	Tickets Ticket `json:"tickets"`
	Batches uint64 `json:"batches"`
	WatchAt int64  `json:"watchAt,omitempty"`
}

// SaveCounters returns a copy.
func (d *Register) SaveCounters() Counters { return Counters{d.tickets, d.batchIDs, d.watchAt} }

// RestoreCounters makes a register without releases count on.
func (d *Register) RestoreCounters(c Counters) {
	d.tickets, d.batchIDs, d.watchAt = c.Tickets, c.Batches, c.WatchAt
}
