package recovery

import (
	"net/http"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/tangram-dev/tangram/core/recovery"
	"github.com/tangram-dev/tangram/internal/metrictable"
)

// Metrics are those of gpu-controller. Nothing grows with pods, nodes or devices: every
// label has the values that definitions.go lists.
type Metrics struct {
	registry *prometheus.Registry

	nodes, devices                                *prometheus.GaugeVec
	isolations, suppressed, recoveries, evictions *prometheus.CounterVec
	detection                                     prometheus.Histogram
	recovery                                      *prometheus.HistogramVec
	mtbf, silence, leads                          prometheus.Gauge
}

// buckets are in seconds, from a second to eight hours; 300 is the target of requirement
// document 003.
var buckets = []float64{1, 2, 5, 10, 20, 30, 60, 90, 120, 180, 240, 300, 600, 1200, 1800, 3600, 7200, 14400, 28800}

// NewMetrics makes and registers them.
func NewMetrics() *Metrics {
	m := &Metrics{
		registry: prometheus.NewRegistry(),
		nodes:    gauges(nodeHealth), devices: gauges(deviceHealth),
		isolations: counters(isolations), suppressed: counters(suppressed), recoveries: counters(recoveries), evictions: counters(evictions),
		detection: prometheus.NewHistogram(prometheus.HistogramOpts{Name: detection.Name, Help: detection.Help, Buckets: buckets}),
		recovery:  prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: recoveryTime.Name, Help: recoveryTime.Help, Buckets: buckets}, recoveryTime.LabelNames()),
		mtbf:      gauge(mtbf), silence: gauge(schedulerSilence), leads: gauge(leading),
	}
	m.registry.MustRegister(m.nodes, m.devices, m.isolations, m.suppressed, m.recoveries, m.evictions, m.detection, m.recovery, m.mtbf, m.silence, m.leads,
		collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	for _, kind := range []string{"workload", "device", "node"} {
		m.recovery.WithLabelValues(kind)
	}
	for _, cause := range recovery.Causes() { // a rate needs a zero to begin with
		m.suppressed.WithLabelValues(string(cause))
	}
	return m
}

func gauge(m metrictable.Metric) prometheus.Gauge {
	return prometheus.NewGauge(prometheus.GaugeOpts{Name: m.Name, Help: m.Help})
}

func gauges(m metrictable.Metric) *prometheus.GaugeVec {
	return prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: m.Name, Help: m.Help}, m.LabelNames())
}

func counters(m metrictable.Metric) *prometheus.CounterVec {
	return prometheus.NewCounterVec(prometheus.CounterOpts{Name: m.Name, Help: m.Help}, m.LabelNames())
}

// Registry is where other parts of the controller add theirs.
func (m *Metrics) Registry() *prometheus.Registry { return m.registry }

// Handler serves them.
func (m *Metrics) Handler() http.Handler {
	return promhttp.HandlerFor(m.registry, promhttp.HandlerOpts{})
}

// Leads says whether this replica works.
func (m *Metrics) Leads(yes bool) {
	m.leads.Set(0)
	if yes {
		m.leads.Set(1)
	}
}

func (m *Metrics) plan(p *recovery.Plan, r recovery.Reliability) {
	for state, n := range map[string]int{"healthy": p.Nodes.Healthy, "degraded": p.Nodes.Degraded, "isolated": p.Nodes.Isolated, "lost": p.Nodes.Lost} {
		m.nodes.WithLabelValues(state).Set(float64(n))
	}
	for i, state := range []string{"healthy", "suspect", "degraded", "failed"} {
		m.devices.WithLabelValues(state).Set(float64(p.Devices[i]))
	}
	for cause, n := range p.Suppressed {
		m.suppressed.WithLabelValues(string(cause)).Add(float64(n))
	}
	for _, d := range p.Detected {
		m.detection.Observe(d.Seconds())
	}
	for _, x := range p.Recovered {
		m.recovery.WithLabelValues(x.Of).Observe(x.Took.Seconds())
	}
	for _, n := range p.Notices {
		if n.Reason == "VerificationFailed" {
			m.recoveries.WithLabelValues("verification-failed").Inc()
		}
	}
	m.mtbf.Set(r.MTBFHours())
	m.silence.Set(p.SchedulerSilence.Seconds())
}

func (m *Metrics) did(a recovery.Action) {
	if kind, ok := map[recovery.Do]string{recovery.IsolateDevice: "device", recovery.IsolateNode: "node"}[a.Do]; ok {
		m.isolations.WithLabelValues(kind, string(a.Cause)).Inc()
	}
	result := map[recovery.Do]string{
		recovery.ReleaseDevice: "device-released", recovery.ReleaseNode: "node-released", recovery.RestartAgent: "agent-restarted",
	}[a.Do]
	if (a.Do == recovery.MarkDevice || a.Do == recovery.MarkNode) && a.Mark.Lifted {
		result = "lifted-by-operator"
	}
	if result != "" {
		m.recoveries.WithLabelValues(result).Inc()
	}
}

func (m *Metrics) evicted(cause recovery.Cause, result string) {
	m.evictions.WithLabelValues(string(cause), result).Inc()
}
