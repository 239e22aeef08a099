package preempt

import (
	"github.com/tangram-dev/tangram/core/cluster"
	"github.com/tangram-dev/tangram/core/ground"
	"github.com/tangram-dev/tangram/core/memo"
	"github.com/tangram-dev/tangram/core/model"
	"github.com/tangram-dev/tangram/core/release"
	"github.com/tangram-dev/tangram/core/reserve"
)

// MaxHelped bounds for how many gangs a step looks for victims.
const MaxHelped = 16

// Evict is holders that must go so that a gang can start.
type Evict struct {
	// For is the gang, Members are the holders, whole bundles, sorted.
	For     cluster.ID
	Members []model.HolderID
}

// Preemptor finds victims. Not safe for concurrent use.
type Preemptor struct {
	cluster  *cluster.Cluster
	memo     *memo.Memo
	options  *cluster.Options
	book     *reserve.Book
	releases *release.Register
	rule     *Rule

	// leaving are members that terminate, spared those that could not be evicted,
	// until when they are left alone.
	leaving map[model.HolderID]departure
	spared  map[model.HolderID]int64
	// gangs is what came of evictions for gangs, and where victims are looked for next.
	gangs map[cluster.ID]*history
}

// New returns a preemptor that has evicted nothing.
func New(c *cluster.Cluster, b *reserve.Book, r *release.Register) *Preemptor {
	p := &Preemptor{
		cluster: c, memo: c.Memo(), options: c.Options(), book: b, releases: r,
		leaving: map[model.HolderID]departure{}, spared: map[model.HolderID]int64{}, gangs: map[cluster.ID]*history{},
	}
	p.rule = &Rule{cluster: c, memo: p.memo, options: p.options, leaves: p.IsLeaving, short: map[shortage]int64{}}
	return p
}

// Rule says which gang may be evicted for which.
func (p *Preemptor) Rule() *Rule { return p.rule }

// Help finds victims for the first of some gangs that some can help, and returns it. A
// queue must be due what it claims also with those started for which others leave
// already, and must have what it gives also before they start. more: the search is to go on
// in the next step.
func (p *Preemptor) Help(gangs []*cluster.Tracked, now int64) (evict Evict, helped *cluster.Tracked, more bool) {
	if !p.options.Preempt {
		return Evict{}, nil, false
	}
	left := p.foreseeLeft()
	defer left.Rollback()
	started := p.foreseeStarts()
	defer func() { started.Rollback() }()
	lawful := func(s *search, victims []*bundle) bool {
		started.Rollback()
		ok := len(s.givable(victims)) == len(victims)
		started = p.foreseeStarts()
		return ok
	}
	tried := 0
	for _, k := range gangs {
		if !p.mayEvict(k) {
			continue
		}
		if evict, ok := p.evict(k, lawful, now); ok {
			return evict, k, more
		}
		if _, all := ground.Size(p.cluster, k.Missing()); !all { // one search is enough for a step
			more = p.groundOf(k.ID) > 0
			break
		}
		if tried++; tried >= MaxHelped {
			break
		}
	}
	return Evict{}, nil, more
}

// mayEvict says whether to look for victims for a gang: there are some by the rules of
// queues and priorities, none are leaving for it already, and it was not found just
// now that no eviction helps, or that evictions did not.
func (p *Preemptor) mayEvict(k *cluster.Tracked) bool {
	r := p.book.Of(k.ID)
	if r != nil && r.Freeing() && !r.Short() || !p.memo.WorthTrying(&k.Memo, memo.Evicting) || p.pausedFor(k.ID) || k.NeverPreempts {
		return false
	}
	return r != nil && r.Short() || p.rule.Outranks(k) || p.Awaits(k.ID) || len(p.rule.OverShare(k)) > 0
}

// evict finds the cheapest holders whose leaving lets a gang start, proven by a plan
// and by the tree of queues, or says that no eviction helps. Holders that leave already are
// counted as gone, unless they make room for another gang. The nodes are kept for the gang.
func (p *Preemptor) evict(k *cluster.Tracked, lawful func(*search, []*bundle) bool, now int64) (Evict, bool) {
	gone := p.afterDepartures(k)
	defer gone.Rollback()
	if p.Awaits(k.ID) && p.takeOver(k, now) {
		return Evict{}, false // only the nodes were not kept any more
	}
	g := p.ground(k)
	s := &search{Preemptor: p, gang: k, only: g.Nodes, now: now}
	victims, plan, ok := s.victims()
	if !ok || !lawful(s, victims) {
		if g.More {
			p.history(k.ID).ground++
			return Evict{}, false
		}
		p.resetGround(k.ID)
		p.book.DropShort(k.ID)
		p.memo.Failed(&k.Memo, memo.Evicting)
		return Evict{}, false
	}
	k.Memo.Succeeded(memo.Evicting)
	h := p.history(k.ID)
	h.ground, h.Evicted = 0, true
	out := Evict{For: k.ID, Members: members(victims)}
	for _, h := range out.Members {
		p.leaving[h] = departure{k.ID, now + int64(p.options.Timing.Hold)}
	}
	p.book.Free(k, &plan, now)
	return out, len(out.Members) > 0
}

// Refused notes that a victim may not be evicted now: it is left alone for a while, and the
// gang it should have made room for has to find others.
func (p *Preemptor) Refused(h model.HolderID) {
	until := memo.Later(p.memo.Now(), int64(p.options.Timing.Spared))
	p.spared[h] = until
	p.memo.WakeAt(until)
	d, ok := p.leaving[h]
	if !ok {
		return
	}
	for other, by := range p.leaving {
		if by.gang == d.gang {
			delete(p.leaving, other)
		}
	}
	if k := p.cluster.Gang(d.gang); k != nil {
		k.Memo.Succeeded(memo.Evicting)
	}
	p.book.VictimStays(d.gang)
}

// evictable says whether a member may be asked to go. One that is on its way to its
// place would be gone before it ran, and its gang is not whole yet.
func (p *Preemptor) evictable(h model.HolderID) bool {
	if until, ok := p.spared[h]; ok {
		if p.memo.Now() < until {
			return false
		}
		delete(p.spared, h)
	}
	return !p.releases.Released(h)
}
