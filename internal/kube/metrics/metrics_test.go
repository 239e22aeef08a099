package metrics

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/component-base/metrics/legacyregistry"
	"k8s.io/klog/v2"
	"k8s.io/klog/v2/textlogger"

	coreanswer "github.com/tangram-dev/tangram/core/answer"
	"github.com/tangram-dev/tangram/core/arbiter"
	"github.com/tangram-dev/tangram/core/measure"
	"github.com/tangram-dev/tangram/core/model"
	"github.com/tangram-dev/tangram/internal/metrictable"
)

// fresh registers the metrics, which are the process's own, as if nothing had been counted:
// tests run in any order.
func fresh(t *testing.T) {
	t.Helper()
	Register()
	for _, counted := range []interface{ Reset() }{duration, attempts, retries, slow, conflicts, vetoes, lock, checks, queueWait, preemptions, lostHours, startError, folded} {
		counted.Reset()
	}
	queueNames.names, plugins.names = measure.NewNames(maxQueues), measure.NewNames(maxPlugins)
	slowLogs = newSlowLogs()
	SetQueues([]string{arbiter.Default, arbiter.Root})
	zero()
}

// scrape returns the values of all series of our metrics, as "name{label=value,...}".
func scrape(t *testing.T) map[string]float64 {
	t.Helper()
	families, err := legacyregistry.DefaultGatherer.Gather()
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]float64{}
	for _, f := range families {
		if !strings.HasPrefix(f.GetName(), "tangram_") {
			continue
		}
		for _, m := range f.GetMetric() {
			var labels []string
			for _, l := range m.GetLabel() {
				labels = append(labels, l.GetName()+"="+l.GetValue())
			}
			key := fmt.Sprintf("%s{%s}", f.GetName(), strings.Join(labels, ","))
			switch {
			case m.Histogram != nil:
				out[key] = float64(m.Histogram.GetSampleCount())
			case m.Counter != nil:
				out[key] = m.Counter.GetValue()
			default:
				out[key] = m.Gauge.GetValue()
			}
		}
	}
	return out
}

// count is how many series a metric has.
func count(series map[string]float64, m metrictable.Metric) (n int) {
	for key := range series {
		if strings.HasPrefix(key, m.Name+"{") {
			n++
		}
	}
	return n
}

func fleetOf(name string, use coreanswer.Use, gpus int64) coreanswer.Fleet {
	f := coreanswer.Fleet{Vendor: model.NVIDIA, Model: model.ParseModel(name)}
	f.Milli[use] = gpus * 1000
	return f
}

// Every metric of the table is there, with the labels the table says, and no other is.
func TestTable(t *testing.T) {
	fresh(t)
	now := time.Now()
	prices, err := measure.NewPrices("CNY", map[string]int64{"t4": 8_500_000})
	if err != nil {
		t.Fatal(err)
	}
	Show(func() State {
		return State{
			At: now, Prices: prices,
			Census: coreanswer.Census{
				Fleet:  []coreanswer.Fleet{fleetOf("t4", coreanswer.Free, 3)},
				Queues: []arbiter.Holding{{Queue: "default", Used: 2000, Share: 4000, Guarantee: 1000, Deserved: 4000, Capability: 8000}},
				Quotas: []arbiter.QuotaUse{{Namespace: "ml", Used: 500, Hard: 2000}}, Pending: []coreanswer.Pending{{Queue: "default", Pods: 2, Gangs: 1}},
			},
			Usage: []measure.Row{{Key: measure.Key{Queue: "default", Namespace: "ml", User: "ada", Model: "t4"}, Amount: gpuHour / 2, Cost: 4_250_000, Unpriced: 3}},
		}
	})
	SetTargets(DefaultTargets())
	Sample(true, true, now.Add(-time.Second))
	Sample(true, true, now)
	Scheduled(klog.Background(), klog.KObj(nil), "default", Timeline{PlanBegan: now, Planned: now, Reserved: now, BindBegan: now, Bound: now, Since: now})
	Unschedulable("Nodes", 2)
	Failed(FailedBind)
	Vetoed("NodeAffinity")
	LockHeld("step", time.Millisecond)
	CheckFailed("full")
	Preempted("default", CauseReclaim, 2)
	Started(now, now.Add(time.Minute))
	SetQueues([]string{"default", "root"})
	for i := range maxPlugins + 1 {
		Vetoed(fmt.Sprint("plugin-", i))
	}
	families, err := legacyregistry.DefaultGatherer.Gather()
	if err != nil {
		t.Fatal(err)
	}
	table := Table().Metrics
	var seen []string
	for _, f := range families {
		if !strings.HasPrefix(f.GetName(), "tangram_") {
			continue
		}
		seen = append(seen, f.GetName())
		i := slices.IndexFunc(table, func(m metrictable.Metric) bool { return m.Name == f.GetName() })
		if i < 0 {
			t.Errorf("%s is not in the table", f.GetName())
			continue
		}
		m := table[i]
		if got := strings.ToLower(f.GetType().String()); got != string(m.Type) {
			t.Errorf("%s: a %s, the table says %s", m.Name, got, m.Type)
		}
		if !strings.HasSuffix(f.GetHelp(), m.Help) { // with the stability before it
			t.Errorf("%s: help %q, the table says %q", m.Name, f.GetHelp(), m.Help)
		}
		var labels []string
		for _, l := range f.GetMetric()[0].GetLabel() {
			labels = append(labels, l.GetName())
		}
		want := m.LabelNames()
		slices.Sort(want)
		if !slices.Equal(labels, want) {
			t.Errorf("%s: labels %v, the table says %v", m.Name, labels, want)
		}
	}
	for _, m := range table {
		if !slices.Contains(seen, m.Name) {
			t.Errorf("%s: nothing to be seen", m.Name)
		}
		for _, text := range []string{m.Unit, m.Help, m.Source} {
			if text == "" {
				t.Errorf("%s: unit, help or source is empty", m.Name)
			}
		}
	}
	series := scrape(t)
	for key, want := range map[string]float64{
		"tangram_gpus{model=t4,state=free,vendor=nvidia}":                       3,
		"tangram_queue_gpus{kind=used,queue=default}":                           2,
		"tangram_queue_gpus{kind=deserved,queue=default}":                       4,
		"tangram_queue_share_ratio{queue=default}":                              0.5,
		"tangram_namespace_quota_gpus{kind=hard,namespace=ml}":                  2,
		"tangram_gpu_hours_total{model=t4,namespace=ml,queue=default,user=ada}": 0.5,
		"tangram_cost_total{model=t4,namespace=ml,queue=default,user=ada}":      4.25,
		"tangram_gpu_hour_price{currency=CNY,model=t4}":                         8.5,
		"tangram_lost_gpu_hours_total{queue=default}":                           2,
		"tangram_leader{}":                                                     1,
		"tangram_scheduler_available_ratio{}":                                  1,
		"tangram_target_completion_ratio{level=alert}":                         0.9,
		"tangram_target_inference_latency_seconds{level=target,metric=}":       0.1,
		"tangram_expected_start_error_seconds{direction=early}":                1,
		"tangram_scheduling_attempts_total{reason=Nodes,result=unschedulable}": 2,
	} {
		if got, ok := series[key]; !ok || got != want {
			t.Errorf("%s is %g (there: %t), want %g", key, got, ok, want)
		}
	}
}

// Names that pods and tenants make up, 100,000 of each, do not become series; queues that
// are gone lose theirs.
func TestCardinality(t *testing.T) {
	fresh(t)
	const many = 100_000
	now := time.Now()
	var queues []string
	census := coreanswer.Census{}
	for i := range many {
		name := fmt.Sprint("queue-", i)
		queues = append(queues, name)
		census.Queues = append(census.Queues, arbiter.Holding{Queue: name, Used: 1000, Share: 1000, Guarantee: 1, Deserved: 1, Capability: 1})
		census.Pending = append(census.Pending, coreanswer.Pending{Queue: fmt.Sprint("made-up-", i), Pods: 1, Gangs: 1})
		census.Quotas = append(census.Quotas, arbiter.QuotaUse{Namespace: fmt.Sprint("space-", i), Used: 1000, Hard: 1000})
		census.Fleet = append(census.Fleet, fleetOf(fmt.Sprint("model", i), coreanswer.Free, 1))
	}
	Show(func() State { return State{At: now, Census: census} })
	SetQueues(queues)
	for i := range many {
		Scheduled(klog.Background(), klog.KObj(nil), queues[i], Timeline{Since: now, PlanBegan: now, Planned: now, Reserved: now, BindBegan: now, Bound: now})
		Preempted(queues[i], CausePriority, 1)
		Preempted(fmt.Sprint("nobody-knows-", i), CauseReclaim, 0)
		Vetoed(fmt.Sprint("made-up-", i))
	}
	series := scrape(t)
	for _, m := range []struct {
		metrictable.Metric
		most int
	}{
		{QueueWait, maxQueues + 1}, {Preemptions, 2 * (maxQueues + 1)}, {LostHours, maxQueues + 1}, {Vetoes, maxPlugins + 1},
		{PendingPods, maxQueues + 1}, {PendingGangs, maxQueues + 1}, {QueueGPUs, 5 * (maxQueues + 1)}, {QueueShareRatio, maxQueues + 1},
		{NamespaceQuota, 2 * (maxSpaces + 1)}, {GPUs, int(coreanswer.Uses) * (maxModels + 1)},
	} {
		if n := count(series, m.Metric); n == 0 || n > m.most {
			t.Errorf("%s has %d series, want 1 to %d", m.Name, n, m.most)
		}
	}
	// Nothing is lost: what has no series of its own is in "other".
	for key, want := range map[string]float64{
		"tangram_pending_pods{queue=other}":                       many,
		"tangram_queue_gpus{kind=used,queue=other}":               many - maxQueues,
		"tangram_namespace_quota_gpus{kind=used,namespace=other}": many - maxSpaces,
		"tangram_gpus{model=other,state=free,vendor=nvidia}":      many - maxModels,
		"tangram_preemptions_total{cause=priority,queue=other}":   many - maxQueues,
		"tangram_preemptions_total{cause=reclaim,queue=other}":    many,
	} {
		if got := series[key]; got != want {
			t.Errorf("%s is %g, want %g", key, got, want)
		}
	}
	// All but one queue are deleted.
	SetQueues([]string{"queue-7"})
	series = scrape(t)
	if n := count(series, QueueWait); n > 2 {
		t.Errorf("%d series of queues that are gone", n)
	}
	if _, ok := series["tangram_queue_wait_seconds{queue=queue-7}"]; !ok {
		t.Error("the queue that exists lost its series")
	}
	Preempted("queue-9", CauseReclaim, 0)
	if _, ok := scrape(t)["tangram_preemptions_total{cause=reclaim,queue=queue-9}"]; ok {
		t.Error("a queue that is gone has a series again")
	}
}

// Phases add up, and a slow decision is logged with them, not too often.
func TestSlow(t *testing.T) {
	fresh(t)
	SetQueues([]string{"slow"})
	var log bytes.Buffer
	logger := textlogger.NewLogger(textlogger.NewConfig(textlogger.Output(&log)))
	at := func(ms int) time.Time { return time.UnixMilli(1_700_000_000_000 + int64(ms)) }
	before := scrape(t)
	for range 50 {
		Scheduled(logger, klog.KObj(nil), "slow", Timeline{Since: at(0), PlanBegan: at(5000), Planned: at(5010), Reserved: at(5030), BindBegan: at(5140), Bound: at(5150)})
	}
	Scheduled(logger, klog.KObj(nil), "slow", Timeline{Since: at(0), PlanBegan: at(5000), Planned: at(5010), Reserved: at(5030), BindBegan: at(5140), Bound: at(5250)})
	Scheduled(logger, klog.KObj(nil), "slow", Timeline{Since: at(0), PlanBegan: at(90_000), Planned: at(90_001), Reserved: at(90_002), BindBegan: at(90_003), Bound: at(90_004)})
	after := scrape(t)
	for key, want := range map[string]float64{
		"tangram_scheduling_slow_total{threshold=100ms}":      51,
		"tangram_scheduling_slow_total{threshold=200ms}":      1,
		"tangram_scheduling_duration_seconds{phase=total}":    52,
		"tangram_scheduling_duration_seconds{phase=decision}": 52,
		"tangram_queue_wait_seconds{queue=slow}":              52,
	} {
		if got := after[key] - before[key]; got != want {
			t.Errorf("%s rose by %g, want %g", key, got, want)
		}
	}
	lines := strings.Count(log.String(), "Slow scheduling decision")
	if lines < 1 || lines > 10 {
		t.Errorf("%d lines in the log, want 1 to 10", lines)
	}
	for _, part := range []string{`decision="150ms"`, `plan="10ms"`, `reserve="20ms"`, `permit="110ms"`, `bind="10ms"`, `waitedBefore="5s"`} {
		if !strings.Contains(log.String(), part) {
			t.Errorf("the log does not say %s:\n%s", part, log.String())
		}
	}
}

func TestTargets(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(*Targets)
		want   string
	}{
		{"good", func(*Targets) {}, ""},
		{"above 1", func(t *Targets) { t.Target.Completion = 95 }, "completion.target"},
		{"not a number", func(t *Targets) { t.Alert.Completion = nan() }, "completion.alert"},
		{"turned around", func(t *Targets) { t.Alert.Completion = .99 }, "completion.alert: is above the target"},
		{"no time", func(t *Targets) { t.Target.Inference = 0 }, "inferenceLatency.target"},
		{"alert before the target", func(t *Targets) { t.Alert.Allocation = time.Second }, "allocation.alert: is below the target"},
		{"no name", func(t *Targets) { t.InferenceMetric = "p95 latency" }, "inferenceLatency.metric"},
	} {
		t.Run(c.name, func(t *testing.T) {
			x := DefaultTargets()
			c.change(&x)
			err := x.Validate()
			if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
				t.Errorf("error %v, want %q", err, c.want)
			}
		})
	}
}

func nan() float64 { zero := 0.0; return zero / zero }
