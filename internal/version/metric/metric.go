// Package metric shows the version of a program as a Prometheus metric.
package metric

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/tangram-dev/tangram/internal/version"
)

// BuildInfo is tangram_build_info, which is always 1: join it to other metrics to see
// which versions run.
func BuildInfo(program string) prometheus.Collector {
	info := version.Get()
	return prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "tangram_build_info",
		Help: "Always 1; the labels say which program this is and what it was built from.",
		ConstLabels: prometheus.Labels{
			"program": program, "version": info.Version, "go_version": info.Go, "platform": info.Platform,
		},
	}, func() float64 { return 1 })
}
