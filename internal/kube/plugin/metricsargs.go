package plugin

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"k8s.io/utils/ptr"

	"github.com/tangram-dev/tangram/core/measure"
	kubeengine "github.com/tangram-dev/tangram/internal/kube/engine"
	"github.com/tangram-dev/tangram/internal/kube/metrics"
	"github.com/tangram-dev/tangram/internal/kube/observe"
)

// MetricsArgs say what metrics need to know beside the cluster. They are a part of
// GPUQueue's arguments, one for all profiles.
type MetricsArgs struct {
	// PriceTable is a file with prices of GPU hours, as a rule a mounted ConfigMap. It is
	// read again when it changes. Left out: no cost is counted.
	PriceTable string `json:"priceTable,omitempty"`
	// IdleBelow and IdleAfter are when a GPU that is held counts as idle: when its
	// utilization, in percent, has not been above IdleBelow for IdleAfter. Left out: 1, 10m.
	IdleBelow *int   `json:"idleBelow,omitempty"`
	IdleAfter string `json:"idleAfter,omitempty"`
	// Targets are shown as metrics, so that alerts can compare. Left out: requirement
	// document 003's.
	Targets TargetArgs `json:"targets,omitempty"`
}

// TargetArgs are targets with two levels: what should hold, and below which to alert.
type TargetArgs struct {
	// Completion is the percentage of pods that succeed. Left out: 95 and 90.
	Completion *PercentLevels `json:"completion,omitempty"`
	// InferenceLatency is the 95th percentile of requests to serving programs. Left out:
	// 100ms and 150ms.
	InferenceLatency *LatencyLevels `json:"inferenceLatency,omitempty"`
	// Allocation is the 95th percentile of a pod's wait for its GPUs. Left out: 30s, 60s.
	Allocation *DurationLevels `json:"allocation,omitempty"`
}

// PercentLevels are two percentages.
type PercentLevels struct {
	Target *float64 `json:"target,omitempty"`
	Alert  *float64 `json:"alert,omitempty"`
}

// DurationLevels are two durations.
type DurationLevels struct {
	Target string `json:"target,omitempty"`
	Alert  string `json:"alert,omitempty"`
}

// LatencyLevels are two durations, and the histogram that they are about.
type LatencyLevels struct {
	DurationLevels `json:",inline"`
	// Metric is the name of a histogram, in seconds, of the programs that serve requests.
	Metric string `json:"metric,omitempty"`
}

// idle checks when a held GPU counts as idle.
func (a *MetricsArgs) idle() (below int, after time.Duration, err error) {
	if below = ptr.Deref(a.IdleBelow, 1); below < 0 || below > 99 {
		return 0, 0, fmt.Errorf("metrics.idleBelow: %d, must be 0 to 99 percent", below)
	}
	after, err = time.ParseDuration(cmp.Or(a.IdleAfter, "10m"))
	if err != nil || after < time.Second {
		return 0, 0, fmt.Errorf("metrics.idleAfter: %q is not a duration like 10m, of a second or more", a.IdleAfter)
	}
	return below, after, nil
}

// targets checks the targets.
func (a *MetricsArgs) targets() (metrics.Targets, error) {
	out := metrics.DefaultTargets()
	if c := a.Targets.Completion; c != nil {
		if c.Target != nil {
			out.Target.Completion = *c.Target / 100
		}
		if c.Alert != nil {
			out.Alert.Completion = *c.Alert / 100
		}
	}
	var err error
	if l := a.Targets.InferenceLatency; l != nil {
		out.InferenceMetric = l.Metric
		if out.Target.Inference, out.Alert.Inference, err = l.parse(out.Target.Inference, out.Alert.Inference); err != nil {
			return out, fmt.Errorf("metrics.targets.inferenceLatency.%w", err)
		}
	}
	if l := a.Targets.Allocation; l != nil {
		if out.Target.Allocation, out.Alert.Allocation, err = l.parse(out.Target.Allocation, out.Alert.Allocation); err != nil {
			return out, fmt.Errorf("metrics.targets.allocation.%w", err)
		}
	}
	if err := out.Validate(); err != nil {
		return out, fmt.Errorf("metrics.targets.%w", err)
	}
	return out, nil
}

// parse reads two durations; what is left out stays as it is.
func (l *DurationLevels) parse(target, alert time.Duration) (time.Duration, time.Duration, error) {
	for _, x := range []struct {
		field, text string
		into        *time.Duration
	}{{"target", l.Target, &target}, {"alert", l.Alert, &alert}} {
		if x.text == "" {
			continue
		}
		d, err := time.ParseDuration(x.text)
		if err != nil {
			return 0, 0, fmt.Errorf("%s: %q is not a duration like 100ms or 30s", x.field, x.text)
		}
		*x.into = d
	}
	return target, alert, nil
}

// setMetrics applies what GPUQueue's arguments say about metrics. Profiles share them, so
// the price table is followed once.
func (s *Shared) setMetrics(ctx context.Context, e *kubeengine.Engine, a *MetricsArgs) error {
	below, after, err := a.idle()
	if err != nil {
		return err
	}
	targets, err := a.targets()
	if err != nil {
		return err
	}
	e.Observe(func(o *observe.Observer, _ time.Time) { o.SetIdle(below, after) })
	metrics.SetTargets(targets)
	s.mu.Lock()
	defer s.mu.Unlock()
	if a.PriceTable == "" || s.prices != nil {
		return nil
	}
	p := &prices{file: a.PriceTable, set: func(table measure.Prices) {
		e.Observe(func(o *observe.Observer, now time.Time) { o.SetPrices(table, now) })
	}}
	if err := p.read(); err != nil {
		return fmt.Errorf("metrics.priceTable: %w", err)
	}
	s.prices = p
	go p.follow(ctx)
	return nil
}
