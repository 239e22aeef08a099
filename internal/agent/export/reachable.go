package export

import (
	"net/http"

	"github.com/prometheus/client_golang/prometheus"
)

// Reachable shows whether the API server answers the process.
type Reachable struct {
	prometheus.Gauge
	failed prometheus.Counter
}

// NewReachable makes the metrics; register it once.
func NewReachable() *Reachable {
	return &Reachable{
		Gauge:  prometheus.NewGauge(prometheus.GaugeOpts{Name: "tangram_agent_api_server_answering", Help: "Whether the API server answered the last request."}),
		failed: prometheus.NewCounter(prometheus.CounterOpts{Name: "tangram_agent_api_server_failures_total", Help: "Requests that the API server did not answer."}),
	}
}

// Describe implements prometheus.Collector.
func (r *Reachable) Describe(out chan<- *prometheus.Desc) {
	r.Gauge.Describe(out)
	r.failed.Describe(out)
}

// Collect implements prometheus.Collector.
func (r *Reachable) Collect(out chan<- prometheus.Metric) {
	r.Gauge.Collect(out)
	r.failed.Collect(out)
}

// Watch counts what passes through a transport. Requests that the agent itself gave up
// say nothing.
func (r *Reachable) Watch(next http.RoundTripper) http.RoundTripper {
	return roundTrip(func(request *http.Request) (*http.Response, error) {
		response, err := next.RoundTrip(request)
		switch {
		case err == nil:
			r.Set(1)
		case request.Context().Err() == nil:
			r.Set(0)
			r.failed.Inc()
		}
		return response, err
	})
}

type roundTrip func(*http.Request) (*http.Response, error)

// RoundTrip implements http.RoundTripper.
func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }
