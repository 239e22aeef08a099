package engine

import (
	"time"

	apiquery "github.com/tangram-dev/tangram/api/query"
	"github.com/tangram-dev/tangram/core/engine"
	"github.com/tangram-dev/tangram/core/explain"
	"github.com/tangram-dev/tangram/core/model"
)

// Reasons and merits are planned for under the engine's lock. So what was found is kept for
// a while, and who asks is told what it took.

// Payer is a Sight that is told for how long the engine's lock was waited for and held for
// it.
type Payer interface {
	Charge(waited, held time.Duration)
}

// lookFor is look for a caller, who is charged for it.
func (e *Engine) lookFor(see Sight, what string, f func()) {
	waited, held := e.look(what, f)
	if p, ok := see.(Payer); ok {
		p.Charge(waited, held)
	}
}

// answersKept is how old a reason may be that is told.
const answersKept = time.Second

// keptAnswers are what was found since a time. It is guarded by the engine's lock.
type keptAnswers struct {
	since   time.Time
	reasons map[engine.ID]keptReason
	merits  map[model.HolderID]engine.Merits
	// nextEnd is when the first running gang is expected to end; nil: not looked for.
	nextEnd *int64
}

// keptReason is why a gang waited while so many of its members existed and had a place.
type keptReason struct {
	exist, placed int
	reason        explain.Reason
	expect        engine.Expectation
}

// fresh forgets what is too old. Of a copy nothing is kept: its clock stands still while it
// is stepped.
func (k *keptAnswers) fresh(e *Engine) {
	if now := e.clock(); e.copied || k.reasons == nil || now.Sub(k.since) >= answersKept || now.Before(k.since) {
		*k = keptAnswers{since: now, reasons: map[engine.ID]keptReason{}, merits: map[model.HolderID]engine.Merits{}}
	}
}

// reasonOf is why a gang waits, and when it is expected to start. The caller holds the lock.
func (e *Engine) reasonOf(id engine.ID, g *apiquery.Gang) (explain.Reason, engine.Expectation) {
	e.kept.fresh(e)
	k, known := e.kept.reasons[id]
	if !known || k.exist != g.Exist || k.placed != g.Placed {
		k = keptReason{exist: g.Exist, placed: g.Placed, reason: e.core.Why(id)}
		if w := e.demands.of[id]; w != nil {
			k.reason.Asked = w.where()
		}
		k.expect = e.core.Expect(id, &k.reason)
		e.kept.reasons[id] = k
	}
	return k.reason, k.expect
}

// meritsOf is why a pod is where it is; false when it has no place. The caller holds the
// lock.
func (e *Engine) meritsOf(h model.HolderID) (engine.Merits, bool) {
	e.kept.fresh(e)
	if m, known := e.kept.merits[h]; known && m.Node == e.core.NodeOf(h) {
		return m, true
	}
	m, placed := e.core.Merits(h, runnersUp)
	if placed {
		e.kept.merits[h] = m
	}
	return m, placed
}

// nextEnd is when the first running gang is expected to end, in nanoseconds; 0 when no end is
// known. The caller holds the lock.
func (e *Engine) nextEnd() int64 {
	e.kept.fresh(e)
	if e.kept.nextEnd == nil {
		at := e.core.NextEnd()
		e.kept.nextEnd = &at
	}
	return *e.kept.nextEnd
}
