package engine

import (
	"time"

	"github.com/tangram-dev/tangram/core/arbiter"
	"github.com/tangram-dev/tangram/core/planner"
)

// Learned is what the engine has learned and cannot read from the cluster's objects: what
// queues are owed, whose turn it is, and which requests come. A new engine restores it and
// decides as this one would have. All else is found again within a minute, from objects or
// by trying.
type Learned struct {
	Queues arbiter.Saved
	Mix    planner.Mix
}

// Save returns what was learned.
func (e *Engine) Save() Learned {
	return Learned{e.cluster.Tree().Save(), e.cluster.Planner().Save()}
}

// restoreGap is for how long queues are taken to have gone on as they were between Save
// and Restored: a restart takes seconds, a failover with a state that was saved a minute
// ago up to two minutes. After a longer time most jobs are others.
const restoreGap = 10 * time.Minute

func (v Restored) apply(e *Engine, _ *Outcome) {
	e.cluster.Restore(v.Learned.Queues, v.Learned.Mix, e.memo.Now(), restoreGap)
}
