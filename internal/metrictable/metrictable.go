// Package metrictable is how Tangram's programs describe their metrics: one value per
// metric, from which both the metric itself and its row in docs/reference/metrics.md are
// made. It knows no metrics library, so that every program may import it.
package metrictable

// Type is what kind of metric it is, in Prometheus' words.
type Type string

// Types.
const (
	Counter   Type = "counter"
	Gauge     Type = "gauge"
	Histogram Type = "histogram"
)

// Metric describes one metric.
type Metric struct {
	// Name is the full name, prefix and unit included.
	Name string
	Type Type
	// Labels are the metric's labels, in the order in which code passes their values.
	Labels []Label
	// Unit is what the value counts: seconds, GPUs, pods.
	Unit string
	// Help is one sentence: what is counted, and when.
	Help string
	// Source is where the value comes from: the step, plugin or object in which it is
	// measured.
	Source string
	// StandsFor are the names that the requirement documents use for it, with the
	// document's number: "003 gpu_scheduler_latency".
	StandsFor []string
}

// Label is one label of a metric.
type Label struct {
	Name string
	// Values are the values it can have, in words: "queue, plan, bind", or what bounds
	// them.
	Values string
}

// NewCounter describes a counter.
func NewCounter(name, unit, source, help string, labels ...Label) Metric {
	return Metric{Name: name, Type: Counter, Unit: unit, Source: source, Help: help, Labels: labels}
}

// NewGauge describes a gauge.
func NewGauge(name, unit, source, help string, labels ...Label) Metric {
	return Metric{Name: name, Type: Gauge, Unit: unit, Source: source, Help: help, Labels: labels}
}

// NewHistogram describes a histogram.
func NewHistogram(name, unit, source, help string, labels ...Label) Metric {
	return Metric{Name: name, Type: Histogram, Unit: unit, Source: source, Help: help, Labels: labels}
}

// By is a label and its values, in words.
func By(name, values string) Label { return Label{Name: name, Values: values} }

// For is the metric with the names that the requirement documents use for it.
func (m Metric) For(names ...string) Metric {
	m.StandsFor = names
	return m
}

// LabelNames are the names of a metric's labels, in order.
func (m *Metric) LabelNames() []string {
	out := make([]string, len(m.Labels))
	for i, l := range m.Labels {
		out[i] = l.Name
	}
	return out
}

// Table is the metrics of one program.
type Table struct {
	// Program is the program that serves them, Where how they are served.
	Program, Where string
	Metrics        []Metric
	// Common are labels that many of the metrics have, in this order: the page lists them
	// once.
	Common []string
}
