package export

import (
	"errors"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/tangram-dev/tangram/core/health"
	"github.com/tangram-dev/tangram/internal/agent/device"
)

// Metrics are the agent's metrics about itself on one node. Its methods may be called at any
// time.
type Metrics struct {
	calls                         *prometheus.CounterVec
	took                          *prometheus.HistogramVec
	answering, watched            prometheus.Gauge
	changes, resets               *prometheus.CounterVec
	corrected                     prometheus.Counter
	allocations, writes, mps, mig *prometheus.CounterVec
	kubelet, serving              prometheus.Gauge
	unsaved                       *prometheus.CounterVec
	all                           []prometheus.Collector
}

// NewMetrics makes the metrics of a node; register it once. Agents of several nodes go
// into one registry: the label Hostname tells them apart.
func NewMetrics(node string) *Metrics {
	host := prometheus.Labels{"Hostname": node}
	a := &Metrics{}
	counter := func(name, help string, labels ...string) *prometheus.CounterVec {
		c := prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help, ConstLabels: host}, labels)
		a.all = append(a.all, c)
		return c
	}
	gauge := func(name, help string) prometheus.Gauge {
		g := prometheus.NewGauge(prometheus.GaugeOpts{Name: name, Help: help, ConstLabels: host})
		a.all = append(a.all, g)
		return g
	}
	a.calls = counter("tangram_agent_backend_calls_total", "Calls of the driver, by what came of them.", "call", "result")
	a.took = prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: "tangram_agent_backend_call_seconds", Help: "Duration of calls of the driver.",
		Buckets: []float64{.001, .01, .1, 1, 10, 100}, ConstLabels: host}, []string{"call"})
	a.all = append(a.all, a.took)
	a.answering = gauge("tangram_agent_driver_answering", "Whether the driver answered the last question for samples.")
	a.watched = gauge("tangram_agent_events_watched", "Whether errors of the driver are being received.")
	a.changes = counter("tangram_agent_health_changes_total", "Changes of the state of devices, by the new one.", "state")
	a.resets = counter("tangram_agent_resets_total", "Resets of devices, by what came of them.", "result")
	a.corrected = prometheus.NewCounter(prometheus.CounterOpts{Name: "tangram_agent_records_corrected_total",
		Help: "Records of pods that were corrected to what kubelet gave.", ConstLabels: host})
	a.all = append(a.all, a.corrected)
	a.allocations = counter("tangram_agent_allocations_total", "Allocations for kubelet, by step and by what came of them.", "step", "result")
	a.writes = counter("tangram_agent_gpunode_writes_total", "Writes of the GPUNode, by part and by what came of them.", "part", "result")
	a.mps = counter("tangram_agent_mps_actions_total", "Starts and stops of MPS daemons, by what came of them.", "action", "result")
	a.mig = counter("tangram_agent_mig_actions_total", "Creations and destructions of MIG instances, by what came of them.", "action", "result")
	a.kubelet = gauge("tangram_agent_kubelet_answering", "Whether kubelet answered the last question for the devices of pods.")
	a.serving = gauge("tangram_agent_serving", "Whether the agent is the node's device plugin.")
	a.unsaved = counter("tangram_agent_failed_file_writes_total", "Files that could not be written, by what they are for.", "file")
	return a
}

// Describe implements prometheus.Collector.
func (a *Metrics) Describe(out chan<- *prometheus.Desc) {
	for _, c := range a.all {
		c.Describe(out)
	}
}

// Collect implements prometheus.Collector.
func (a *Metrics) Collect(out chan<- prometheus.Metric) {
	for _, c := range a.all {
		c.Collect(out)
	}
}

// Call counts a call of the back end, by the name of its method.
func (a *Metrics) Call(call string, err error, took time.Duration) {
	a.calls.WithLabelValues(call, result(err)).Inc()
	a.took.WithLabelValues(call).Observe(took.Seconds())
}

// Driver notes whether the driver answers and whether its errors are received.
func (a *Metrics) Driver(answers, watched bool) {
	a.answering.Set(number(answers))
	a.watched.Set(number(watched))
}

// Kubelet notes whether kubelet answers.
func (a *Metrics) Kubelet(answers bool) { a.kubelet.Set(number(answers)) }

// Serving notes whether the agent is the node's device plugin.
func (a *Metrics) Serving(yes bool) { a.serving.Set(number(yes)) }

// NotWritten counts a file that could not be written: health or allocation.
func (a *Metrics) NotWritten(file string) { a.unsaved.WithLabelValues(file).Inc() }

// HealthChange counts a change of a device's state.
func (a *Metrics) HealthChange(to health.State) { a.changes.WithLabelValues(to.String()).Inc() }

// Reset counts a reset of a device.
func (a *Metrics) Reset(err error) { a.resets.WithLabelValues(result(err)).Inc() }

// RecordCorrected counts a record that was corrected.
func (a *Metrics) RecordCorrected() { a.corrected.Inc() }

// Allocation counts an answer to kubelet; step is such as Allocate or PreStartContainer.
func (a *Metrics) Allocation(step string, err error) {
	a.allocations.WithLabelValues(step, result(err)).Inc()
}

// GPUNodeWrite counts a write; part is spec, status or labels.
func (a *Metrics) GPUNodeWrite(part string, err error) {
	a.writes.WithLabelValues(part, result(err)).Inc()
}

// MPS counts an action on an MPS daemon, such as start, stop or restart.
func (a *Metrics) MPS(action string, err error) { a.mps.WithLabelValues(action, result(err)).Inc() }

// MIG counts an action on a MIG instance, such as create or destroy.
func (a *Metrics) MIG(action string, err error) { a.mig.WithLabelValues(action, result(err)).Inc() }

// result is an error as one of few words.
func result(err error) string {
	switch {
	case err == nil:
		return "ok"
	case errors.Is(err, device.ErrTimeout):
		return "timeout"
	case errors.Is(err, device.ErrBusy):
		return "busy"
	case errors.Is(err, device.ErrNotFound):
		return "not_found"
	case errors.Is(err, device.ErrNotSupported):
		return "not_supported"
	case errors.Is(err, device.ErrNoDriver):
		return "no_driver"
	default:
		return "error"
	}
}

func number(yes bool) float64 {
	if yes {
		return 1
	}
	return 0
}

// Handler serves what a registry gathers. Two scrapes at a time: more of them are a
// mistake of configuration, and must not cost the node.
func Handler(registry prometheus.Gatherer) http.Handler {
	return promhttp.HandlerFor(registry, promhttp.HandlerOpts{MaxRequestsInFlight: 2, Timeout: 10 * time.Second})
}
