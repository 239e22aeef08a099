package answer

import (
	"time"

	apiquery "github.com/tangram-dev/tangram/api/query"
	coreanswer "github.com/tangram-dev/tangram/core/answer"
	"github.com/tangram-dev/tangram/core/engine"
	"github.com/tangram-dev/tangram/core/explain"
	"github.com/tangram-dev/tangram/core/model"
)

// kept are reasons and merits that were found since a time: they are planned for under the
// engine's lock, so callers who ask the same within Ages.Reasons are told the same.
type kept struct {
	since   time.Time
	reasons map[engine.ID]keptReason
	merits  map[model.HolderID]coreanswer.Merits
	nextEnd *int64 // when the first running gang is expected to end; nil: not looked for
}

// keptReason is why a gang waited while so many of its members existed and had a place.
type keptReason struct {
	exist, placed int
	reason        explain.Reason
	expect        engine.Expectation
}

// fresh is what was found and is not too old.
func (a *Answers) fresh() *kept {
	k := &a.kept
	if now := a.Clock(); k.reasons == nil || now.Sub(k.since) >= a.Ages.Reasons || now.Before(k.since) {
		*k = kept{since: now, reasons: map[engine.ID]keptReason{}, merits: map[model.HolderID]coreanswer.Merits{}}
	}
	return k
}

// reasonOf is why a gang waits, and when it is expected to start.
func (a *Answers) reasonOf(v *View, id engine.ID, g *apiquery.Gang) (explain.Reason, engine.Expectation) {
	kept := a.fresh()
	k, found := kept.reasons[id]
	if !found || k.exist != g.Exist || k.placed != g.Placed {
		k = keptReason{exist: g.Exist, placed: g.Placed, reason: v.Core.Reasons.Why(id)}
		if where := v.Demands.Where(id); where != "" {
			k.reason.Asked = where
		}
		k.expect = v.Core.Reasons.Expect(id, &k.reason)
		kept.reasons[id] = k
	}
	return k.reason, k.expect
}

// meritsOf is why a pod is where it is; false when it has no place.
func (a *Answers) meritsOf(v *View, h model.HolderID) (coreanswer.Merits, bool) {
	kept := a.fresh()
	if m, found := kept.merits[h]; found && m.Node == v.Core.Gangs.NodeOf(h) {
		return m, true
	}
	m, placed := v.Core.Nodes.Merits(h, runnersUp)
	if placed {
		kept.merits[h] = m
	}
	return m, placed
}

// nextEnd is when the first running gang is expected to end, in nanoseconds; 0 when no end is
// known.
func (a *Answers) nextEnd(v *View) int64 {
	kept := a.fresh()
	if kept.nextEnd == nil {
		at := v.Core.Gangs.NextEnd()
		kept.nextEnd = &at
	}
	return *kept.nextEnd
}
