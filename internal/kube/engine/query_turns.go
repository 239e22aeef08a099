package engine

import (
	"strings"
	"sync"
	"time"

	apiquery "github.com/tangram-dev/tangram/api/query"
	"github.com/tangram-dev/tangram/core/engine"
)

// turnsEvery is how old the order of waiting gangs may be that is shown, maxTurns how many
// of them have a place in it: many questions cost one walk over all that waits.
const (
	turnsEvery = time.Second
	maxTurns   = 10_000
	// maxAhead is how many gangs are named that are before another one.
	maxAhead = 10
)

// turnPicture is the order of waiting gangs as it was last shown.
type turnPicture struct {
	mu    sync.Mutex
	at    time.Time
	turns []engine.Turn
	place map[engine.ID]int
}

// turnOf is a gang's place among those that wait, from 1, and gangs before it, those of its
// namespace first; 0 when it has no turn, or none that was seen yet.
func (e *Engine) turnOf(id engine.ID, namespace string) (position int, ahead []apiquery.GangRef) {
	p := &e.turns
	p.mu.Lock()
	defer p.mu.Unlock()
	if now := e.clock(); p.place == nil || now.Sub(p.at) >= turnsEvery || now.Before(p.at) {
		p.at = now
		e.look("why", func() { p.turns = e.core.Turns(maxTurns) })
		p.place = make(map[engine.ID]int, len(p.turns))
		for i := range p.turns {
			p.place[p.turns[i].ID] = i + 1
		}
	}
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
