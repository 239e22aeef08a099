package engine

import (
	"cmp"
	"maps"
	"slices"

	"github.com/tangram-dev/tangram/core/explain"
	"github.com/tangram-dev/tangram/core/model"
)

// Passing is what an engine knows beside gangs, claims and Learned, and that ends by
// itself: reservations, departures, vetoes, pauses and back-offs. A restart does without
// it; a copy of a running engine needs it to decide as that one would. Times are
// nanoseconds of the engine's clock, lists are sorted.
type Passing struct {
	Reserved []PassingReservation `json:"reserved,omitempty"`
	Leaving  []PassingDeparture   `json:"leaving,omitempty"`
	Spared   []PassingHolder      `json:"spared,omitempty"`
	Vetoes   []PassingVeto        `json:"vetoes,omitempty"`
	// Short is since when queues are short of gangs of a shape.
	Short []PassingShort `json:"short,omitempty"`
	Gangs []PassingGang  `json:"gangs,omitempty"`
	// SuspendedUntil and SuspendFailures: starts cannot be carried out.
	SuspendedUntil  int64 `json:"suspendedUntil,omitempty"`
	SuspendFailures int   `json:"suspendFailures,omitempty"`
}

// PassingReservation is nodes that are kept for a gang from At on; At is 0 when that is
// not known. Until is not 0 while they are being freed for it.
type PassingReservation struct {
	Gang  ID             `json:"gang"`
	At    int64          `json:"at,omitempty"`
	Until int64          `json:"until,omitempty"`
	Short bool           `json:"short,omitempty"`
	Nodes []model.NodeID `json:"nodes"`
}

// PassingDeparture is a holder that was told to go, for a gang if that is known.
type PassingDeparture struct {
	Holder model.HolderID `json:"holder"`
	For    ID             `json:"for,omitempty"`
	Until  int64          `json:"until"`
}

// PassingHolder is a holder that is not evicted before a time.
type PassingHolder struct {
	Holder model.HolderID `json:"holder"`
	Until  int64          `json:"until"`
}

// PassingVeto is that a node, or every one but some when Node is empty, refused a shape.
type PassingVeto struct {
	Shape   Shape           `json:"shape"`
	Node    model.NodeID    `json:"node,omitempty"`
	Why     explain.Refusal `json:"why"`
	Until   int64           `json:"until"`
	Strikes int             `json:"strikes,omitempty"`
	Except  []model.NodeID  `json:"except,omitempty"`
	Limited bool            `json:"limited,omitempty"` // Except counts
}

// PassingShort is since when a queue is short of gangs of a shape.
type PassingShort struct {
	Queue string `json:"queue"`
	Shape string `json:"shape"`
	Since int64  `json:"since"`
}

// PassingGang is what was tried for a gang without success, and when it may be tried again;
// and since when one runs: objects tell seconds only, and who has lost less work by a moment
// is evicted.
type PassingGang struct {
	Gang        ID             `json:"gang"`
	Started     int64          `json:"started,omitempty"`
	RestUntil   int64          `json:"restUntil,omitempty"`
	Failures    int            `json:"failures,omitempty"`
	LastRefusal string         `json:"lastRefusal,omitempty"`
	Promised    int64          `json:"promised,omitempty"`
	Evicted     bool           `json:"evicted,omitempty"`
	Kept        []model.NodeID `json:"kept,omitempty"`
	Futile      int            `json:"futile,omitempty"`
	FutileAfter int64          `json:"futileAfter,omitempty"`
	Rekept      int            `json:"rekept,omitempty"`
	// Tried are attempts that failed.
	Tried []PassingAttempt `json:"tried,omitempty"`
}

// PassingAttempt is an attempt that failed: Steps is how many steps are left of its pause.
type PassingAttempt struct {
	Attempt uint8  `json:"attempt"`
	Steps   uint64 `json:"steps,omitempty"`
	Pause   uint64 `json:"pause,omitempty"`
	// Freed and Changed: something has been freed, or reservations or the fleet have
	// changed, since.
	Freed   bool `json:"freed,omitempty"`
	Changed bool `json:"changed,omitempty"`
}

// Passing returns a copy. Cost: the number of gangs, and of vetoes.
func (e *Engine) Passing() Passing {
	p := Passing{SuspendedUntil: e.suspension.until, SuspendFailures: e.suspension.failures}
	for _, r := range e.reserved { // in their order, which counts
		at := r.at
		if at == never {
			at = 0
		}
		p.Reserved = append(p.Reserved, PassingReservation{r.id, at, r.until, r.short, slices.Clone(r.nodes)})
	}
	for h, d := range e.leaving {
		p.Leaving = append(p.Leaving, PassingDeparture{h, d.gang, d.until})
	}
	for h, until := range e.spared {
		p.Spared = append(p.Spared, PassingHolder{h, until})
	}
	for c, since := range e.claims {
		p.Short = append(p.Short, PassingShort{c.queue, string(c.shape), since})
	}
	slices.SortFunc(p.Leaving, func(a, b PassingDeparture) int { return cmp.Compare(a.Holder, b.Holder) })
	slices.SortFunc(p.Spared, func(a, b PassingHolder) int { return cmp.Compare(a.Holder, b.Holder) })
	slices.SortFunc(p.Short, func(a, b PassingShort) int {
		return cmp.Or(cmp.Compare(a.Queue, b.Queue), cmp.Compare(a.Shape, b.Shape))
	})
	p.Vetoes = e.vetoes.passing()
	for id, k := range e.gangs {
		if g := e.passingOf(k); g.is() {
			g.Gang = id
			p.Gangs = append(p.Gangs, g)
		}
	}
	slices.SortFunc(p.Gangs, func(a, b PassingGang) int { return cmp.Compare(a.Gang, b.Gang) })
	return p
}

func (v *vetoes) passing() (out []PassingVeto) {
	for _, s := range slices.Sorted(maps.Keys(v.of)) {
		sv := v.of[s]
		for _, node := range slices.Sorted(maps.Keys(sv.nodes)) {
			x := sv.nodes[node]
			out = append(out, PassingVeto{Shape: s, Node: node, Why: x.why, Until: x.until, Strikes: x.strikes})
		}
		if x := sv.everywhere; x != (veto{}) {
			out = append(out, PassingVeto{Shape: s, Why: x.why, Until: x.until, Strikes: x.strikes, Except: slices.Sorted(maps.Keys(sv.except)), Limited: sv.except != nil})
		}
	}
	return out
}

// passingOf is what has been tried for a gang.
func (e *Engine) passingOf(k *known) PassingGang {
	f := &k.futile
	out := PassingGang{
		RestUntil: k.restUntil, Failures: k.failures, LastRefusal: k.lastRefusal, Promised: k.promised,
		Evicted: f.evicted, Kept: slices.Clone(f.kept), Futile: f.times, FutileAfter: f.after, Rekept: f.rekept,
	}
	if len(k.placed) > 0 {
		out.Started = k.started
	}
	for a, x := range k.retries {
		if x.failed {
			tried := PassingAttempt{Attempt: uint8(a), Pause: x.pause, Freed: x.freed != e.freed, Changed: x.generation != e.generation}
			if x.until > e.steps {
				tried.Steps = x.until - e.steps
			}
			out.Tried = append(out.Tried, tried)
		}
	}
	return out
}

// is says whether there is anything to tell.
func (g *PassingGang) is() bool {
	return g.Started != 0 || g.RestUntil != 0 || g.Failures != 0 || g.LastRefusal != "" || g.Promised != 0 || g.Evicted || len(g.Kept) > 0 || g.Futile != 0 ||
		g.FutileAfter != 0 || g.Rekept != 0 || len(g.Tried) > 0
}

// RestorePassing gives an engine that has not decided yet what another one knew. It is
// called after Restore. What is about gangs, holders and nodes that are not known here is
// left out.
func (e *Engine) RestorePassing(p Passing) {
	e.suspension = suspension{p.SuspendedUntil, p.SuspendFailures}
	for _, r := range p.Reserved {
		if e.gangs[r.Gang] == nil || len(r.Nodes) == 0 || e.reservationOf(r.Gang) != nil {
			continue
		}
		at := r.At
		if at == 0 {
			at = never
		}
		e.reserved = append(e.reserved, &reservation{id: r.Gang, at: at, until: r.Until, short: r.Short, nodes: slices.Sorted(slices.Values(r.Nodes))})
		e.generation++
	}
	for _, d := range p.Leaving {
		if e.of[d.Holder].id != "" {
			e.leaving[d.Holder] = departure{d.For, d.Until}
		}
	}
	for _, s := range p.Spared {
		if e.of[s.Holder].id != "" {
			e.spared[s.Holder] = s.Until
			e.wakeAt(s.Until)
		}
	}
	for _, s := range p.Short {
		e.claims[claim{s.Queue, gangShape(s.Shape)}] = s.Since
	}
	for _, v := range p.Vetoes {
		e.vetoes.restore(v)
		e.wakeAt(v.Until)
	}
	for _, g := range p.Gangs {
		if k := e.gangs[g.Gang]; k != nil {
			e.restoreGang(k, &g)
		}
	}
}

func (v *vetoes) restore(p PassingVeto) {
	sv := v.shape(p.Shape)
	x := veto{p.Why, p.Until, p.Strikes}
	if p.Node != "" {
		sv.nodes[p.Node] = x
		if v.byNode[p.Node] == nil {
			v.byNode[p.Node] = map[Shape]bool{}
		}
		v.byNode[p.Node][p.Shape] = true
		return
	}
	sv.everywhere = x
	if p.Limited {
		sv.except = map[model.NodeID]bool{}
		for _, n := range p.Except {
			sv.except[n] = true
		}
	}
}

func (e *Engine) restoreGang(k *known, g *PassingGang) {
	k.restUntil, k.failures, k.lastRefusal, k.promised = g.RestUntil, g.Failures, g.LastRefusal, g.Promised
	k.futile = futileEvictions{evicted: g.Evicted, kept: slices.Clone(g.Kept), times: g.Futile, after: g.FutileAfter, rekept: g.Rekept}
	if len(k.placed) > 0 && g.Started > 0 {
		k.started = g.Started
	}
	if k.restUntil > 0 {
		e.wakeAt(k.restUntil)
	}
	for _, t := range g.Tried {
		if int(t.Attempt) >= len(k.retries) {
			continue
		}
		f := failure{failed: true, freed: e.freed, generation: e.generation, until: e.steps + t.Steps, pause: t.Pause}
		if t.Freed {
			f.freed--
		}
		if t.Changed {
			f.generation--
		}
		k.retries[t.Attempt] = f
	}
}
