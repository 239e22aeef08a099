package engine

import (
	"cmp"
	"slices"

	"github.com/tangram-dev/tangram/core/memo"
	"github.com/tangram-dev/tangram/core/model"
	"github.com/tangram-dev/tangram/core/preempt"
	"github.com/tangram-dev/tangram/core/reserve"
)

// Passing is what an engine knows beside gangs, claims and Learned, and that ends by
// itself: reservations, departures, vetoes, pauses and back-offs. A restart does without
// it; a copy of a running engine needs it to decide as that one would. Times are
// nanoseconds of the engine's clock, lists are sorted.
type Passing struct {
	Reserved []reserve.Saved          `json:"reserved,omitempty"`
	Leaving  []preempt.SavedDeparture `json:"leaving,omitempty"`
	Spared   []preempt.SavedHolder    `json:"spared,omitempty"`
	Vetoes   []memo.SavedVeto         `json:"vetoes,omitempty"`
	// Short is since when queues are short of gangs of a shape.
	Short []preempt.SavedShortage `json:"short,omitempty"`
	Gangs []PassingGang           `json:"gangs,omitempty"`
	// SuspendedUntil and SuspendFailures: starts cannot be carried out.
	SuspendedUntil  int64 `json:"suspendedUntil,omitempty"`
	SuspendFailures int   `json:"suspendFailures,omitempty"`
}

// PassingGang is what was tried for a gang without success, and when it may be tried again;
// and since when one runs: objects tell seconds only, and a gang that has lost less work by
// a moment is evicted first.
type PassingGang struct {
	Gang        ID                  `json:"gang"`
	Started     int64               `json:"started,omitempty"`
	RestUntil   int64               `json:"restUntil,omitempty"`
	Failures    int                 `json:"failures,omitempty"`
	LastRefusal string              `json:"lastRefusal,omitempty"`
	Promised    int64               `json:"promised,omitempty"`
	Evicted     bool                `json:"evicted,omitempty"`
	Kept        []model.NodeID      `json:"kept,omitempty"`
	Futile      int                 `json:"futile,omitempty"`
	FutileAfter int64               `json:"futileAfter,omitempty"`
	Rekept      int                 `json:"rekept,omitempty"`
	Tried       []memo.SavedAttempt `json:"tried,omitempty"` // attempts that failed
}

// Passing returns a copy. Cost: the number of gangs, and of vetoes.
func (e *Engine) Passing() Passing {
	evictions, suspension := e.preemptor.Save(), e.memo.SaveSuspension()
	p := Passing{
		Reserved: e.book.Save(), Leaving: evictions.Leaving, Spared: evictions.Spared, Short: evictions.Short, Vetoes: e.memo.SaveVetoes(),
		SuspendedUntil: suspension.Until, SuspendFailures: suspension.Failures,
	}
	for _, k := range e.cluster.Gangs() { // sorted below
		if g := e.passingOf(k); g.is() {
			p.Gangs = append(p.Gangs, g)
		}
	}
	slices.SortFunc(p.Gangs, func(a, b PassingGang) int { return cmp.Compare(a.Gang, b.Gang) })
	return p
}

// passingOf is what has been tried for a gang.
func (e *Engine) passingOf(k *tracked) PassingGang {
	m, f := e.memo.SaveGang(&k.Memo), e.preemptor.SaveGang(k.ID)
	out := PassingGang{
		Gang: k.ID, RestUntil: m.RestUntil, Failures: m.Failures, LastRefusal: m.LastRefusal, Promised: e.book.Promises.Of(k.ID),
		Evicted: f.Evicted, Kept: f.Kept, Futile: f.Futile, FutileAfter: f.After, Rekept: f.Rekept, Tried: m.Tried,
	}
	if k.Placed() > 0 {
		out.Started = k.Started()
	}
	return out
}

// is says whether there is anything to tell.
func (g *PassingGang) is() bool {
	return g.Started != 0 || g.RestUntil != 0 || g.Failures != 0 || g.LastRefusal != "" || g.Promised != 0 || g.Evicted || len(g.Kept) > 0 || g.Futile != 0 ||
		g.FutileAfter != 0 || g.Rekept != 0 || len(g.Tried) > 0
}

func (v PassingRestored) apply(e *Engine, _ *Outcome) {
	p := &v.Passing
	e.memo.RestoreSuspension(memo.Suspension{Until: p.SuspendedUntil, Failures: p.SuspendFailures})
	e.book.Restore(p.Reserved)
	e.preemptor.Restore(preempt.Saved{Leaving: p.Leaving, Spared: p.Spared, Short: p.Short})
	for _, x := range p.Vetoes {
		e.memo.RestoreVeto(x)
	}
	for _, g := range p.Gangs {
		k := e.cluster.Gang(g.Gang)
		if k == nil {
			continue
		}
		e.cluster.RestoreStart(k, g.Started)
		e.memo.RestoreGang(&k.Memo, memo.SavedGang{RestUntil: g.RestUntil, Failures: g.Failures, LastRefusal: g.LastRefusal, Tried: g.Tried})
		e.book.Promises.Set(k.ID, g.Promised)
		e.preemptor.RestoreGang(k.ID, preempt.SavedGang{Evicted: g.Evicted, Kept: g.Kept, Futile: g.Futile, After: g.FutileAfter, Rekept: g.Rekept})
	}
}
