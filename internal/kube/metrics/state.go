package metrics

import (
	"sync"
	"sync/atomic"
	"time"

	"k8s.io/component-base/metrics"

	coreanswer "github.com/tangram-dev/tangram/core/answer"
	"github.com/tangram-dev/tangram/core/arbiter"
	"github.com/tangram-dev/tangram/core/measure"
	"github.com/tangram-dev/tangram/internal/metrictable"
)

// State is what gauges show, as of one moment.
type State struct {
	At     time.Time
	Census coreanswer.Census
	// Usage are the GPU hours, and Prices what they cost; nothing where this process does
	// not lead.
	Usage  []measure.Row
	Folded uint64
	Prices measure.Prices
}

// Source tells the state. It is asked when Prometheus is, at most every few seconds.
type Source func() State

// settings are what the configuration and the leader election say.
type settings struct {
	mu      sync.Mutex
	targets *Targets
	leads   bool
	uptime  measure.Uptime
	sampled time.Time
}

var (
	source  atomic.Pointer[Source]
	current = &settings{}
)

// Show makes gauges show what a source tells.
func Show(s Source) { source.Store(&s) }

// SetTargets makes the targets of the configuration appear.
func SetTargets(t Targets) {
	current.mu.Lock()
	defer current.mu.Unlock()
	current.targets = &t
}

// Sample tells whether this process leads, and whether the scheduler was available since
// the last call. Call it every few seconds.
func Sample(leads, available bool, now time.Time) {
	current.mu.Lock()
	defer current.mu.Unlock()
	if !current.sampled.IsZero() {
		current.uptime.Add(current.sampled.UnixMilli(), now.UnixMilli(), available)
	}
	current.leads, current.sampled = leads, now
}

// collector makes the gauges, and the counters of GPU hours, at each scrape.
type collector struct {
	metrics.BaseStableCollector
}

// shown are the metrics that the collector makes.
var shown = []metrictable.Metric{
	PendingPods, PendingGangs, PendingOldest, GPUs, FragmentationRatio, UnusableFree, QueueGPUs, QueueShareRatio, NamespaceQuota, Reservations,
	GPUHours, Cost, UnpricedHours, Price, Leader, AvailableRatio, TargetCompletion, TargetInference, TargetAllocation, FoldedUsage,
}

var descriptions = func() map[string]*metrics.Desc {
	out := map[string]*metrics.Desc{}
	for _, m := range shown {
		out[m.Name] = metrics.NewDesc(m.Name, m.Help, m.LabelNames(), nil, metrics.ALPHA, "")
	}
	return out
}()

// DescribeWithStability implements metrics.StableCollector.
func (c *collector) DescribeWithStability(out chan<- *metrics.Desc) {
	for _, m := range shown {
		out <- descriptions[m.Name]
	}
}

// CollectWithStability implements metrics.StableCollector.
func (c *collector) CollectWithStability(out chan<- metrics.Metric) {
	w := writer{out}
	now := time.Now()
	current.mu.Lock()
	targets, leads, sampled := current.targets, current.leads, !current.sampled.IsZero()
	up, total := current.uptime.Sums(now.UnixMilli())
	current.mu.Unlock()
	if sampled {
		leader := 0.0
		if leads {
			leader = 1
		}
		w.write(Leader, leader)
	}
	if total > 0 {
		w.write(AvailableRatio, float64(up)/float64(total))
	}
	if targets != nil {
		w.targets(targets)
	}
	s := source.Load()
	if s == nil {
		return
	}
	state := (*s)()
	w.fleet(&state.Census)
	w.queues(&state.Census, state.At)
	w.usage(&state)
}

// writer sends values of a scrape.
type writer struct{ out chan<- metrics.Metric }

func (w writer) write(m metrictable.Metric, value float64, labels ...string) {
	kind := metrics.GaugeValue
	if m.Type == metrictable.Counter {
		kind = metrics.CounterValue
	}
	w.out <- metrics.NewLazyConstMetric(descriptions[m.Name], kind, value, labels...)
}

func (w writer) targets(t *Targets) {
	for level, x := range map[string]Target{"target": t.Target, "alert": t.Alert} { // each is a series
		w.write(TargetCompletion, x.Completion, level)
		w.write(TargetAllocation, x.Allocation.Seconds(), level)
		w.write(TargetInference, x.Inference.Seconds(), level, t.InferenceMetric)
	}
}

func (w writer) fleet(c *coreanswer.Census) {
	admit := fold(c.Fleet, maxModels, func(f coreanswer.Fleet) string { return measure.ModelLabel(f.Model) })
	type key struct{ vendor, model string }
	sums := map[key]*[coreanswer.Uses]int64{}
	for _, f := range c.Fleet {
		k := key{string(f.Vendor), admit(measure.ModelLabel(f.Model))}
		if sums[k] == nil {
			sums[k] = &[coreanswer.Uses]int64{}
		}
		for use, milli := range f.Milli {
			sums[k][use] += milli
		}
	}
	for k, milli := range sums { // each is a series
		for use := range coreanswer.Uses {
			w.write(GPUs, float64(milli[use])/1000, k.vendor, k.model, use.String())
		}
	}
	free, unusable := measure.Unusable(c.Shapes, c.Classes)
	w.write(UnusableFree, float64(unusable)/1000)
	w.write(FragmentationRatio, float64(unusable)/float64(max(free, 1)))
	w.write(Reservations, float64(c.Reservations))
}

// queueSums is one queue's figures, or those of all that are folded into "other".
type queueSums struct {
	pods, gangs int
	oldest      float64
	milli       map[string]int64 // GPUs by kind; what no queue says is not in it
}

// queues sends what waits in queues and what they use.
func (w writer) queues(c *coreanswer.Census, now time.Time) {
	admit := fold(c.Queues, maxQueues, func(q arbiter.Holding) string { return q.Queue })
	known := map[string]bool{}
	sums := map[string]*queueSums{}
	of := func(queue string) *queueSums {
		if sums[queue] == nil {
			sums[queue] = &queueSums{milli: map[string]int64{"used": 0, "entitled": 0}}
		}
		return sums[queue]
	}
	for _, q := range c.Queues {
		known[q.Queue] = true
		s := of(admit(q.Queue))
		s.milli["used"] += q.Used
		s.milli["entitled"] += q.Share
		for kind, said := range map[string]int64{"guarantee": q.Guarantee, "deserved": q.Deserved, "capability": q.Capability} {
			if said >= 0 {
				s.milli[kind] += said
			}
		}
	}
	for _, p := range c.Pending {
		queue := measure.Other // a queue that pods name and that does not exist
		if known[p.Queue] {
			queue = admit(p.Queue)
		}
		s := of(queue)
		s.pods += p.Pods
		s.gangs += p.Gangs
		s.oldest = max(s.oldest, now.Sub(time.Unix(0, p.Oldest)).Seconds())
	}
	for queue, s := range sums { // each is a series
		w.write(PendingPods, float64(s.pods), queue)
		w.write(PendingGangs, float64(s.gangs), queue)
		w.write(PendingOldest, s.oldest, queue)
		for kind, milli := range s.milli {
			w.write(QueueGPUs, float64(milli)/1000, queue, kind)
		}
		if entitled := s.milli["entitled"]; entitled > 0 {
			w.write(QueueShareRatio, float64(s.milli["used"])/float64(entitled), queue)
		}
	}
	w.quotas(c)
}

func (w writer) quotas(c *coreanswer.Census) {
	admit := fold(c.Quotas, maxSpaces, func(q arbiter.QuotaUse) string { return q.Namespace })
	sums := map[string][2]int64{}
	for _, q := range c.Quotas {
		name := admit(q.Namespace)
		sums[name] = [2]int64{sums[name][0] + q.Used, sums[name][1] + q.Hard}
	}
	for name, s := range sums { // each is a series
		w.write(NamespaceQuota, float64(s[0])/1000, name, "used")
		w.write(NamespaceQuota, float64(s[1])/1000, name, "hard")
	}
}

const gpuHour = 1000 * 3_600_000 // one GPU hour in the meter's unit

func (w writer) usage(s *State) {
	unpriced := map[string]int64{}
	for _, r := range s.Usage {
		labels := []string{r.Queue, r.Namespace, r.User, r.Model}
		w.write(GPUHours, float64(r.Amount)/gpuHour, labels...)
		if s.Prices.Set() {
			w.write(Cost, float64(r.Cost)/1e6, labels...)
			unpriced[r.Model] += r.Unpriced
		}
	}
	for m, amount := range unpriced { // each is a series
		if amount > 0 {
			w.write(UnpricedHours, float64(amount)/gpuHour, m)
		}
	}
	s.Prices.Each(func(model string, micro int64) { w.write(Price, float64(micro)/1e6, model, s.Prices.Currency) })
	w.write(FoldedUsage, float64(s.Folded))
}
