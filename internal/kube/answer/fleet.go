package answer

import (
	"time"

	apiquery "github.com/tangram-dev/tangram/api/query"
	coreanswer "github.com/tangram-dev/tangram/core/answer"
	"github.com/tangram-dev/tangram/core/arbiter"
	"github.com/tangram-dev/tangram/core/measure"
)

// Fleet is what there is and what it does. Its figures are those of a scrape: up to two
// seconds old.
func (a *Answers) Fleet() apiquery.Fleet {
	s := a.State()
	var sums coreanswer.Sums
	a.look(func(v *View) { sums = v.Core.Figures.Sums(v.Condition) })
	f := apiquery.Fleet{At: s.At, Scheduler: apiquery.Scheduler{Suspended: a.Gate.Suspended()}, Models: []apiquery.Model{}}
	open, cordoned, lost := sums.Nodes[coreanswer.Open], sums.Nodes[coreanswer.NodeCordoned], sums.Nodes[coreanswer.NodeLost]
	f.Nodes = apiquery.NodeSums{Total: open + cordoned + lost, Ready: open, Cordoned: cordoned, Lost: lost}
	for _, m := range s.Census.Fleet {
		out := apiquery.Model{Vendor: string(m.Vendor), Model: m.Model.String(), ByState: map[string]int64{}}
		for use, milli := range m.Milli {
			out.Milli += milli
			out.ByState[coreanswer.Use(use).String()] = milli
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
