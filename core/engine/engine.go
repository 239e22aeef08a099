package engine

import (
	"github.com/tangram-dev/tangram/core/answer"
	"github.com/tangram-dev/tangram/core/arbiter"
	"github.com/tangram-dev/tangram/core/cluster"
	"github.com/tangram-dev/tangram/core/ledger"
	"github.com/tangram-dev/tangram/core/memo"
	"github.com/tangram-dev/tangram/core/planner"
	"github.com/tangram-dev/tangram/core/preempt"
	"github.com/tangram-dev/tangram/core/release"
	"github.com/tangram-dev/tangram/core/reserve"
)

// Engine decides. Not safe for concurrent use.
type Engine struct {
	options   *Options
	memo      *memo.Memo
	cluster   *cluster.Cluster
	book      *reserve.Book
	releases  *release.Register
	preemptor *preempt.Preemptor
	// recorder is told of every call; nil: none is.
	recorder Recorder
	// mends is how far it is with making groups of running gangs whole.
	mends map[ID]*mends

	// Answers about the state as it is. None of them changes a decision.
	answer.Answers
}

// tracked is a gang with the places of its members.
type tracked = cluster.Tracked

// New returns an engine over a ledger, its planner and a tree of queues. From now on
// the engine is the only one that changes them.
func New(l *ledger.Ledger, p *planner.Planner, t *arbiter.Tree, o Options) *Engine {
	o.Complete()
	e := &Engine{options: &o, mends: map[ID]*mends{}}
	e.memo = memo.New(&o.Timing)
	e.cluster = cluster.New(l, p, t, e.memo, e.options)
	e.book = reserve.New(e.cluster)
	e.releases = release.New(e.cluster)
	e.preemptor = preempt.New(e.cluster, e.book, e.releases)
	e.Answers = answer.New(e.cluster, e.book, e.releases, e.preemptor)
	return e
}

// Recorder is told of every call of an engine, after it: the events and what came of them, the
// steps and what they decided. Nothing that it is told may be changed.
type Recorder interface {
	Applied(now int64, events []Event, out *Outcome)
	Stepped(now int64, plan *Plan)
}

// Record tells a recorder of all calls from now on; nil ends that. What core asks of Facts
// goes through wrap, if it is not nil.
func (e *Engine) Record(r Recorder, wrap func(Facts) Facts) {
	e.recorder = r
	if wrap != nil {
		e.options.Facts = wrap(e.options.Facts)
	}
}

// Options returns the options as they are.
func (e *Engine) Options() Options { return *e.options }

// Suspended says whether no starts are decided now, or not long ago.
func (e *Engine) Suspended() bool { return e.memo.Suspended() }

// Verify checks what the parts rely on, each its own. Cost: all gangs.
func (e *Engine) Verify() error {
	for _, part := range []interface{ Verify() error }{e.memo, e.cluster, e.book, e.releases, e.preemptor} {
		if err := part.Verify(); err != nil {
			return err
		}
	}
	return nil
}
