package answer

import (
	"strings"

	apiquery "github.com/tangram-dev/tangram/api/query"
	coreanswer "github.com/tangram-dev/tangram/core/answer"
	"github.com/tangram-dev/tangram/core/engine"
)

const (
	// maxTurns bounds of how many waiting gangs the position is found, under the lock.
	maxTurns = 5000
	// maxAhead is how many gangs are named that are before another one.
	maxAhead = 10
)

// turnOrder is the order of waiting gangs.
type turnOrder struct {
	turns []coreanswer.Turn
	place map[engine.ID]int
}

// order is the order of waiting gangs. A gang that waits and has no place in it may be new.
func (a *Answers) order(see Sight, id engine.ID, waits bool) turnOrder {
	draw := func() (o turnOrder) {
		a.lookFor(see, "why", func(v *View) { o.turns = v.Core.Gangs.Turns(maxTurns) })
		o.place = make(map[engine.ID]int, len(o.turns))
		for i := range o.turns {
			o.place[o.turns[i].ID] = i + 1
		}
		return o
	}
	return a.turns.show(a, ages{a.Ages.Lists, a.Ages.Order}, draw, func(o turnOrder) bool { return waits && o.place[id] == 0 })
}

// turnOf is a gang's place among those that wait, from 1, and gangs before it, those of its
// namespace first; 0 when it has no turn, or none that was seen yet.
func (a *Answers) turnOf(see Sight, id engine.ID, namespace string, waits bool) (position int, ahead []apiquery.GangRef) {
	p := a.order(see, id, waits)
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
