package memo

import (
	"maps"
	"slices"

	"github.com/tangram-dev/tangram/core/explain"
	"github.com/tangram-dev/tangram/core/model"
)

// SavedVeto is that a node, or every one but some when Node is empty, refused a shape.
type SavedVeto struct {
	Shape   model.Shape     `json:"shape"`
	Node    model.NodeID    `json:"node,omitempty"`
	Why     explain.Refusal `json:"why"`
	Until   int64           `json:"until"`
	Strikes int             `json:"strikes,omitempty"`
	Except  []model.NodeID  `json:"except,omitempty"`
	Limited bool            `json:"limited,omitempty"` // Except counts
}

// SavedAttempt is an attempt that failed: Steps is how many steps are left of its pause.
type SavedAttempt struct {
	Attempt uint8  `json:"attempt"`
	Steps   uint64 `json:"steps,omitempty"`
	Pause   uint64 `json:"pause,omitempty"`
	// Freed and Changed: something has been freed, or reservations or the fleet have
	// changed, since.
	Freed   bool `json:"freed,omitempty"`
	Changed bool `json:"changed,omitempty"`
}

// SavedGang is what was tried for a gang without success, and when it may be tried again.
type SavedGang struct {
	RestUntil   int64
	Failures    int
	LastRefusal string
	Tried       []SavedAttempt
}

// SaveSuspension returns a copy.
func (m *Memo) SaveSuspension() Suspension { return m.suspension }

// RestoreSuspension replaces the suspension.
func (m *Memo) RestoreSuspension(s Suspension) { m.suspension = s }

// SaveVetoes returns a copy, sorted.
func (v *Vetoes) SaveVetoes() (out []SavedVeto) {
	for _, s := range slices.Sorted(maps.Keys(v.shapes)) {
		sv := v.shapes[s]
		for _, node := range slices.Sorted(maps.Keys(sv.nodes)) {
			x := sv.nodes[node]
			out = append(out, SavedVeto{Shape: s, Node: node, Why: x.why, Until: x.until, Strikes: x.strikes})
		}
		if x := sv.everywhere; x != (veto{}) {
			out = append(out, SavedVeto{Shape: s, Why: x.why, Until: x.until, Strikes: x.strikes, Except: slices.Sorted(maps.Keys(sv.except)), Limited: sv.except != nil})
		}
	}
	return out
}

// RestoreVeto adds a veto that another engine had.
func (m *Memo) RestoreVeto(p SavedVeto) {
	if p.Until > m.now {
		m.WakeAt(p.Until)
	}
	v := &m.Vetoes
	sv := v.shape(p.Shape)
	x := veto{p.Why, p.Until, p.Strikes}
	if p.Node != "" {
		sv.nodes[p.Node] = x
		v.list(p.Shape, p.Node)
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

// SaveGang returns what is remembered of a gang.
func (m *Memo) SaveGang(g *Gang) SavedGang {
	out := SavedGang{RestUntil: g.restUntil, Failures: g.failures, LastRefusal: g.lastRefusal}
	for a, x := range g.tries {
		if x.failed {
			tried := SavedAttempt{Attempt: uint8(a), Pause: x.pause, Freed: x.room != m.room, Changed: x.layout != m.layout}
			if x.until > m.steps {
				tried.Steps = x.until - m.steps
			}
			out.Tried = append(out.Tried, tried)
		}
	}
	return out
}

// RestoreGang replaces what is remembered of a gang.
func (m *Memo) RestoreGang(g *Gang, s SavedGang) {
	g.restUntil, g.failures, g.lastRefusal = s.RestUntil, s.Failures, s.LastRefusal
	if g.restUntil > 0 {
		m.WakeAt(g.restUntil)
	}
	for _, t := range s.Tried {
		if int(t.Attempt) >= len(g.tries) {
			continue
		}
		f := failure{failed: true, room: m.room, layout: m.layout, until: m.steps + t.Steps, pause: t.Pause}
		if t.Freed {
			f.room--
		}
		if t.Changed {
			f.layout--
		}
		g.tries[t.Attempt] = f
	}
}

// SavedCounters is how many steps there were, and when one is due.
type SavedCounters struct {
	Steps  uint64  `json:"steps"`
	Timers []int64 `json:"timers,omitempty"` // sorted
}

// SaveCounters returns a copy.
func (m *Memo) SaveCounters() SavedCounters {
	return SavedCounters{m.steps, slices.Clone(m.timers)}
}

// RestoreCounters replaces the counters; pauses in steps go on from there.
func (m *Memo) RestoreCounters(s SavedCounters) {
	m.steps, m.timers = s.Steps, slices.Sorted(slices.Values(s.Timers))
}
