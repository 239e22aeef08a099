package preempt

import (
	"github.com/tangram-dev/tangram/core/cluster"
	"github.com/tangram-dev/tangram/core/memo"
	"github.com/tangram-dev/tangram/core/model"
)

// departure is the gang for which a member was evicted, empty when it was not evicted
// here, and until when it is expected to be gone.
type departure struct {
	gang  cluster.ID
	until int64
}

// Leaves notes that a holder is terminating, for whatever reason, and until when it is
// expected to be gone. It must be in a gang that is known, and should be alone in it: a pod
// that terminates is no part of the gang that stays.
func (p *Preemptor) Leaves(h model.HolderID, until int64) {
	if _, marked := p.leaving[h]; !marked && p.cluster.GangIDOf(h) != "" && until > p.memo.Now() {
		p.leaving[h] = departure{until: until}
	}
}

// Gone notes that a holder has no place any more.
func (p *Preemptor) Gone(h model.HolderID) {
	delete(p.leaving, h)
	delete(p.spared, h)
}

// Stays notes that a holder does not leave.
func (p *Preemptor) Stays(h model.HolderID) { delete(p.leaving, h) }

// IsLeaving says whether members of a gang were told to go.
func (p *Preemptor) IsLeaving(k *cluster.Tracked) bool {
	if len(p.leaving) == 0 {
		return false
	}
	for h := range k.Places() {
		if _, ok := p.leaving[h]; ok {
			return true
		}
	}
	return false
}

// MemberLeaves says whether a member was told to go.
func (p *Preemptor) MemberLeaves(h model.HolderID) bool {
	_, leaving := p.leaving[h]
	return leaving
}

// Awaits says whether a holder is leaving for a gang.
func (p *Preemptor) Awaits(id cluster.ID) bool {
	for _, d := range p.leaving {
		if d.gang == id {
			return true
		}
	}
	return false
}

// afterDepartures is the ledger without holders that leave for a gang or for no gang in
// particular.
func (p *Preemptor) afterDepartures(k *cluster.Tracked) *cluster.Txn {
	t := p.cluster.Begin()
	for h, d := range p.leaving { // the order does not matter
		if d.gang == k.ID || d.gang == "" {
			t.Drop(h)
		}
	}
	return t
}

// takeOver keeps nodes for a gang that needs no more than what is being freed. Those who
// leave are gone from the ledger and the tree.
func (p *Preemptor) takeOver(k *cluster.Tracked, now int64) bool {
	s := &search{Preemptor: p, gang: k, now: now}
	plan, ok := s.without(nil)
	if !ok || !s.admitted(nil) {
		return false
	}
	for _, x := range plan.Placements {
		for h, d := range p.leaving { // each for itself
			if o := p.cluster.GangOf(h); d.gang == "" && o != nil {
				if at, placed := o.PlaceOf(h); placed && at.Node == x.Node {
					p.leaving[h] = departure{k.ID, d.until}
				}
			}
		}
	}
	p.book.Free(k, &plan, now)
	p.history(k.ID).Evicted = true // an engine before this one chose victims for it
	return true
}

// couldHaveEvicted says whether a holder leaves for no gang in particular that a gang
// could have evicted.
func (p *Preemptor) couldHaveEvicted(k *cluster.Tracked) bool {
	var contest *Contest
	for h, d := range p.leaving {
		o := p.cluster.GangOf(h)
		if d.gang != "" || o == nil {
			continue
		}
		if contest == nil {
			contest = p.rule.For(k)
		}
		if contest.outweighs(o) {
			return true
		}
	}
	return false
}

// AssignDepartures keeps what is being freed for the gangs that need it, before another
// gang takes a part of it: after a restart this is what is left of an eviction.
func (p *Preemptor) AssignDepartures(now int64) {
	if len(p.leaving) == 0 || !p.options.Preempt {
		return
	}
	var successors []*cluster.Tracked
	looked := 0
	for job := range p.cluster.Tree().Waiting(now) { // collected: helping asks the tree
		k := p.cluster.Gang(cluster.ID(job.ID))
		if r := p.book.Of(k.ID); !k.NeverPreempts && p.memo.WorthTrying(&k.Memo, memo.Inheriting) && (r == nil || !r.Freeing()) && p.couldHaveEvicted(k) {
			successors = append(successors, k)
		}
		if looked++; looked >= MaxHelped {
			break
		}
	}
	if len(successors) == 0 {
		return
	}
	left := p.foreseeLeft()
	defer left.Rollback()
	for _, k := range successors {
		p.memo.Failed(&k.Memo, memo.Inheriting)
		gone := p.afterDepartures(k)
		p.takeOver(k, now)
		gone.Rollback()
	}
}

// Settle forgets departures of holders that are gone or did not go, and shortens what is
// kept for gangs for which no holder is leaving any more.
func (p *Preemptor) Settle(now int64) {
	for h, d := range p.leaving { // each for itself
		if d.until < now || p.cluster.GangIDOf(h) == "" {
			delete(p.leaving, h)
		}
	}
	p.book.LastVictimGone(p.Awaits, now)
}

// While victims take their time to go, queues are told of what will be: otherwise
// what one gives would be taken again by the next gang that looks for victims, and
// what another is due be claimed again, until both are on the wrong side of their
// share and it all goes back.

// foreseeLeft shows the queues without those who were told to go.
func (p *Preemptor) foreseeLeft() *cluster.Txn {
	t := p.cluster.Begin()
	gone := map[*cluster.Tracked][]model.HolderID{}
	for h := range p.leaving { // sums do not depend on the order
		if k := p.cluster.GangOf(h); k != nil {
			if _, placed := k.PlaceOf(h); placed {
				gone[k] = append(gone[k], h)
			}
		}
	}
	for k, hs := range gone { // each for itself
		t.Discharge(k, hs)
	}
	return t
}

// foreseeStarts shows the queues with those gangs started for which pods leave.
func (p *Preemptor) foreseeStarts() *cluster.Txn {
	t := p.cluster.Begin()
	for _, r := range p.book.All() {
		if r.Freeing() && !r.Short() {
			t.Start(p.cluster.Gang(r.Gang()))
		}
	}
	return t
}
