package preempt

import (
	"cmp"
	"slices"

	"github.com/tangram-dev/tangram/core/cluster"
	"github.com/tangram-dev/tangram/core/model"
)

// SavedDeparture is a holder that was told to go, for a gang if that is known.
type SavedDeparture struct {
	Holder model.HolderID `json:"holder"`
	For    cluster.ID     `json:"for,omitempty"`
	Until  int64          `json:"until"`
}

// SavedHolder is a holder that is not evicted before a time.
type SavedHolder struct {
	Holder model.HolderID `json:"holder"`
	Until  int64          `json:"until"`
}

// SavedShortage is since when a queue is short of gangs of a shape.
type SavedShortage struct {
	Queue string          `json:"queue"`
	Shape model.GangShape `json:"shape"`
	Since int64           `json:"since"`
}

// Saved is what a copy of an engine needs to know of evictions; lists are sorted.
type Saved struct {
	Leaving []SavedDeparture
	Spared  []SavedHolder
	Short   []SavedShortage
}

// SavedGang is what came of evictions for a gang.
type SavedGang struct {
	// Evicted: victims were chosen for it; Kept are the nodes on which it was started when
	// nodes were kept for it, these or others, sorted; Futile is how often that was followed
	// by a start that failed. Before After, no more victims are chosen.
	Evicted bool
	Kept    []model.NodeID
	Futile  int
	After   int64
	// Rekept is how often the nodes were kept once more after a start that was undone.
	Rekept int
}

// Save returns a copy.
func (p *Preemptor) Save() (out Saved) {
	for h, d := range p.leaving {
		out.Leaving = append(out.Leaving, SavedDeparture{h, d.gang, d.until})
	}
	for h, until := range p.spared {
		out.Spared = append(out.Spared, SavedHolder{h, until})
	}
	for s, since := range p.rule.short {
		out.Short = append(out.Short, SavedShortage{s.queue, s.shape, since})
	}
	slices.SortFunc(out.Leaving, func(a, b SavedDeparture) int { return cmp.Compare(a.Holder, b.Holder) })
	slices.SortFunc(out.Spared, func(a, b SavedHolder) int { return cmp.Compare(a.Holder, b.Holder) })
	slices.SortFunc(out.Short, func(a, b SavedShortage) int {
		return cmp.Or(cmp.Compare(a.Queue, b.Queue), cmp.Compare(a.Shape, b.Shape))
	})
	return out
}

// Restore adds what another preemptor knew. Holders that are not known are left out.
func (p *Preemptor) Restore(s Saved) {
	for _, d := range s.Leaving {
		if p.cluster.GangIDOf(d.Holder) != "" {
			p.leaving[d.Holder] = departure{d.For, d.Until}
		}
	}
	for _, x := range s.Spared {
		if p.cluster.GangIDOf(x.Holder) != "" {
			p.spared[x.Holder] = x.Until
			p.memo.WakeAt(x.Until)
		}
	}
	for _, x := range s.Short {
		p.rule.short[shortage{x.Queue, x.Shape}] = x.Since
	}
}

// SaveGang returns what came of evictions for a gang.
func (p *Preemptor) SaveGang(id cluster.ID) SavedGang {
	if h := p.gangs[id]; h != nil {
		out := h.SavedGang
		out.Kept = slices.Clone(h.Kept)
		return out
	}
	return SavedGang{}
}

// RestoreGang replaces what came of evictions for a gang.
func (p *Preemptor) RestoreGang(id cluster.ID, s SavedGang) {
	if s.Evicted || len(s.Kept) > 0 || s.Futile != 0 || s.After != 0 || s.Rekept != 0 {
		s.Kept = slices.Clone(s.Kept)
		*p.history(id) = history{SavedGang: s}
	}
}
