package answer

import (
	"slices"
	"time"

	apiquery "github.com/tangram-dev/tangram/api/query"
	coreanswer "github.com/tangram-dev/tangram/core/answer"
	"github.com/tangram-dev/tangram/core/arbiter"
	"github.com/tangram-dev/tangram/core/measure"
	"github.com/tangram-dev/tangram/internal/kube/metrics"
)

// Fleet is what there is and what it does, as of a scrape: up to two seconds old.
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

// State returns what gauges show: several scrapers cost no more than one. It holds the
// engine's lock for parts of a census, so that decisions wait for one part at most.
func (a *Answers) State() metrics.State {
	return a.state.show(a, ages{a.Ages.State, a.Ages.State}, a.drawState, nil)
}

func (a *Answers) drawState() metrics.State {
	s := metrics.State{At: a.Clock()}
	look := func(f func(*View)) { a.Reader.Look("metrics", f) }
	look(func(v *View) { s.Census = v.Core.Figures.CountWork(v.Condition) })
	look(func(v *View) {
		s.Census.Fleet = v.Core.Figures.CountDevices(v.Condition, v.Observer.Idle(), s.At.UnixNano())
	})
	look(func(v *View) {
		if m := v.Observer.Meter(); m != nil {
			s.Usage, s.Folded, s.Prices = m.Read(s.At.UnixMilli()), m.Folded(), *m.Prices()
		}
	})
	return s
}

// Usage is GPU hours and cost since this process began to lead. The lock is held to copy the
// meter's rows (2,000 at most, and as many of the past), not to ask who may see them.
func (a *Answers) Usage(by []string, visible func(namespaces []string) func(string) bool) apiquery.Usage {
	now := a.Clock()
	var rows []measure.Used
	var prices measure.Prices
	var since int64
	a.look(func(v *View) {
		if m := v.Observer.Meter(); m != nil {
			rows, prices, since = m.Usage(now.UnixMilli()), *m.Prices(), m.Since()
		}
	})
	var namespaces []string
	for _, r := range rows {
		if r.Namespace != measure.Other {
			namespaces = append(namespaces, r.Namespace)
		}
	}
	slices.Sort(namespaces)
	may := visible(slices.Compact(namespaces))
	has := func(word string) bool { return slices.Contains(by, word) }
	columns := measure.Columns{Queue: has("queue"), Namespace: has("namespace"), User: has("user"), Model: has("model")}
	items, hidden := measure.Sum(rows, columns, func(namespace string) bool {
		if namespace == measure.Other { // of several namespaces together: for callers who may see all
			namespace = ""
		}
		return may(namespace)
	})
	out := apiquery.Usage{At: now, Since: time.UnixMilli(since), By: by, Currency: prices.Currency, Items: []apiquery.UsageItem{}, Hidden: usageSums(hidden)}
	out.Total = out.Hidden
	for _, x := range items {
		sums := usageSums(x)
		out.Items = append(out.Items, apiquery.UsageItem{Queue: x.Queue, Namespace: x.Namespace, User: x.User, Model: x.Model, UsageSums: sums})
		out.Total.Milli += sums.Milli
		out.Total.MilliSeconds += sums.MilliSeconds
		out.Total.CostMicro += sums.CostMicro
		out.Total.UnpricedMilliSeconds += sums.UnpricedMilliSeconds
	}
	prices.Each(func(model string, micro int64) {
		out.Prices = append(out.Prices, apiquery.Price{Model: model, Micro: micro})
	})
	return out
}

func usageSums(u measure.Used) apiquery.UsageSums {
	return apiquery.UsageSums{Milli: u.Milli, MilliSeconds: u.Amount / 1000, CostMicro: u.Cost, UnpricedMilliSeconds: u.Unpriced / 1000}
}
