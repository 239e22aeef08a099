package metrics

import (
	"sync"
	"sync/atomic"
	"time"

	"k8s.io/component-base/metrics"

	coreanswer "github.com/tangram-dev/tangram/core/answer"
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

var descriptions = describe()

func describe() map[string]*metrics.Desc {
	out := map[string]*metrics.Desc{}
	for _, m := range shown {
		out[m.Name] = metrics.NewDesc(m.Name, m.Help, m.LabelNames(), nil, metrics.ALPHA, "")
	}
	return out
}

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
		w.gauge(Leader, truth(leads))
	}
	if total > 0 {
		w.gauge(AvailableRatio, float64(up)/float64(total))
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

func (w writer) gauge(m metrictable.Metric, value float64, labels ...string) {
	w.out <- metrics.NewLazyConstMetric(descriptions[m.Name], metrics.GaugeValue, value, labels...)
}

func (w writer) counter(m metrictable.Metric, value float64, labels ...string) {
	w.out <- metrics.NewLazyConstMetric(descriptions[m.Name], metrics.CounterValue, value, labels...)
}

func (w writer) targets(t *Targets) {
	for level, x := range map[string]Target{"target": t.Target, "alert": t.Alert} { // each is a series
		w.gauge(TargetCompletion, x.Completion, level)
		w.gauge(TargetAllocation, x.Allocation.Seconds(), level)
		w.gauge(TargetInference, x.Inference.Seconds(), level, t.InferenceMetric)
	}
}

// fleet sends what the devices do.
func (w writer) fleet(c *coreanswer.Census) {
	var models []string
	for _, f := range c.Fleet {
		models = append(models, measure.ModelLabel(f.Model))
	}
	admit := fold(models, maxModels)
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
			w.gauge(GPUs, float64(milli[use])/1000, k.vendor, k.model, use.String())
		}
	}
	free, unusable := measure.Unusable(c.Shapes, c.Classes)
	w.gauge(UnusableFree, float64(unusable)/1000)
	ratio := 0.0
	if free > 0 {
		ratio = float64(unusable) / float64(free)
	}
	w.gauge(FragmentationRatio, ratio)
	w.gauge(Reservations, float64(c.Reservations))
}

// queueSums is one queue's figures, or those of all that are folded into "other".
type queueSums struct {
	pods, gangs                                     int
	oldest                                          float64
	used, entitled, guarantee, deserved, capability int64
	guaranteed, deserves, limited                   bool
}

// queues sends what waits in queues and what they use.
func (w writer) queues(c *coreanswer.Census, now time.Time) {
	var names []string
	for _, q := range c.Queues {
		names = append(names, q.Queue)
	}
	admit := fold(names, maxQueues)
	known := map[string]bool{}
	sums := map[string]*queueSums{}
	of := func(queue string) *queueSums {
		if sums[queue] == nil {
			sums[queue] = &queueSums{}
		}
		return sums[queue]
	}
	for _, q := range c.Queues {
		known[q.Queue] = true
		s := of(admit(q.Queue))
		s.used += q.Used
		s.entitled += q.Share
		for _, x := range []struct {
			sum  *int64
			is   *bool
			said int64
		}{{&s.guarantee, &s.guaranteed, q.Guarantee}, {&s.deserved, &s.deserves, q.Deserved}, {&s.capability, &s.limited, q.Capability}} {
			if x.said >= 0 {
				*x.sum, *x.is = *x.sum+x.said, true
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
		w.gauge(PendingPods, float64(s.pods), queue)
		w.gauge(PendingGangs, float64(s.gangs), queue)
		w.gauge(PendingOldest, s.oldest, queue)
		w.gauge(QueueGPUs, float64(s.used)/1000, queue, "used")
		w.gauge(QueueGPUs, float64(s.entitled)/1000, queue, "entitled")
		if s.guaranteed {
			w.gauge(QueueGPUs, float64(s.guarantee)/1000, queue, "guarantee")
		}
		if s.deserves {
			w.gauge(QueueGPUs, float64(s.deserved)/1000, queue, "deserved")
		}
		if s.limited {
			w.gauge(QueueGPUs, float64(s.capability)/1000, queue, "capability")
		}
		if s.entitled > 0 {
			w.gauge(QueueShareRatio, float64(s.used)/float64(s.entitled), queue)
		}
	}
	w.quotas(c)
}

// quotas sends what namespaces use of their quotas.
func (w writer) quotas(c *coreanswer.Census) {
	var spaces []string
	for _, q := range c.Quotas {
		spaces = append(spaces, q.Namespace)
	}
	admit := fold(spaces, maxSpaces)
	sums := map[string][2]int64{}
	for _, q := range c.Quotas {
		name := admit(q.Namespace)
		sums[name] = [2]int64{sums[name][0] + q.Used, sums[name][1] + q.Hard}
	}
	for name, s := range sums { // each is a series
		w.gauge(NamespaceQuota, float64(s[0])/1000, name, "used")
		w.gauge(NamespaceQuota, float64(s[1])/1000, name, "hard")
	}
}

// gpuHour is one GPU hour in the meter's unit.
const gpuHour = 1000 * 3_600_000

// usage sends GPU hours and what they cost.
func (w writer) usage(s *State) {
	unpriced := map[string]int64{}
	for _, r := range s.Usage {
		labels := []string{r.Queue, r.Namespace, r.User, r.Model}
		w.counter(GPUHours, float64(r.Amount)/gpuHour, labels...)
		if s.Prices.Set() {
			w.counter(Cost, float64(r.Cost)/1e6, labels...)
			unpriced[r.Model] += r.Unpriced
		}
	}
	for m, amount := range unpriced { // each is a series
		if amount > 0 {
			w.counter(UnpricedHours, float64(amount)/gpuHour, m)
		}
	}
	s.Prices.Each(func(model string, micro int64) { w.gauge(Price, float64(micro)/1e6, model, s.Prices.Currency) })
	w.counter(FoldedUsage, float64(s.Folded))
}

func truth(b bool) float64 {
	if b {
		return 1
	}
	return 0
}
