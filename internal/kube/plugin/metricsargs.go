package plugin

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"io"
	"math"
	"os"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/klog/v2"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/yaml"

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

// setMetrics applies GPUQueue's arguments about metrics; profiles share one price table.
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

// priceFile is a table of prices as people write it.
type priceFile struct {
	// Currency is what prices are in.
	Currency string `json:"currency"`
	// PerGPUHour is the price of an hour of one GPU, by model in any spelling. Of several
	// that match a device the one that says more counts: "A100 80GB" before "A100".
	PerGPUHour map[string]float64 `json:"perGPUHour"`
}

// parsePrices reads a table of prices. Errors name the field.
func parsePrices(text []byte) (measure.Prices, error) {
	var f priceFile
	if err := yaml.UnmarshalStrict(text, &f); err != nil {
		return measure.Prices{}, err
	}
	micro := map[string]int64{}
	for name, v := range f.PerGPUHour {
		if math.IsNaN(v) || v < 0 || v*1e6 > float64(measure.MaxPrice) {
			return measure.Prices{}, fmt.Errorf("perGPUHour[%s]: %g, must be 0 to %d", name, v, measure.MaxPrice/1_000_000)
		}
		micro[name] = int64(math.Round(v * 1e6))
	}
	return measure.NewPrices(f.Currency, micro)
}

const (
	// priceEvery is how often the file is looked at: a ConfigMap takes a minute anyway.
	priceEvery = 30 * time.Second
	// maxPriceFile is the most a ConfigMap can hold.
	maxPriceFile = 1 << 20
)

type prices struct {
	file string
	text []byte
	set  func(measure.Prices)
}

// read reads the file, if it has changed.
func (p *prices) read() error {
	f, err := os.Open(p.file)
	if err != nil {
		return err
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, maxPriceFile+1))
	switch {
	case err != nil:
		return err
	case len(text) > maxPriceFile:
		return fmt.Errorf("%s: more than %d bytes", p.file, maxPriceFile)
	case p.text != nil && bytes.Equal(text, p.text):
		return nil
	}
	p.text = text
	table, err := parsePrices(text)
	if err != nil {
		return fmt.Errorf("%s: %w", p.file, err)
	}
	p.set(table)
	return nil
}

// follow reads the file again and again. One that is invalid is reported and changes nothing.
func (p *prices) follow(ctx context.Context) {
	wait.UntilWithContext(ctx, func(ctx context.Context) {
		if err := p.read(); err != nil {
			klog.FromContext(ctx).Error(err, "Price table not read: the last valid one counts", "file", p.file)
		}
	}, priceEvery)
}
