package answer

import (
	apiquery "github.com/tangram-dev/tangram/api/query"
	coreanswer "github.com/tangram-dev/tangram/core/answer"
	"github.com/tangram-dev/tangram/core/engine"
)

// Foreseer says when a waiting gang is expected to start; false when it does not know. It
// must not wait: it is asked for every answer.
type Foreseer = func(engine.ID) (apiquery.Start, bool)

// Foresee makes answers give starts that only a look into the future knows.
func (a *Answers) Foresee(f Foreseer) { a.foreseer.Store(&f) }

// foresee is an expected start, made exact by a forecast where nothing else knows it.
func (a *Answers) foresee(id engine.ID, x *engine.Expectation, out apiquery.Start) apiquery.Start {
	f := a.foreseer.Load()
	if f == nil || x.Known != coreanswer.NotKnown || x.Because != "" {
		return out
	}
	if start, ok := (*f)(id); ok {
		return start
	}
	return out
}

// foreseeAll fills in the starts that only a forecast knows, so that lists say what Why says
// of each. ids are the gangs', one for each.
func (a *Answers) foreseeAll(gangs []apiquery.Gang, ids []engine.ID) {
	f := a.foreseer.Load()
	if f == nil {
		return
	}
	for i := range gangs {
		if g := &gangs[i]; g.Phase == apiquery.PhaseWaiting && g.ExpectedStart == nil {
			if start, ok := (*f)(ids[i]); ok {
				g.ExpectedStart = start.At
			}
		}
	}
}
