package engine

import (
	"strings"
	"time"

	apiquery "github.com/tangram-dev/tangram/api/query"
	"github.com/tangram-dev/tangram/core/engine"
)

// turnsEvery is how old the order of waiting gangs is before it is drawn anew, turnsMost how
// old it may be that is shown, maxTurns how many of them have a place in it: many questions
// cost one walk over all that waits.
const (
	turnsEvery = time.Second
	turnsMost  = 5 * time.Second
	maxTurns   = maxOrder
	// maxAhead is how many gangs are named that are before another one.
	maxAhead = 10
)

// turnOrder is the order of waiting gangs.
type turnOrder struct {
	turns []engine.Turn
	place map[engine.ID]int
}

// order is the order of waiting gangs. A gang that waits and has no place in it may be new.
func (e *Engine) order(see Sight, id engine.ID, waits bool) turnOrder {
	draw := func() (o turnOrder) {
		e.lookFor(see, "why", func() { o.turns = e.core.Turns(maxTurns) })
		o.place = make(map[engine.ID]int, len(o.turns))
		for i := range o.turns {
			o.place[o.turns[i].ID] = i + 1
		}
		return o
	}
	return e.turns.show(e, ages{turnsEvery, turnsMost}, draw, func(o turnOrder) bool { return waits && o.place[id] == 0 })
}

// turnOf is a gang's place among those that wait, from 1, and gangs before it, those of its
// namespace first; 0 when it has no turn, or none that was seen yet.
func (e *Engine) turnOf(see Sight, id engine.ID, namespace string, waits bool) (position int, ahead []apiquery.GangRef) {
	p := e.order(see, id, waits)
	position = p.place[id]
	for _, own := range []bool{true, false} {
		for i := 0; i < position-1 && len(ahead) < maxAhead; i++ {
			if t := &p.turns[i]; (t.Namespace == namespace) == own {
				ahead = append(ahead, apiquery.GangRef{Namespace: t.Namespace, Name: strings.TrimPrefix(t.Name, t.Namespace+"/")})
			}
		}
	}
	return position, ahead
}
