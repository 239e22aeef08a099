package preempt

import (
	"github.com/tangram-dev/tangram/core/cluster"
	"github.com/tangram-dev/tangram/core/memo"
)

// history is what came of evictions for a gang.
type history struct {
	SavedGang
	// ground is where victims are looked for next.
	ground int
}

// maxRekept bounds how often: a gang that the filters refuse again and again gives its nodes
// up.
const maxRekept = 3

// futileDoubled bounds how often Timing.FutilePause is doubled. The plan had proved that
// the victims were in the way, so something else is, too: a filter outside core, which is
// known only after the victims are gone.
const futileDoubled = 10

// history is what came of evictions for a gang, to be changed.
func (p *Preemptor) history(id cluster.ID) *history {
	h := p.gangs[id]
	if h == nil {
		h = &history{}
		p.gangs[id] = h
	}
	return h
}

// groundOf is where victims for a gang are looked for next.
func (p *Preemptor) groundOf(id cluster.ID) int {
	if h := p.gangs[id]; h != nil {
		return h.ground
	}
	return 0
}

// resetGround begins the search for victims anew.
func (p *Preemptor) resetGround(id cluster.ID) {
	if h := p.gangs[id]; h != nil {
		h.ground = 0
	}
}

// pausedFor says whether no pod is evicted for a gang now, because evictions did not help.
func (p *Preemptor) pausedFor(id cluster.ID) bool {
	h := p.gangs[id]
	return h != nil && p.memo.Now() < h.After
}

// Changed notes that a gang was submitted anew.
func (p *Preemptor) Changed(id cluster.ID) { p.resetGround(id) }

// Forget forgets a gang.
func (p *Preemptor) Forget(id cluster.ID) { delete(p.gangs, id) }

// Started notes on which nodes a gang was started for which nodes had been kept.
func (p *Preemptor) Started(k *cluster.Tracked) { p.history(k.ID).Kept = k.Nodes() }

// Confirmed notes that a member of a gang is bound.
func (p *Preemptor) Confirmed(id cluster.ID) {
	if h := p.gangs[id]; h != nil {
		h.Kept, h.Rekept = nil, 0
	}
}

// Undone notes that a gang's start was undone. If nodes had been kept for the gang, those on
// which it was started are kept once more, for a short time: often kube-scheduler has only
// not heard yet that pods there are gone, and what they left must not go to another gang.
func (p *Preemptor) Undone(k *cluster.Tracked) {
	h := p.gangs[k.ID]
	if h == nil {
		return
	}
	if h.Futile == 0 && h.Rekept < maxRekept && len(h.Kept) > 0 && p.book.Of(k.ID) == nil {
		p.book.Again(k, h.Kept)
		h.Rekept++
	}
	if h.Evicted {
		pause := int64(p.options.Timing.FutilePause) << min(h.Futile, futileDoubled)
		h.SavedGang = SavedGang{Futile: h.Futile + 1, Rekept: h.Rekept, After: memo.Later(p.memo.Now(), pause)}
	}
}
