package cluster

import (
	"time"

	"github.com/tangram-dev/tangram/core/arbiter"
	"github.com/tangram-dev/tangram/core/memo"
	"github.com/tangram-dev/tangram/core/score"
)

// Options is how the engine decides. All parts read one value, which the engine's owner may
// change between steps.
type Options struct {
	// Weights decide between nodes for gangs that bring none of their own.
	Weights score.Weights
	// Backfill lets gangs pass others that cannot start. Without it a queue's first
	// gang that cannot start closes the queue (strict fifo).
	Backfill bool
	// Reservations is how many gangs may hold nodes for their start at once. One is
	// enough against starvation; more promise more gangs a time, and make small ones
	// wait longer.
	Reservations int
	// Patience is how long a gang waits before nodes are kept free for it though
	// it is not known when they will be.
	Patience time.Duration
	// Preempt lets gangs take the place of others.
	Preempt bool
	// Effort bounds what one step may cost, in units of about ten microseconds (see
	// effort). A step that reaches the bound is continued by the next one (Plan.More).
	Effort int
	// Ground is on how many nodes at least victims and earliest starts are looked for
	// at once.
	Ground int
	// BatchTimeout is how long members that start together may take until the last of
	// them is reserved; then all are taken back. 0: starts are carried out at once, and
	// no releases are kept.
	BatchTimeout time.Duration
	// Timing is how long the engine waits otherwise; the zero value is memo.DefaultTiming.
	Timing memo.Timing
	// Facts answers what core cannot know. nil: NoFacts.
	Facts Facts
}

// DefaultOptions are the scheduler's.
func DefaultOptions() Options {
	return Options{
		Weights: score.DefaultWeights(), Backfill: true, Reservations: 1, Patience: arbiter.DefaultAging,
		Preempt: true, Effort: 2000, Ground: 64, Timing: memo.DefaultTiming(), Facts: NoFacts{},
	}
}

// Complete fills in what was left out.
func (o *Options) Complete() {
	if o.Facts == nil {
		o.Facts = NoFacts{}
	}
	if o.Timing == (memo.Timing{}) {
		o.Timing = memo.DefaultTiming()
	}
}
