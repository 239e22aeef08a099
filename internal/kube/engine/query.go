package engine

import (
	"time"

	apiquery "github.com/tangram-dev/tangram/api/query"
	"github.com/tangram-dev/tangram/core/arbiter"
	"github.com/tangram-dev/tangram/core/engine"
	"github.com/tangram-dev/tangram/core/measure"
)

// Answers for internal/kube/query, with all names in them: who may see which is for the
// server to decide. Each takes the lock in parts that are short (look), and does what can be
// done without it afterwards.

// pictures are what questions are answered with, each with a lock of its own: drawing one
// takes the engine's lock many times for a short while. timeline and history are written
// while nobody asks.
type pictures struct {
	nodes    nodePicture
	gangs    gangPicture
	queues   picture[shownQueues]
	history  history
	timeline timeline
}

// Leads says whether this process decides: it has made its first step.
func (e *Engine) Leads() bool { return e.leading.Load() }

// Fleet is what there is and what it does. Its figures are those of a scrape: up to two
// seconds old.
func (e *Engine) Fleet() apiquery.Fleet {
	s := e.State()
	var sums engine.Sums
	e.look("query", func() { sums = e.core.Sums(e.condition) })
	f := apiquery.Fleet{At: s.At, Scheduler: apiquery.Scheduler{Suspended: e.Suspended()}, Models: []apiquery.Model{}}
	open, cordoned, lost := sums.Nodes[engine.Open], sums.Nodes[engine.NodeCordoned], sums.Nodes[engine.NodeLost]
	f.Nodes = apiquery.NodeSums{Total: open + cordoned + lost, Ready: open, Cordoned: cordoned, Lost: lost}
	for _, m := range s.Census.Fleet {
		out := apiquery.Model{Vendor: string(m.Vendor), Model: m.Model.String(), ByState: map[string]int64{}}
		for use, milli := range m.Milli {
			out.Milli += milli
			out.ByState[engine.Use(use).String()] = milli
		}
		f.Models = append(f.Models, out)
	}
	f.Work = apiquery.Work{RunningGangs: sums.RunningGangs, RunningPods: sums.RunningPods, Reservations: s.Census.Reservations}
	for _, q := range s.Census.Queues {
		if q.Queue == arbiter.Root {
			f.Work.ChargedMilli = q.Used
		}
	}
	for _, p := range s.Census.Pending {
		f.Work.WaitingGangs += p.Gangs
		f.Work.WaitingPods += p.Pods
		f.Work.OldestSeconds = max(f.Work.OldestSeconds, int64(s.At.Sub(time.Unix(0, p.Oldest))/time.Second))
	}
	if free, unusable := measure.Unusable(s.Census.Shapes, s.Census.Classes); free > 0 {
		f.Fragmentation = float64(unusable) / float64(free)
	}
	return f
}
