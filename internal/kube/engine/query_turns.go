package engine

import (
	"fmt"
	"runtime/debug"
	"strings"
	"sync"
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

// turnPicture is the order of waiting gangs as it was last shown.
type turnPicture struct {
	mu      sync.Mutex
	drawing bool
	last    turnOrder
}

// turnOrder is an order at a time; it is not changed.
type turnOrder struct {
	at    time.Time
	turns []engine.Turn
	place map[engine.ID]int
}

// drawTurns walks over all that waits.
func (e *Engine) drawTurns(see Sight) turnOrder {
	o := turnOrder{at: e.clock()}
	e.lookFor(see, "why", func() { o.turns = e.core.Turns(maxTurns) })
	o.place = make(map[engine.ID]int, len(o.turns))
	for i := range o.turns {
		o.place[o.turns[i].ID] = i + 1
	}
	return o
}

// order is the order of waiting gangs. One that is a little old is shown while it is drawn
// anew, unless a gang that waits has no place in it: it may be new.
func (e *Engine) order(see Sight, id engine.ID, waits bool) turnOrder {
	p := &e.turns
	p.mu.Lock()
	defer p.mu.Unlock()
	age := e.clock().Sub(p.last.at)
	switch old := p.last.place == nil || age < 0 || age >= turnsMost; {
	case !old && age < turnsEvery:
		return p.last
	case old || waits && p.last.place[id] == 0 || e.copied:
		p.last = e.drawTurns(see)
		return p.last
	case !p.drawing:
		p.drawing = true
		go e.redrawTurns(see)
	}
	return p.last
}

// redrawTurns draws the order while questions are answered with the one before.
func (e *Engine) redrawTurns(see Sight) {
	p := &e.turns
	var drawn turnOrder
	defer func() {
		if x := recover(); x != nil { // a question must not end the scheduler
			e.logger.Error(nil, "Drawing the order of waiting gangs panicked", "panic", fmt.Sprint(x), "stack", string(debug.Stack()))
		}
		p.mu.Lock()
		defer p.mu.Unlock()
		p.drawing = false
		if drawn.at.After(p.last.at) {
			p.last = drawn
		}
	}()
	drawn = e.drawTurns(see)
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
